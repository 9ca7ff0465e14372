//go:build linux

package torture

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/livhana/steward/test/rig"
)

// silence are limits so short that a pause of some seconds goes far beyond them.
const silence = "[heartbeat]\nlate = \"1s\"\ndead = \"2s\"\nresume_grace = \"3s\"\n"

// stopFor is how long things stand still: a minute, or as long as CI has time for.
func stopFor() time.Duration {
	if os.Getenv("STEWARD_LONG") == "1" {
		return time.Minute
	}
	return 8 * time.Second
}

// TestFaultStopped: the daemon stands still while one agent works on and another one dies. The one is not called dead, the
// other one is, and what came meanwhile is done.
func TestFaultStopped(t *testing.T) {
	if testing.Short() {
		t.Skip("short: runs the whole program")
	}
	t.Parallel()
	x := newOrdeal(t, faultRules(silence))
	x.hire()
	doomed := x.Spawn(exec.Command("sleep", "600"))
	x.enlist("planning", doomed)
	p := x.Start(ordealProject)
	x.deaths = append(x.deaths, "planning")
	x.order(1)
	x.Shows(`"codex-cursor"[^}]*"state": *"alive"`, `"planning"[^}]*"state": *"(alive|starting|late)"`)
	stopped := sendSignal(x.torture.Rig, p, syscall.SIGSTOP)
	x.order(1) // one retry: those that fall due in a pause come five seconds apart
	x.Pause(stopFor() / 2)
	doomed.Kill()
	x.Pause(stopFor() / 2)
	resumed := sendSignal(x.torture.Rig, p, syscall.SIGCONT)
	x.Shows(`"planning"[^}]*"state": *"dead"`)
	x.laws()
	x.graceHeld(stopped, resumed)
}

// graceHeld: no agent was declared dead for silence from the pause until the grace after it was over.
func (x *ordeal) graceHeld(stopped, resumed time.Time) {
	x.Helper()
	for _, e := range readJournal(x.torture.Rig) {
		if e.State == "dead" && strings.HasSuffix(e.Subject, "livhana-layer1.1") && e.At.After(stopped) && e.At.Before(resumed.Add(3*time.Second)) {
			x.Errorf("dead by silence %v after the pause, within the grace: %s", e.At.Sub(resumed), e.Text)
		}
	}
}

// TestFaultSuspended: everything stands still at once, as on a laptop that sleeps, more than once; then all of it goes on, the
// daemon first, which finds an agent's last beat far beyond its limit.
func TestFaultSuspended(t *testing.T) {
	if testing.Short() {
		t.Skip("short: runs the whole program")
	}
	t.Parallel()
	x := newOrdeal(t, faultRules(silence))
	x.hire()
	p := x.Start(ordealProject)
	x.Shows(`"codex-cursor"[^}]*"state": *"alive"`)
	for range rig.Long(2, 3) {
		x.order(1)
		stopped := sendSignal(x.torture.Rig, p, syscall.SIGSTOP)
		sendSignal(x.torture.Rig, x.agent, syscall.SIGSTOP)
		x.Pause(stopFor() / 2)
		resumed := sendSignal(x.torture.Rig, p, syscall.SIGCONT)
		x.Pause(500 * time.Millisecond)
		sendSignal(x.torture.Rig, x.agent, syscall.SIGCONT)
		x.Shows(`"codex-cursor"[^}]*"state": *"alive"`)
		x.graceHeld(stopped, resumed)
	}
	x.laws()
}
