package e2e

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/livhana/steward/test/rig"

	"github.com/livhana/steward/cmd/steward/daemon"
)

// A start with too few descriptors fails, and the next one still knows what the last one knew.
func TestFewDescriptorsKeepTheMemory(t *testing.T) {
	r := rig.New(t, "[escalate]\nchannels = []\n")
	r.Boot("p")
	p := r.Start("p")
	r.Shows(`"codex-cursor"`)
	_ = p.Process.Kill()
	<-p.Ended
	r.Write("state/"+daemon.MemoryFile, `{"last_look": "2026-01-01T00:00:00Z", "projects": {"kept": {"since": "2026-01-01T00:00:00Z"}}}`)
	for n := 8; n < 17; n += 2 {
		c := r.Spawn(r.Command("/bin/sh", "-c", fmt.Sprintf("ulimit -n %d; exec steward run --project p", n)))
		select {
		case <-c.Ended:
		case <-time.After(time.Second):
			c.Kill()
		}
		if aside, _ := filepath.Glob(filepath.Join(r.State, "*.bad*")); len(aside) > 0 {
			t.Fatalf("with %d descriptors: %v", n, aside)
		}
		if !rig.Reads(filepath.Join(r.State, daemon.MemoryFile), `"kept"`) {
			t.Fatalf("with %d descriptors the memory was lost", n)
		}
	}
}
