//go:build linux

package torture

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/test/rig"
)

// stormBound is how soon the gate must be shut and the human told: 3 s from when it is plain that it cannot go on, which is
// when an eighth of the limit is open; until then many a program that starts looks the same. What a loaded machine may
// need in CI proves only that it happens.
func stormBound() time.Duration {
	if os.Getenv("STEWARD_LONG") == "1" {
		return 3*time.Second + 450*time.Millisecond
	}
	return 10 * time.Second
}

// filesRules let descriptors alone hold tasks back, besides their agent.
func filesRules() string {
	return strings.Replace(faultRules(""), `dimensions = ["agent"]`, `dimensions = ["files", "agent"]`, 1)
}

// TestFaultStorm: an agent's process opens 300 files a second and will have used up its 1024 in three seconds. New tasks
// are held, with a notice that names the files and the process, and the human is told, before it is too late to write.
func TestFaultStorm(t *testing.T) {
	if testing.Short() {
		t.Skip("short: runs the whole program")
	}
	t.Parallel()
	x := newOrdeal(t, filesRules())
	x.hire()
	hoarder := x.Spawn(x.Command("hoarder", "-go", x.At("go")))
	x.enlist("planning", hoarder)
	x.deaths = append(x.deaths, "planning")
	x.Start(ordealProject)
	x.order(2)
	x.Shows(`"codex-cursor"[^}]*"state": *"alive"`, `"planning"[^}]*"state": *"(alive|starting|late)"`)
	x.Until("the first tasks are through", func() bool { return x.open() == 0 })
	x.Write("go", "")
	x.stormIsSeen(`hoarder.{0,20}pid ` + pidText(hoarder))
	hoarder.Kill()
	x.laws()
}

// TestFaultOwnStorm: it is steward's own table that has next to no room left.
func TestFaultOwnStorm(t *testing.T) {
	if testing.Short() {
		t.Skip("short: runs the whole program")
	}
	t.Parallel()
	x := newOrdeal(t, filesRules())
	x.hire()
	p := x.Start(ordealProject)
	x.order(2)
	x.Shows(`"codex-cursor"[^}]*"state": *"alive"`)
	x.Until("the first tasks are through", func() bool { return x.open() == 0 })
	back := limitFiles(p, t, uint64(openDescriptors(p)+8))
	x.stormIsSeen(`steward itself`)
	back()
	x.laws()
}

// stormIsSeen submits tasks until one is held because of descriptors, and waits until the human was told, both naming
// who it is.
func (x *ordeal) stormIsSeen(who string) {
	x.Helper()
	began := time.Now()
	var shut, told time.Duration
	notices := filepath.Join(filepath.Dir(x.Task(ordealProject, "", "")), "task_*.deferred.json")
	x.Until("a task is held because of files, and the human is told, both naming "+who, func() bool {
		if shut == 0 && x.next < 60 {
			x.order(1)
			x.Pause(100 * time.Millisecond)
		}
		files, _ := filepath.Glob(notices)
		for _, file := range files {
			if shut == 0 && rig.Reads(file, `(?i)files`) && rig.Reads(file, who) {
				shut = time.Since(began)
			}
		}
		if told == 0 && x.toldOf(`(?i)files.*`+who+`|`+who+`.*(?i)files`) {
			told = time.Since(began)
		}
		return shut > 0 && told > 0
	})
	x.Logf("the gate was shut after %v, the human told after %v", shut, told)
	if bound := stormBound(); shut > bound || told > bound {
		x.Errorf("the gate was shut after %v, the human told after %v, more than %v", shut, told, bound)
	}
}
