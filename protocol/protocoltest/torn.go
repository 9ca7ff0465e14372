package protocoltest

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
)

// sureAfter is how long a file must stay bad before it may be reported as a fault.
const sureAfter = 2 * time.Second

// torn: while a client truncates and rewrites a file in a tight loop, no agent or task vanishes, and there is no fault.
func (s Suite) torn(t *testing.T, c Torn) {
	b := s.lay(t, &Case{Files: c.Files})
	file := filepath.Join(b.dir, filepath.FromSlash(c.File))
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Shows(b.scan(t)); err != nil {
		t.Fatalf("before the writer starts: %v", err)
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go rewrite(file, text, stop, done)
	for i := range 400 {
		b.now = s.Now()
		order := protocol.ScanOrder{Now: b.now}
		if i%2 == 0 {
			order.Hints = []string{c.File}
		}
		snap := b.a.Observe(t.Context(), order)
		if err := c.Shows(&snap); err != nil {
			t.Errorf("scan %d: %v", i, err)
			break
		}
		for _, f := range snap.Faults {
			if b.now.Sub(f.Since) < sureAfter {
				t.Errorf("scan %d: a fault after %v: %+v", i, b.now.Sub(f.Since), f)
			}
		}
	}
	close(stop)
	<-done
	b.now = s.Now().Add(time.Minute) // everything to be read again is due
	if snap := b.scan(t); len(snap.Faults) > 0 || c.Shows(snap) != nil {
		t.Errorf("after the writer has gone: %+v, %v", snap.Faults, c.Shows(snap))
	}
}

// rewrite truncates and writes in two halves, as naive clients do, and leaves the file whole.
func rewrite(file string, text []byte, stop, done chan struct{}) {
	defer close(done)
	for {
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_TRUNC, fixtureMode)
		if err != nil {
			return
		}
		_, _ = f.Write(text[:len(text)/2])
		_, _ = f.Write(text[len(text)/2:])
		_ = f.Close()
		select {
		case <-stop:
			return
		default:
		}
	}
}
