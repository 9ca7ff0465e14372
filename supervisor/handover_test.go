package supervisor_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/livhana/steward/supervisor"
)

// TestHandOverKeepsWhatIsHeld: when another steward follows, a held task stays held and its lease lasts until that one is
// there; without one it is released.
func TestHandOverKeepsWhatIsHeld(t *testing.T) {
	for _, c := range []struct {
		name    string
		follows bool
		lease   time.Duration
	}{{"followed", true, time.Minute}, {"followed, short lease", true, 8 * time.Second}, {"alone", false, time.Minute}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "demo")
				w.cfg.Tasks.Lease = c.lease
				w.fill(0.95)
				w.folders["demo"].sims = []*sim{agentOf("codex")}
				doors := w.doors()
				beats := 0
				doors.Heartbeat = func(time.Time) { beats++ }
				doors.HandOver = func() bool { return c.follows }
				stop := runUntil(t, supervisor.New(w.cfg, w.projects(), w.memory, doors, slog.New(slog.DiscardHandler), nil))
				time.Sleep(7 * time.Second)
				w.at("demo", func(f *folder) { f.submit(request("t1"), time.Now()) })
				time.Sleep(time.Second)
				if w.read("demo", "t1").Hold == nil {
					t.Fatal("the task is not held to begin with")
				}
				stop()
				hold := w.read("demo", "t1").Hold
				if (hold != nil) != c.follows {
					t.Fatalf("hold after the end: %+v", hold)
				}
				if hold != nil && time.Until(hold.ReleaseBy) < 25*time.Second {
					t.Errorf("the hold lasts only %v more", time.Until(hold.ReleaseBy))
				}
				for subject, m := range w.memory.Tasks.All() {
					if m.Held != c.follows {
						t.Errorf("the next steward is told of %v: held %v", subject, m.Held)
					}
				}
				if beats < 2 {
					t.Errorf("%d signs of life", beats)
				}
			})
		})
	}
}

// TestPulseComesFromTheLoop: at least once per look interval while nothing happens.
func TestPulseComesFromTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "demo")
		doors := w.doors()
		last, longest := time.Now(), time.Duration(0)
		doors.Heartbeat = func(now time.Time) { longest, last = max(longest, now.Sub(last)), now }
		stop := runUntil(t, supervisor.New(w.cfg, w.projects(), w.memory, doors, slog.New(slog.DiscardHandler), nil))
		time.Sleep(time.Hour)
		stop()
		if longest > w.cfg.LookEvery {
			t.Errorf("%v without a sign of life", longest)
		}
	})
}

// runUntil runs a loop until stop is called, which waits for its end.
func runUntil(t *testing.T, s *supervisor.Supervisor) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	}
}
