package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

const (
	earRate  = 22050         // samples per second of the recording
	earBlock = "10"          // ms, the longest piece that is played and recorded at once
	audible  = 1 << 15 / 100 // one per cent of full scale
)

// errNoSound: the machine lacks a tool of the voice or of the ear.
var errNoSound = errors.New("not measured: it needs pulseaudio, pactl, parec, paplay and espeak-ng")

// ear is a sound server with one loudspeaker, which is no device but a recording.
type ear struct {
	server string // for PULSE_SERVER
	pulse  *exec.Cmd
	parec  *exec.Cmd
	ended  chan struct{}

	mu    sync.Mutex
	any   bool
	first time.Time // the first audible sample since arm
	last  time.Time // the last one
}

func startEar(dir string) (*ear, error) {
	for _, tool := range []string{"pulseaudio", "pactl", "parec", "paplay", "espeak-ng"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, errNoSound
		}
	}
	socket, script := filepath.Join(dir, "ear.sock"), filepath.Join(dir, "ear.pa")
	text := "load-module module-null-sink sink_name=ear\nload-module module-native-protocol-unix auth-anonymous=1 socket=" + socket + "\n"
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		return nil, err
	}
	e := &ear{server: "unix:" + socket, ended: make(chan struct{})}
	e.pulse = e.command(dir, "pulseaudio", "-n", "--use-pid-file=0", "--exit-idle-time=-1", "--disable-shm=1", "-F", script)
	if err := e.pulse.Start(); err != nil {
		return nil, err
	}
	if _, err := await("the sound server", func() bool { return e.command(dir, "pactl", "list", "short", "sinks").Run() == nil }); err != nil {
		return nil, errors.Join(err, end(e.pulse))
	}
	if err := e.record(dir); err != nil {
		return nil, errors.Join(err, end(e.pulse))
	}
	if _, err := await("the recording", func() bool { e.mu.Lock(); defer e.mu.Unlock(); return e.any }); err != nil {
		e.stop()
		return nil, err
	}
	return e, nil
}

func (e *ear) record(dir string) error {
	e.parec = e.command(dir, "parec", "-d", "ear.monitor", "--raw", "--format=s16le", fmt.Sprintf("--rate=%d", earRate), "--channels=1", "--latency-msec="+earBlock)
	out, err := e.parec.StdoutPipe()
	if err != nil {
		return err
	}
	if err := e.parec.Start(); err != nil {
		return err
	}
	go e.hear(out)
	return nil
}

// command runs a tool of the sound server with a home of its own.
func (e *ear) command(dir, name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "XDG_RUNTIME_DIR=" + dir, "PULSE_SERVER=" + e.server}
	if name == "pulseaudio" {
		c.Env = c.Env[:3]
	}
	return c
}

// hear dates every audible sample. The loudspeaker hands over a piece when it begins to play it.
func (e *ear) hear(out io.Reader) {
	defer close(e.ended)
	buffer := make([]byte, 4096)
	for {
		n, err := io.ReadAtLeast(out, buffer, 2)
		at := time.Now()
		if err != nil {
			return
		}
		if n%2 == 1 { // the other half of a sample
			if _, err := io.ReadFull(out, buffer[n:n+1]); err != nil {
				return
			}
			n++
		}
		e.note(buffer[:n], at)
	}
}

func (e *ear) note(piece []byte, at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.any = true
	for i := 0; i < len(piece); i += 2 {
		if v := int16(binary.LittleEndian.Uint16(piece[i:])); v <= audible && v >= -audible {
			continue
		}
		e.last = at.Add(time.Duration(i) / 2 * time.Second / earRate)
		if e.first.IsZero() {
			e.first = e.last
		}
	}
}

// arm waits for silence, a second of it, and then for the next sound.
func (e *ear) arm() error {
	_, err := await("silence", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.first = time.Time{}
		return time.Since(e.last) > time.Second
	})
	return err
}

// sound gives the moment of the first audible sample since arm.
func (e *ear) sound() (at time.Time, err error) {
	_, err = await("the voice", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		at = e.first
		return !at.IsZero()
	})
	return at, err
}

func (e *ear) stop() {
	_ = e.parec.Process.Kill()
	<-e.ended // before Wait, which closes the pipe
	_ = e.parec.Wait()
	_ = end(e.pulse)
}

func end(c *exec.Cmd) error {
	if err := c.Process.Kill(); err != nil {
		return err
	}
	_ = c.Wait() // "killed" is what it says
	return nil
}
