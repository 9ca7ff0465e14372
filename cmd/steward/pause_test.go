package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/livhana/steward/cmd/steward/daemon"
)

// paused waits until the project is scanned, and reports whether it is only observed, with the given text.
func (r *rig) paused(project, words string) bool {
	r.Helper()
	mode := ""
	r.until(project+" is looked at", func() bool {
		p, err := r.status()
		mode = ""
		for _, part := range strings.Split(p.raw, `"name": `) {
			if strings.HasPrefix(part, `"`+project+`"`) && strings.Contains(part, `"agentstatus": "`) {
				mode = part
			}
		}
		return err == nil && mode != ""
	})
	return strings.Contains(mode, `"observe"`) && strings.Contains(mode, words)
}

// stopped kills a daemon without a clean shutdown.
func (r *rig) stopped(p *child) {
	r.Helper()
	_ = p.Process.Kill()
	<-p.ended
}

const quietRig = "[escalate]\nchannels = []\n"

// An operator's pause survives any loss of the memory file.
func TestPauseSurvivesTheMemory(t *testing.T) {
	t.Parallel()
	r := newRig(t, quietRig)
	r.boot("p")
	p := r.start("p")
	r.steward("pause", "--why", "hands off")
	memory := filepath.Join(r.state, daemon.MemoryFile)
	for _, damage := range []string{"-", "", `{"torn`, `{"standing": []}`, `{"version": 99}`, `{}`} {
		r.stopped(p)
		if damage == "-" {
			_ = os.Remove(memory)
		} else {
			r.write("state/"+daemon.MemoryFile, damage)
		}
		p = r.start("p")
		if !r.paused("p", "hands off") {
			t.Errorf("with the memory %q the pause was forgotten", damage)
		}
	}
	r.steward("resume")
	r.stopped(p)
	r.start("p")
	if r.paused("p", "") {
		t.Error("it is paused after resume")
	}
}

// A pause belongs to the folder, not to the project's name: it follows a renamed folder, and another folder that takes
// over the name is not paused.
func TestPauseGoesWithTheFolder(t *testing.T) {
	r := newRig(t, quietRig)
	r.boot("p")
	p := r.start("p")
	r.steward("pause", "p", "--why", "hands off")
	r.stopped(p)
	if err := os.Rename(r.at("p"), r.at("q")); err != nil {
		t.Fatal(err)
	}
	r.boot("p")
	p = r.start("p", "q")
	if !r.paused("q", "hands off") || r.paused("p", "") {
		t.Fatal("the pause did not go with the renamed folder alone")
	}
	r.stopped(p)
	if err := os.RemoveAll(r.at("q")); err != nil {
		t.Fatal(err)
	}
	r.boot("q")
	p = r.start("q")
	if !r.paused("q", "hands off") {
		t.Error("a folder that was made anew in its place lost the pause")
	}
	r.stopped(p)
	r.write("config.toml", quietRig+"[[project]]\npath = \"q\"\nname = \"other\"\n")
	r.start("q")
	if !r.paused("other", "hands off") {
		t.Error("another name of the project lost the pause")
	}
}

// An unreadable order stays in force, and the operator is told its file.
func TestUnreadablePauseStands(t *testing.T) {
	t.Parallel()
	for _, damage := range []string{"", `{"torn`, "[]", "{}", `{"version": 2, "why": "hands off"}`} {
		r := newRig(t, quietRig)
		r.boot("p")
		p := r.start("p")
		r.steward("pause", "--why", "hands off")
		r.stopped(p)
		orders, _ := filepath.Glob(filepath.Join(r.state, "orders", "pause-*.json"))
		if len(orders) != 1 {
			t.Fatalf("orders: %v", orders)
		}
		if err := os.WriteFile(orders[0], []byte(damage), 0o600); err != nil {
			t.Fatal(err)
		}
		r.start("p")
		file := filepath.Base(orders[0])
		if !r.paused("p", file) {
			t.Errorf("%q: it is not paused", damage)
		}
		if out := r.steward("incidents", "-o", "json"); !strings.Contains(out, file) || !strings.Contains(out, "cannot be read, and stays in force") {
			t.Errorf("%q: incidents: %s", damage, out)
		}
		r.steward("resume", "p")
		if out := r.steward("incidents", "-o", "json"); r.paused("p", "") || strings.Contains(out, file) {
			t.Errorf("%q: after resume: %s", damage, out)
		}
	}
}
