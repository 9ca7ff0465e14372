package supervisor_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
	"github.com/livhana/steward/supervisor/decide"
)

// stillWorld is a world with an agent at a task, whose recorded process lives and does nothing; the agent falls silent after
// a minute.
func stillWorld(t *testing.T) (w *world, a *sim) {
	w = newWorld(t, "demo")
	a = agentOf("codex")
	a.agent.Process = protocol.Identity{PID: 7, Start: 7, Boot: "b"}
	w.processes[a.agent.Process] = heartbeat.ProcessAlive
	f := w.folders["demo"]
	f.sims = []*sim{a}
	task := request("t1")
	task.Timeout = 10 * time.Minute
	f.submit(task, time.Now())
	f.cards["t1"].named = "active_tasks"
	w.cfg.Heartbeat.HungAction = heartbeat.HungEnd
	return w, a
}

// stopped is an order to end a process, with what the journal held by then.
type stopped struct {
	id    protocol.Identity
	noted bool
}

// startHung runs a loop that sees processes stand still; it gives the orders to end some.
func (w *world) startHung(stops *[]stopped) (stop func()) {
	doors := w.doors()
	doors.Usage = func(roots []protocol.Identity, now time.Time) (list []capacity.Usage) {
		for _, id := range roots {
			list = append(list, capacity.Usage{Identity: id, At: now, CPU: time.Second, Tree: "one"})
		}
		return list
	}
	doors.Stop = func(id protocol.Identity, why string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		last := w.notes[len(w.notes)-1]
		*stops = append(*stops, stopped{id, last.Verb == "end" && strings.Contains(last.Text, why)})
	}
	w.mu.Lock()
	m := w.memory
	w.mu.Unlock()
	s := supervisor.New(w.cfg, w.projects(), m, doors, slog.New(slog.DiscardHandler), nil)
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return func() { cancel(); <-done }
}

// TestHungIsEndedOnce: where the operator wants it, the loop has the processes of a hung agent ended, noted before, once
// per run of a task; a steward that follows gives the order again, because the first may have died with it half way.
func TestHungIsEndedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, a := stillWorld(t)
		var stops []stopped
		count := func(want int, when string) {
			t.Helper()
			synctest.Wait()
			w.mu.Lock()
			defer w.mu.Unlock()
			if len(stops) != want {
				t.Fatalf("%s: ordered %d times, want %d", when, len(stops), want)
			}
			if last := stops[max(0, want-1):]; want > 0 && (last[0].id != a.agent.Process || !last[0].noted) {
				t.Errorf("%s: %+v: the wrong process, or not noted before", when, last[0])
			}
		}
		stop := w.startHung(&stops)
		time.Sleep(time.Minute)
		w.at("demo", func(*folder) { a.silent = true })
		time.Sleep(9 * time.Minute)
		count(0, "after nine minutes")
		time.Sleep(10 * time.Minute)
		count(1, "after nineteen")
		w.at("demo", func(f *folder) { f.beforeLook = func() { f.beforeLook = nil; panic("one look shows nothing") } })
		time.Sleep(time.Minute)
		count(1, "after a look that showed nothing of it")
		stop()
		stop = w.startHung(&stops)
		defer func() { stop() }()
		time.Sleep(5 * time.Minute)
		count(2, "after a restart")
		w.at("demo", func(*folder) { a.silent, a.next = false, time.Now() })
		time.Sleep(time.Minute)
		w.at("demo", func(*folder) { a.silent = true })
		time.Sleep(20 * time.Minute)
		count(2, "when it hangs anew with the same work")
	})
}

// TestHungIsEndedOnceRemembered: nobody is ended before the memory that says so is on disk.
func TestHungIsEndedOnceRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, a := stillWorld(t)
		var full atomic.Bool
		w.door = func() error {
			if full.Load() {
				return errors.New("the disk is full")
			}
			return nil
		}
		var stops []stopped
		stop := w.startHung(&stops)
		defer stop()
		time.Sleep(time.Minute)
		w.at("demo", func(*folder) { a.silent = true })
		count := func(want int, after time.Duration, fills bool) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			w.mu.Lock()
			defer w.mu.Unlock()
			if len(stops) != want {
				t.Fatalf("ordered %d times, want %d", len(stops), want)
			}
			full.Store(fills)
		}
		count(0, 5*time.Minute, true)
		count(0, 15*time.Minute, false)
		count(1, time.Minute, false)
	})
}

// TestHungIsLeftAlone: nothing is ended unless the operator wants it, of an agent that is held, or where steward only observes.
func TestHungIsLeftAlone(t *testing.T) {
	for name, change := range map[string]func(*world, *sim){
		"alert only":    func(w *world, _ *sim) { w.cfg.Heartbeat.HungAction = heartbeat.HungAlert },
		"at its prompt": func(w *world, _ *sim) { w.folders["demo"].cards["t1"].named = "" },
		"held":          func(_ *world, a *sim) { a.agent.Held = "for testing" },
		"stopped":       func(w *world, a *sim) { w.processes[a.agent.Process] = heartbeat.ProcessStopped },
		"observed":      func(w *world, _ *sim) { w.mode["demo"] = protocol.ModeObserve },
		"a mere number": func(_ *world, a *sim) { a.agent.PID, a.agent.Process = 7, protocol.Identity{} },
		"itself not": func(w *world, _ *sim) {
			w.cfg.Heartbeat.Agents = map[string]heartbeat.Limits{"codex": {HungAction: heartbeat.HungAlert}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, a := stillWorld(t)
				change(w, a)
				var stops []stopped
				stop := w.startHung(&stops)
				time.Sleep(time.Minute)
				w.at("demo", func(*folder) { a.silent = true })
				time.Sleep(30 * time.Minute)
				stop()
				if len(stops) > 0 {
					t.Errorf("ended %+v", stops)
				}
			})
		})
	}
}

// TestOwnTrouble: the loop doubts its own eyes after a look that came late and while files fail together, for as long as
// agents may take to be heard of again; a single file that is bad is its writer's trouble.
func TestOwnTrouble(t *testing.T) {
	fault := func(path string) protocol.Fault { return protocol.Fault{Path: path, Problem: "cannot be read"} }
	for name, tc := range map[string]struct {
		trouble func(*folder)
		doubt   int
		lasts   bool
	}{
		"nothing":       {func(*folder) {}, 0, false},
		"one bad file":  {func(f *folder) { f.foreign.faults = []protocol.Fault{fault("a")} }, 0, false},
		"many at once":  {func(f *folder) { f.foreign.faults = []protocol.Fault{fault("a"), fault("b")} }, 1, true},
		"a slow look":   {func(f *folder) { f.beforeLook = func() { f.beforeLook = nil; time.Sleep(12 * time.Second) } }, 1, false},
		"a defect":      {func(f *folder) { f.beforeLook = func() { panic("at every look") } }, 1, true},
		"one, then one": {func(f *folder) { f.foreign.faults = []protocol.Fault{fault("a")} }, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "demo")
				w.folders["demo"].sims = []*sim{agentOf("codex")}
				s, stop := w.start()
				defer stop()
				time.Sleep(21 * time.Second)
				w.at("demo", tc.trouble)
				expect := func(want int, after time.Duration) {
					t.Helper()
					time.Sleep(after)
					synctest.Wait()
					if got := s.State().View.Doubt; got != want {
						t.Errorf("the doubt is %d, want %d", got, want)
					}
				}
				expect(tc.doubt, 20*time.Second)
				if name == "one, then one" {
					w.at("demo", func(f *folder) { f.foreign.faults = []protocol.Fault{fault("a"), fault("b")} })
				}
				later := 0
				if tc.lasts {
					later = tc.doubt
				}
				expect(later, time.Minute)
				expect(0, 6*time.Minute)
			})
		})
	}
}

// TestSilenceOutOfSight: the one alert about many does not stand for ever when their project was removed; while they may only
// be out of sight for a while it does.
func TestSilenceOutOfSight(t *testing.T) {
	now := midnight.Add(48 * time.Hour)
	for name, tc := range map[string]struct {
		looked time.Time
		alerts int
	}{
		"for an hour":    {now.Add(-time.Hour), 1},
		"for a day":      {now.Add(-24 * time.Hour), 0},
		"never heard of": {time.Time{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			codex := protocol.Subject{Project: "removed", Protocol: "agentstatus", Kind: protocol.KindAgent, ID: "codex"}
			m := decide.Memory{LastLook: now.Add(-time.Second), Silence: decide.Silence{Agents: []protocol.Subject{codex}, Told: now.Add(-25 * time.Hour)}}
			if !tc.looked.IsZero() {
				m.Agents = decide.BookOf(map[protocol.Subject]heartbeat.Memory{codex: {Looked: tc.looked, Judged: heartbeat.Judged{State: protocol.AgentDead}}})
			}
			plan := supervisor.Decide(decide.View{Now: now}, m, newStage(t).cfg)
			if len(plan.Alerts) != tc.alerts || len(plan.Memory.Silence.Agents) != tc.alerts {
				t.Errorf("%d alerts, about %v", len(plan.Alerts), plan.Memory.Silence.Agents)
			}
		})
	}
}
