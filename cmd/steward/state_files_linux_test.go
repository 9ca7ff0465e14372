package main

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/livhana/steward/cmd/steward/daemon"
)

// A start with too few descriptors fails, and the next one still knows what the last one knew.
func TestFewDescriptorsKeepTheMemory(t *testing.T) {
	r := newRig(t, "[escalate]\nchannels = []\n")
	r.boot("p")
	p := r.start("p")
	r.shows(`"codex-cursor"`)
	_ = p.Process.Kill()
	<-p.ended
	r.write("state/"+daemon.MemoryFile, `{"last_look": "2026-01-01T00:00:00Z", "projects": {"kept": {"since": "2026-01-01T00:00:00Z"}}}`)
	for n := 8; n < 17; n += 2 {
		c := r.spawn(r.command("/bin/sh", "-c", fmt.Sprintf("ulimit -n %d; exec steward run --project p", n)))
		select {
		case <-c.ended:
		case <-time.After(time.Second):
			c.kill()
		}
		if aside, _ := filepath.Glob(filepath.Join(r.state, "*.bad*")); len(aside) > 0 {
			t.Fatalf("with %d descriptors: %v", n, aside)
		}
		if !reads(filepath.Join(r.state, daemon.MemoryFile), `"kept"`) {
			t.Fatalf("with %d descriptors the memory was lost", n)
		}
	}
}
