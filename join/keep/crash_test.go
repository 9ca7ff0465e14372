package keep

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestKilledWithinAStart kills the keeper between any two steps of a start or restart: the next keeper finds one agent,
// or starts one.
func TestKilledWithinAStart(t *testing.T) {
	for _, step := range []string{"before the intent", "after the intent", "after the start", "after the record"} {
		for turn := 1; turn <= 3; turn++ {
			if step == "before the intent" && turn > 1 {
				continue // the intent of a restart is on disk with the previous record
			}
			t.Run(fmt.Sprintf("%s, life %d", step, turn), func(t *testing.T) {
				s := newSite(t, script("a", "echo life >>lives; exec sleep 600"))
				s.plan.DieAt, s.plan.DieTurn = step, turn
				s.plan.Config.Backoff, s.plan.Config.MaxBackoff = 10*time.Millisecond, 20*time.Millisecond
				s.start()
				for before := 0; before < turn-1; before++ {
					s.until("the life before", func() bool { return s.lives() == before+1 && len(s.mains("a")) == 1 && s.record("a").Process.PID > 0 })
					first := s.pid("a", 0)
					_ = syscall.Kill(first, syscall.SIGKILL)
					s.until("it is gone", func() bool { return !s.has("a", first) })
				}
				s.died()
				s.plan.DieAt = ""
				s.start()
				s.until("there is one", func() bool { s.notTwo("a"); return s.record("a").Process.PID > 0 && len(s.mains("a")) == 1 })
				s.until("it is enrolled", func() bool {
					return slices.ContainsFunc(s.notes("enroll", "a"), func(n note) bool { return n.PID == s.record("a").Process.PID })
				})
				s.until("it has begun its work", func() bool { s.notTwo("a"); return s.lives() >= turn })
				if n := s.lives(); n != turn {
					t.Errorf("%d lives began, want %d", n, turn)
				}
				// The next keeper knows its mark: after its kill exactly one other process follows.
				pid := s.pid("a", 0)
				_ = syscall.Kill(pid, syscall.SIGKILL)
				s.until("another one", func() bool { s.notTwo("a"); return s.lives() == turn+1 })
			})
		}
	}
}

func (s *site) has(agent string, pid int) bool {
	for _, p := range s.mains(agent) {
		if p.PID == pid {
			return true
		}
	}
	return false
}

// notTwo is called repeatedly while processes change.
func (s *site) notTwo(agent string) {
	s.Helper()
	if found := s.mains(agent); len(found) > 1 {
		s.tell()
		s.Fatalf("doubled: %v", found)
	}
}

// TestKeepersKilledAtRandom kills keepers of many agents at any moment, while agents die too: no agent is doubled or
// lost. The daemon's torture test is the long form.
func TestKeepersKilledAtRandom(t *testing.T) {
	const n, rounds = 12, 8
	var rows []Row
	for i := range n {
		rows = append(rows, sleeper(fmt.Sprintf("agent-%02d", i)))
	}
	s := newSite(t, rows...)
	s.plan.Config.Burst = 1000
	s.plan.Config.Backoff, s.plan.Config.MaxBackoff = 10*time.Millisecond, 10*time.Millisecond
	for round := range rounds {
		s.start()
		time.Sleep(time.Duration(round*7) * time.Millisecond)
		for i := range n {
			if m := s.mains(rows[i].Name); i%3 == round%3 && len(m) > 0 {
				_ = syscall.Kill(m[0].PID, syscall.SIGKILL)
			}
			s.notTwo(rows[i].Name)
		}
		s.kill()
	}
	s.start()
	for _, r := range rows {
		s.until("one "+r.Name, func() bool { s.notTwo(r.Name); return len(s.mains(r.Name)) == 1 })
	}
	time.Sleep(200 * time.Millisecond)
	for _, r := range rows {
		s.notTwo(r.Name)
	}
}

// TestKillToReplacement measures; it fails only if no replacement comes. The bench command is for figures.
func TestKillToReplacement(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: short, and this only measures")
	}
	const n = 40
	var rows []Row
	for i := range n {
		rows = append(rows, script(fmt.Sprintf("m-%02d", i), `exec sleep 600`))
	}
	s := newSite(t, rows...)
	s.start()
	s.until("all live", func() bool { return len(s.notes("enroll", fmt.Sprintf("m-%02d", n-1))) == 1 })
	time.Sleep(300 * time.Millisecond)
	var took []time.Duration
	for _, r := range rows {
		old := s.record(r.Name).Process.PID
		begin := time.Now()
		_ = syscall.Kill(old, syscall.SIGKILL)
		for s.record(r.Name).Process.PID == old {
			if time.Since(begin) > patience {
				t.Fatal("no replacement")
			}
			time.Sleep(50 * time.Microsecond)
		}
		took = append(took, time.Since(begin))
		time.Sleep(30 * time.Millisecond)
	}
	slices.Sort(took)
	t.Logf("kill to replacement on record: p50 %v, p99 %v, most %v", took[n/2], took[n*99/100-1], took[n-1])
	if strings.Contains(os.Getenv("STEWARD_LONG"), "1") {
		t.Logf("all: %v", took)
	}
}
