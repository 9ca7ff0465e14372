package supervisor_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/livhana/steward/supervisor"
)

// TestOneTurn: what comes by the clock alone comes together, so that an idle machine is woken once for all projects;
// they find each other again after one of them had to look out of turn.
func TestOneTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a", "b", "c")
		for name := range w.folders {
			w.folders[name].sims = []*sim{agentOf("codex")}
		}
		s, stop := w.start()
		defer stop()
		time.Sleep(20*time.Second + 300*time.Millisecond)
		w.hints <- supervisor.Hint{Project: "b"} // anything may have changed
		time.Sleep(20 * time.Second)
		synctest.Wait()
		first, looks := s.Picture().Desks[0].LookedAt, s.Picture().Looks
		for _, d := range s.Picture().Desks {
			if !d.LookedAt.Equal(first) {
				t.Errorf("%s was looked at %v from the first", d.Name, d.LookedAt.Sub(first))
			}
		}
		if looks < 3*(40/5) || looks > 3*(40/5)+6 {
			t.Errorf("%d looks in 40 s at three projects", looks)
		}
	})
}
