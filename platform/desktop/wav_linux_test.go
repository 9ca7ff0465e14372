package desktop

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"
)

// tone returns a WAV of 8000 samples per second that alternates between height and -height.
func tone(length time.Duration, height int16) []byte {
	samples := make([]int16, int(length.Seconds()*8000))
	for i := range samples {
		samples[i] = height - 2*height*int16(i/8%2)
	}
	var b bytes.Buffer
	size := uint32(2 * len(samples))
	for _, v := range []any{
		[]byte("RIFF"), size + 36, []byte("WAVEfmt "), uint32(16), uint16(1), uint16(1), uint32(8000), uint32(16000), uint16(2), uint16(16),
		[]byte("data"), size, samples,
	} {
		_ = binary.Write(&b, binary.LittleEndian, v)
	}
	return b.Bytes()
}

func TestSoundLength(t *testing.T) {
	good := tone(time.Second, 9000)
	if got, err := soundLength(good); err != nil || got != time.Second {
		t.Error(got, err)
	}
	unpatched := bytes.Clone(good) // a stream's header: the sizes are unknown
	copy(unpatched[40:], "\xff\xff\xff\x7f")
	if got, err := soundLength(unpatched); err != nil || got != time.Second {
		t.Error(got, err)
	}
	eight := bytes.Clone(good)
	eight[34] = 8
	for name, wav := range map[string][]byte{
		"empty": nil, "head": good[:44], "silence": tone(time.Second, 3), "a click": tone(10*time.Millisecond, 9000),
		"text": bytes.Repeat([]byte("hello "), 20), "no samples": good[:46], "8 bit": eight,
	} {
		if got, err := soundLength(wav); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func FuzzSoundLength(f *testing.F) {
	f.Add(tone(50*time.Millisecond, 9000))
	f.Add(tone(0, 0))
	f.Add([]byte("RIFF\x00\x00\x00\x00WAVEdata\xff\xff\xff\xfffmt \xff\xff\xff\xff0000000000000000"))
	f.Fuzz(func(t *testing.T, wav []byte) {
		if got, err := soundLength(wav); err == nil && got <= 0 {
			t.Errorf("audible for %v", got)
		}
	})
}
