package supervisor_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor/decide"
)

// TestLostMemory: a run that remembers nothing is on the safe side: silence is counted anew, and attempts are read from disk.
func TestLostMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "demo")
		a := agentOf("codex")
		w.folders["demo"].sims = []*sim{a}
		s, stop := w.start()
		forget := func() {
			stop()
			w.mu.Lock()
			w.memory = decide.Memory{}
			w.mu.Unlock()
			s, stop = w.start()
			time.Sleep(7 * time.Second)
		}
		time.Sleep(7 * time.Second)
		w.at("demo", func(f *folder) { f.submit(request("t1"), time.Now()) })
		for range 3 {
			w.at("demo", func(f *folder) { f.finish("t1", failure("FILE_NOT_FOUND"), time.Now()) })
			time.Sleep(time.Second)
			forget()
			time.Sleep(40 * time.Second)
		}
		if n := len(w.read("demo", "t1").Attempts); n == 0 || n > 2 {
			t.Errorf("%d attempts are on record, the rule allows 1 or 2", n)
		}
		w.at("demo", func(*folder) { a.every = time.Hour; a.next = time.Now().Add(time.Hour) })
		time.Sleep(80 * time.Second)
		forget()
		time.Sleep(60 * time.Second)
		if state := stateOf(s, "demo", protocol.KindAgent, "codex"); state == "dead" {
			t.Error("silence that nobody remembers made an agent dead")
		}
		stop()
	})
}
