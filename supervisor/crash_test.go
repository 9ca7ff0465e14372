package supervisor_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
)

// reaper kills the steward at one of the moments at which it leaves a trace in the world.
type reaper struct {
	mu    sync.Mutex
	at, n int
	dead  bool
	kill  func()
}

func (r *reaper) door() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead {
		return errKilled
	}
	if r.n++; r.n == r.at {
		r.dead = true
		r.kill()
		return errKilled
	}
	return nil
}

// TestCrashAnywhere is law 6: killed between any two steps, the files are the same in the end, nothing runs more often,
// and at most one alert is repeated.
func TestCrashAnywhere(t *testing.T) {
	want, steps := life(t, 0)
	for _, line := range []string{"t1 runs 2", "t2 runs 1", "t3 runs 1", "t4 runs 2"} {
		if !strings.Contains(want, line) {
			t.Fatalf("without a crash: no %q in\n%s", line, want)
		}
	}
	if steps < 40 {
		t.Fatalf("only %d steps: the scenario is too small", steps)
	}
	for at := 1; at <= steps; at++ {
		if got, _ := life(t, at); got != want {
			t.Fatalf("killed at step %d:\n%s\nwithout:\n%s", at, got, want)
		}
	}
}

// life plays one scenario, killed at one step (0: never), and gives what is there in the end.
func life(t *testing.T, at int) (end string, steps int) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "demo")
		r := &reaper{at: at}
		w.door, w.folders["demo"].step = r.door, r.door
		runs := perform(t, w, r)
		end, steps = remains(w, runs), r.n
		checkAlerts(t, w, at)
	})
	return end, steps
}

// perform is the scenario: an agent that fails, completes, meets a conflict and dies once, on a machine that is full
// for a while.
func perform(t *testing.T, w *world, r *reaper) map[string]int {
	f, runs := w.folders["demo"], map[string]int{}
	first, second := protocol.Identity{PID: 1, Start: 1, Boot: "b"}, protocol.Identity{PID: 2, Start: 2, Boot: "b"}
	w.processes[first], w.processes[second] = heartbeat.ProcessAlive, heartbeat.ProcessAlive
	a := agentOf("codex")
	a.agent.Process = first
	f.sims = []*sim{a}
	stop := keepRunning(w, r)
	for second0 := range 240 {
		time.Sleep(time.Second)
		f.mu.Lock()
		switch second0 {
		case 5:
			f.submit(request("t1"), time.Now())
			f.submit(request("t4"), time.Now())
		case 10:
			w.fill(0.95)
		case 11:
			f.submit(request("t2"), time.Now())
			f.submit(request("t3"), time.Now())
		case 25:
			w.fill(0.25)
		case 60:
			w.mu.Lock()
			w.processes[first] = heartbeat.ProcessGone
			w.mu.Unlock()
			a.silent = true
		case 75:
			a.agent.Process, a.silent, a.next = second, false, time.Now()
		}
		if !a.silent {
			work(f, runs, second0 >= 75)
		}
		f.mu.Unlock()
		synctest.Wait()
	}
	stop()
	return runs
}

// keepRunning starts the steward anew a second after it was killed.
func keepRunning(w *world, r *reaper) (stop func()) {
	over := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			ctx, cancel := context.WithCancel(context.Background())
			r.mu.Lock()
			r.dead, r.kill = false, cancel
			r.mu.Unlock()
			ended := make(chan struct{})
			go func() { _ = w.loop().Run(ctx); close(ended) }()
			select {
			case <-ended:
				cancel()
				time.Sleep(time.Second)
				continue
			case <-over:
				cancel()
				<-ended
				return
			}
		}
	}()
	return func() { close(over); <-done }
}

// work lets the agent take what it sees; t4 is only finished by its second process.
func work(f *folder, runs map[string]int, reborn bool) {
	for _, id := range f.order {
		c := f.cards[id]
		if !c.open || c.result != nil || time.Since(c.appeared) < 3*time.Second {
			continue
		}
		if c.named == "" {
			runs[id]++
		}
		c.named = "active_tasks"
		switch {
		case id == "t1":
			f.finish(id, failure("FILE_NOT_FOUND"), time.Now())
		case id == "t3":
			f.finish(id, failure("GIT_CONFLICT"), time.Now())
		case id == "t2" || id == "t4" && reborn:
			f.finish(id, protocol.Outcome{Status: "completed", Agent: "codex"}, time.Now())
		}
	}
}

// remains writes down the files as they are in the end, without times.
func remains(w *world, runs map[string]int) string {
	var b strings.Builder
	f := w.folders["demo"]
	for _, id := range f.order {
		c := f.cards[id]
		slices.Sort(c.logged)
		fmt.Fprintf(&b, "%s runs %d, open %t, held %t, notice %t, dead letter %t, log %v\n", id, runs[id], c.open, c.held, c.notice != nil, c.buried, c.logged)
		if c.result != nil {
			fmt.Fprintf(&b, "  result %s %s\n", c.result.Status, rules.Failed(c.result).Code)
		}
		for _, k := range c.ledger {
			fmt.Fprintf(&b, "  taken %d %s %s %t\n", k.N, k.Action, k.Code, k.Committed)
		}
	}
	for _, i := range w.ledger.List() {
		fmt.Fprintf(&b, "open: %s\n", i.Summary)
	}
	return b.String()
}

// checkAlerts counts how often anybody was called.
func checkAlerts(t *testing.T, w *world, at int) {
	t.Helper()
	calls, repeated := map[string]int{}, 0
	for i, a := range w.alerts {
		if !a.Resolve && w.outcomes[i] != rules.OutcomeSame {
			if calls[a.Key]++; calls[a.Key] > 1 {
				repeated++
			}
		}
	}
	if repeated > 1 {
		t.Errorf("killed at step %d: %d alerts are repeated", at, repeated)
	}
}
