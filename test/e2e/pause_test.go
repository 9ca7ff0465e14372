package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/livhana/steward/test/rig"

	"github.com/livhana/steward/cmd/steward/daemon"
)

// isPaused waits until the project is scanned, and reports whether it is only observed, with the given text.
func isPaused(r *rig.Rig, project, words string) bool {
	r.Helper()
	mode := ""
	r.Until(project+" is looked at", func() bool {
		p, err := r.Status()
		mode = ""
		for _, part := range strings.Split(p.Raw, `"name": `) {
			if strings.HasPrefix(part, `"`+project+`"`) && strings.Contains(part, `"agentstatus": "`) {
				mode = part
			}
		}
		return err == nil && mode != ""
	})
	return strings.Contains(mode, `"observe"`) && strings.Contains(mode, words)
}

// stopDaemon kills a daemon without a clean shutdown.
func stopDaemon(r *rig.Rig, p *rig.Child) {
	r.Helper()
	_ = p.Process.Kill()
	<-p.Ended
}

const quietRig = "[escalate]\nchannels = []\n"

// An operator's pause survives any loss of the memory file.
func TestPauseSurvivesTheMemory(t *testing.T) {
	t.Parallel()
	r := rig.New(t, quietRig)
	r.Boot("p")
	p := r.Start("p")
	r.Steward("pause", "--why", "hands off")
	memory := filepath.Join(r.State, daemon.MemoryFile)
	for _, damage := range []string{"-", "", `{"torn`, `{"standing": []}`, `{"version": 99}`, `{}`} {
		stopDaemon(r, p)
		if damage == "-" {
			_ = os.Remove(memory)
		} else {
			r.Write("state/"+daemon.MemoryFile, damage)
		}
		p = r.Start("p")
		if !isPaused(r, "p", "hands off") {
			t.Errorf("with the memory %q the pause was forgotten", damage)
		}
	}
	r.Steward("resume")
	stopDaemon(r, p)
	r.Start("p")
	if isPaused(r, "p", "") {
		t.Error("it is paused after resume")
	}
}

// A pause belongs to the folder, not to the project's name: it follows a renamed folder, and another folder that takes
// over the name is not paused.
func TestPauseGoesWithTheFolder(t *testing.T) {
	r := rig.New(t, quietRig)
	r.Boot("p")
	p := r.Start("p")
	r.Steward("pause", "p", "--why", "hands off")
	stopDaemon(r, p)
	if err := os.Rename(r.At("p"), r.At("q")); err != nil {
		t.Fatal(err)
	}
	r.Boot("p")
	p = r.Start("p", "q")
	if !isPaused(r, "q", "hands off") || isPaused(r, "p", "") {
		t.Fatal("the pause did not go with the renamed folder alone")
	}
	stopDaemon(r, p)
	if err := os.RemoveAll(r.At("q")); err != nil {
		t.Fatal(err)
	}
	r.Boot("q")
	p = r.Start("q")
	if !isPaused(r, "q", "hands off") {
		t.Error("a folder that was made anew in its place lost the pause")
	}
	stopDaemon(r, p)
	r.Write("config.toml", quietRig+"[[project]]\npath = \"q\"\nname = \"other\"\n")
	r.Start("q")
	if !isPaused(r, "other", "hands off") {
		t.Error("another name of the project lost the pause")
	}
}

// An unreadable order stays in force, and the operator is told its file.
func TestUnreadablePauseStands(t *testing.T) {
	t.Parallel()
	for _, damage := range []string{"", `{"torn`, "[]", "{}", `{"version": 2, "why": "hands off"}`} {
		r := rig.New(t, quietRig)
		r.Boot("p")
		p := r.Start("p")
		r.Steward("pause", "--why", "hands off")
		stopDaemon(r, p)
		orders, _ := filepath.Glob(filepath.Join(r.State, "orders", "pause-*.json"))
		if len(orders) != 1 {
			t.Fatalf("orders: %v", orders)
		}
		if err := os.WriteFile(orders[0], []byte(damage), 0o600); err != nil {
			t.Fatal(err)
		}
		r.Start("p")
		file := filepath.Base(orders[0])
		if !isPaused(r, "p", file) {
			t.Errorf("%q: it is not paused", damage)
		}
		if out := r.Steward("incidents", "-o", "json"); !strings.Contains(out, file) || !strings.Contains(out, "cannot be read, and stays in force") {
			t.Errorf("%q: incidents: %s", damage, out)
		}
		r.Steward("resume", "p")
		if out := r.Steward("incidents", "-o", "json"); isPaused(r, "p", "") || strings.Contains(out, file) {
			t.Errorf("%q: after resume: %s", damage, out)
		}
	}
}
