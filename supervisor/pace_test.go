package supervisor_test

import (
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
)

// counted is when a loop used its dear dependencies.
type counted struct {
	mu                               sync.Mutex
	samples, surveys, checked, woken []time.Time

	alarms chan struct{} // of a machine in need
}

func (c *counted) note(list *[]time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*list = append(*list, time.Now())
}

// between counts the moments in a stretch of time, and gives the longest pause there.
func (c *counted) between(list *[]time.Time, from, to time.Time) (n int, pause time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := from
	for _, at := range append(*list, to) {
		if at.Before(from) || at.After(to) {
			continue
		}
		n, pause, last = n+1, max(pause, at.Sub(last)), at
	}
	return n - 1, pause
}

// startCounted is start with a count of what the loop asks for.
func (w *world) startCounted(c *counted) (s *supervisor.Supervisor, stop func()) {
	doors := w.doors()
	measure, check := doors.Measure, doors.Check
	doors.Measure = func(now time.Time) capacity.Load { c.note(&c.samples); return measure(now) }
	doors.Check = func(id protocol.Identity) heartbeat.ProcessState { c.note(&c.checked); return check(id) }
	doors.Inspect = func(pid int) (protocol.Identity, bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for id := range w.processes {
			if id.PID == pid {
				return id, true
			}
		}
		return protocol.Identity{}, false
	}
	doors.Usage = func(_ []protocol.Identity, now time.Time) []capacity.Usage {
		if n := len(c.surveys); n == 0 || now.Sub(c.surveys[n-1]) >= 2*time.Second { // as the gauge does
			c.note(&c.surveys)
		}
		return nil
	}
	doors.Alarms = c.alarms
	doors.Heartbeat = func(time.Time) { c.note(&c.woken) }
	s = supervisor.New(w.cfg, w.projects(), w.memory, doors, slog.New(slog.DiscardHandler), nil)
	return s, w.run(s)
}

// TestSamplesWhenItMatters: nobody needs a reading while no task is open and no process of an agent's is known. Work that
// comes is judged by a fresh one.
func TestSamplesWhenItMatters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newWorld(t, "demo"), &counted{}
		w.folders["demo"].sims = []*sim{agentOf("codex")}
		_, stop := w.startCounted(c)
		defer stop()
		time.Sleep(90*time.Second + 500*time.Millisecond)
		idle := time.Now()
		if n, _ := c.between(&c.samples, idle.Add(-time.Minute), idle); n < 10 || n > 16 {
			t.Errorf("%d samples in an idle minute", n)
		}
		w.fill(0.95)
		time.Sleep(1200 * time.Millisecond)
		w.at("demo", func(f *folder) { f.submit(request("t1"), time.Now()) })
		if !w.folders["demo"].cards["t1"].held {
			t.Error("judged by an old reading")
		}
		time.Sleep(time.Minute)
		if n, pause := c.between(&c.samples, time.Now().Add(-time.Minute), time.Now()); n < 55 || pause > 1100*time.Millisecond {
			t.Errorf("%d samples in a minute with an open task, the longest pause %v", n, pause)
		}
	})
}

// TestSurveysInTime: whoever opens file after file is found within three seconds, whether or not anything else goes on.
func TestSurveysInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newWorld(t, "demo", "other", "third"), &counted{alarms: make(chan struct{})}
		id := protocol.Identity{PID: 7, Start: 7, Boot: "b"}
		w.processes[id] = heartbeat.ProcessAlive
		a := agentOf("codex")
		a.agent.Process = id
		w.folders["demo"].sims, w.folders["other"].sims = []*sim{a}, []*sim{agentOf("claude")}
		_, stop := w.startCounted(c)
		defer stop()
		time.Sleep(10 * time.Second)
		from := time.Now()
		for range 100 {
			time.Sleep(730 * time.Millisecond)
			w.at("other", func(*folder) {})
			c.alarms <- struct{}{} // samples come at any moment then
		}
		if n, pause := c.between(&c.surveys, from, time.Now()); n == 0 || pause > 3*time.Second {
			t.Errorf("%d surveys, the longest pause %v", n, pause)
		}
	})
}

// TestCrossCheck: a process whose exit is watched is looked at now and then all the same, and at every look where work is
// under way; one that was stopped is found out.
func TestCrossCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newWorld(t, "demo"), &counted{}
		id := protocol.Identity{PID: 7, Start: 7, Boot: "b"}
		w.processes[id] = heartbeat.ProcessAlive
		a := agentOf("codex")
		a.agent.Process = id
		w.folders["demo"].sims = []*sim{a}
		s, stop := w.startCounted(c)
		defer stop()
		time.Sleep(time.Minute)
		from := time.Now()
		time.Sleep(time.Minute)
		if n, pause := c.between(&c.checked, from, time.Now()); n < 3 || n > 6 || pause > 17*time.Second {
			t.Errorf("%d checks in an idle minute, the longest pause %v", n, pause)
		}
		w.mu.Lock()
		w.processes[id] = heartbeat.ProcessStopped
		w.mu.Unlock()
		time.Sleep(16 * time.Second)
		if state := stateOf(s, "demo", protocol.KindAgent, "codex"); state != "paused" {
			t.Errorf("stopped for 16 s and still %s", state)
		}
		w.mu.Lock()
		w.processes[id] = heartbeat.ProcessAlive
		w.mu.Unlock()
		time.Sleep(6 * time.Second)
		if state := stateOf(s, "demo", protocol.KindAgent, "codex"); state != "alive" {
			t.Errorf("goes on for 6 s and still %s", state)
		}
		w.at("demo", func(f *folder) { f.submit(request("t1"), time.Now()); f.cards["t1"].named = "active_tasks" })
		from = time.Now()
		time.Sleep(time.Minute)
		if n, _ := c.between(&c.checked, from, time.Now()); n < 11 {
			t.Errorf("%d checks in a minute with work under way", n)
		}
	})
}

// TestCheckedOnce: a process that is at many tasks is looked at once in a look, not once for each of them.
func TestCheckedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newWorld(t, "demo"), &counted{}
		id := protocol.Identity{PID: 7, Start: 7, Boot: "b"}
		w.processes[id] = heartbeat.ProcessAlive
		a := agentOf("codex")
		a.agent.Process = id
		w.folders["demo"].sims = []*sim{a}
		_, stop := w.startCounted(c)
		defer stop()
		time.Sleep(10 * time.Second)
		w.at("demo", func(f *folder) {
			for i := range 20 {
				f.submit(request(fmt.Sprint("t", i)), time.Now())
				f.cards[fmt.Sprint("t", i)].workers = []protocol.Identity{id}
			}
		})
		time.Sleep(10 * time.Second)
		from := time.Now()
		time.Sleep(time.Minute)
		if n, _ := c.between(&c.checked, from, time.Now()); n < 11 || n > 14 {
			t.Errorf("%d checks of one process in a minute", n)
		}
	})
}
