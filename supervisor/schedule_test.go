package supervisor_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
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
		first, looks := s.State().Projects[0].LookedAt, s.State().Looks
		for _, d := range s.State().Projects {
			if !d.LookedAt.Equal(first) {
				t.Errorf("%s was looked at %v from the first", d.Name, d.LookedAt.Sub(first))
			}
		}
		if looks < 3*(40/5) || looks > 3*(40/5)+6 {
			t.Errorf("%d looks in 40 s at three projects", looks)
		}
	})
}

// TestOneTurnAtWork: also while tasks are open, when a reading comes every second, projects whose turns lie seconds apart find
// each other again; and none is looked at much more often than its pace for that.
func TestOneTurnAtWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a", "b", "c")
		for name := range w.folders {
			w.folders[name].sims = []*sim{agentOf("codex")}
		}
		s, stop := w.start()
		defer stop()
		for name := range w.folders {
			w.at(name, func(f *folder) { f.submit(request("t1"), time.Now()) })
		}
		time.Sleep(20*time.Second + 300*time.Millisecond)
		w.hints <- supervisor.Hint{Project: "b"} // anything may have changed
		time.Sleep(1100 * time.Millisecond)
		w.hints <- supervisor.Hint{Project: "c"}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		first, looks := s.State().Projects[0].LookedAt, s.State().Looks
		for _, d := range s.State().Projects {
			if !d.LookedAt.Equal(first) {
				t.Errorf("%s was looked at %v from the first", d.Name, d.LookedAt.Sub(first))
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := s.State().Looks - looks; n < 3*60/5 || n > 3*(60/5+2) {
			t.Errorf("%d looks in a minute at three projects", n)
		}
	})
}

// TestIdleTurns: while nothing is open, and no process is on record, all that comes by the clock comes at the same
// moments, and no reading is older than one may be. What the kernel says of the machine's need then decides on nothing.
func TestIdleTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newWorld(t, "a", "b", "c"), &counted{alarms: make(chan struct{})}
		w.cfg.Capacity.SampleIdle = 4 * time.Second
		id := protocol.Identity{PID: 7, Start: 7, Boot: "b"}
		w.processes[id] = heartbeat.ProcessAlive
		for name := range w.folders {
			a := agentOf("codex")
			a.agent.PID = id.PID // a file names it, and it lives as long as the agent
			w.folders[name].sims = []*sim{a}
		}
		s, stop := w.startCounted(c)
		defer stop()
		time.Sleep(2 * time.Minute)
		if p := s.State().Plan.Memory.Agents.Of(protocol.Subject{Project: "a", Protocol: "agentstatus", Kind: protocol.KindAgent, ID: "codex"}).Proven; p != id {
			t.Fatalf("the process has not proved itself: %v", p)
		}
		from := time.Now()
		for range 40 {
			time.Sleep(1500 * time.Millisecond)
			synctest.Wait()
			select {
			case c.alarms <- struct{}{}:
				t.Fatal("the alarm was heard")
			default:
			}
		}
		synctest.Wait()
		n, pause := c.between(&c.samples, from, time.Now())
		if n < 11 || n > 14 || pause >= capacity.MaxAge {
			t.Errorf("%d samples in an idle minute, the longest pause %v", n, pause)
		}
		moments := map[time.Time]bool{}
		for _, at := range c.woken {
			if at.After(from) {
				moments[at] = true
			}
		}
		if len(moments) > n+1 {
			t.Errorf("woken at %d moments for %d samples", len(moments), n)
		}
	})
}
