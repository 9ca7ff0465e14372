package desktop

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

const (
	wavLimit  = 64 << 20              // bytes; 500 spoken characters are 2 MB
	loud      = 1 << 15 / 100         // one per cent of full scale
	loudLeast = 30 * time.Millisecond // total length of samples above loud; shorter than any word
	headSize  = 44                    // a WAV without samples
)

// measure returns the length of an audible 16-bit PCM file. A synthesizer that failed silently leaves no file, a bare
// header, or a file of zeros.
func measure(path string) (time.Duration, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, fmt.Errorf("it wrote no sound: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, wavLimit))
	if err != nil {
		return 0, fmt.Errorf("read its sound: %w", err)
	}
	return soundLength(data)
}

// soundLength decodes RIFF/WAVE. The size in the data chunk is only an upper limit: a synthesizer that could not seek
// back to the header leaves an impossible size.
func soundLength(wav []byte) (time.Duration, error) {
	if len(wav) <= headSize {
		return 0, fmt.Errorf("its sound is empty (%d bytes)", len(wav))
	}
	if string(wav[:4]) != "RIFF" || string(wav[8:12]) != "WAVE" {
		return 0, errors.New("its sound is no WAV file")
	}
	perSecond := 0 // samples of all channels
	for rest := wav[12:]; len(rest) >= 8; {
		name, size := string(rest[:4]), int64(binary.LittleEndian.Uint32(rest[4:8]))
		rest = rest[8:]
		body := rest[:min(size, int64(len(rest)))]
		switch {
		case name == "fmt " && len(body) >= 16:
			if binary.LittleEndian.Uint16(body[14:]) != 16 {
				return 0, errors.New("its sound is not 16-bit PCM")
			}
			perSecond = int(binary.LittleEndian.Uint16(body[2:])) * int(binary.LittleEndian.Uint32(body[4:]))
		case name == "data" && perSecond > 0:
			return audible(body, perSecond)
		}
		rest = rest[min(size+size%2, int64(len(rest))):]
	}
	return 0, errors.New("its sound holds no samples")
}

func audible(samples []byte, perSecond int) (time.Duration, error) {
	count, over := len(samples)/2, 0
	for i := range count {
		if v := int16(binary.LittleEndian.Uint16(samples[2*i:])); v > loud || v < -loud {
			over++
		}
	}
	if span(over, perSecond) < loudLeast {
		return 0, errors.New("its sound is silence")
	}
	return span(count, perSecond), nil
}

func span(samples, perSecond int) time.Duration {
	return time.Duration(float64(samples) / float64(perSecond) * float64(time.Second))
}
