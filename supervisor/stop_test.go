package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
)

// TestStopReleasesAsLongAsItMay: a stop goes on for as long as service managers allow. What is left by then is named.
func TestStopReleasesAsLongAsItMay(t *testing.T) {
	for _, c := range []struct {
		name  string
		tasks int
		each  time.Duration // what one release takes on this machine
		fails string        // the task that cannot be released
		left  int
	}{
		{"a slow machine", 300, 30 * time.Millisecond, "", 0},
		{"too slow a machine", 1000, 30 * time.Millisecond, "", 600},
		{"one that cannot be released", 300, time.Millisecond, "t7", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "demo")
				w.fill(0.95)
				f := w.folders["demo"]
				f.sims = []*sim{agentOf("codex")}
				var log strings.Builder
				s := supervisor.New(w.cfg, w.projects(), w.memory, w.doors(), slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError})), nil)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- s.Run(ctx) }()
				time.Sleep(7 * time.Second)
				w.at("demo", func(f *folder) {
					for i := range c.tasks {
						f.submit(request(fmt.Sprint("t", i)), time.Now())
					}
				})
				time.Sleep(2 * time.Second)
				if n := heldIn(f); n != c.tasks {
					t.Fatalf("%d of %d are held to begin with", n, c.tasks)
				}
				f.mu.Lock()
				f.beforeChange = func(ch protocol.Change) error {
					if ch.Verb != protocol.VerbRelease {
						return nil
					}
					time.Sleep(c.each)
					if ch.Subject.ID == c.fails {
						return errors.New("input/output error")
					}
					return nil
				}
				f.mu.Unlock()
				begin := time.Now()
				cancel()
				err := <-ended
				if took := time.Since(begin); took > 14*time.Second {
					t.Errorf("the stop took %v", took)
				}
				left := heldIn(f)
				if left != c.left {
					t.Errorf("%d are still held, want %d", left, c.left)
				}
				if (err != nil) != (left > 0) || err != nil && !errors.Is(err, supervisor.ErrStayHeld) {
					t.Fatalf("%d are held: %v", left, err)
				}
				if left > 0 {
					said := fmt.Sprintf("%d tasks stay held", left)
					if !strings.HasPrefix(err.Error(), said) || !strings.Contains(log.String(), fmt.Sprint("count=", left)) {
						t.Errorf("%d are held, and it says %q; the log:\n%s", left, err, log.String())
					}
					if c.fails != "" && !strings.Contains(err.Error(), c.fails) {
						t.Errorf("%q does not name %s", err, c.fails)
					}
				}
			})
		})
	}
}

func heldIn(f *folder) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.cards {
		if c.held {
			n++
		}
	}
	return n
}
