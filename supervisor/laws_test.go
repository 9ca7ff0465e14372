package supervisor_test

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status/words"
	"github.com/livhana/steward/supervisor"
	"github.com/livhana/steward/supervisor/decide"
)

// flat is a Book as a map, to compare with another whichever values they share.
func flat[V any](b decide.Book[V]) map[protocol.Subject]V { return maps.Collect(b.All()) }

// flatMemory is a Memory that can be compared, with its Books beside it.
func flatMemory(m decide.Memory) []any {
	books := []any{flat(m.Agents), flat(m.Tasks), flat(m.Locks), flat(m.Reaps)}
	m.Agents, m.Tasks = decide.BookOf[heartbeat.Memory](nil), decide.BookOf[decide.TaskMemory](nil)
	m.Locks, m.Reaps = decide.BookOf[heartbeat.LockMemory](nil), decide.BookOf[decide.Reap](nil)
	return append(books, m)
}

// aLook is the view of one project in which a request has just appeared and another task has failed.
func aLook(now time.Time) decide.View {
	s := &stage{cfg: settings(), now: now, folders: map[string]*folder{"demo": newFolder()}}
	f := s.demo()
	f.sims = append(f.sims, &sim{agent: protocol.Agent{Name: "codex", Status: "active", Recorded: "active", Used: protocol.Used(0.12345)}, every: time.Second, next: now})
	f.submit(protocol.Task{Request: protocol.Request{ID: "t1", Agent: "codex"}}, now)
	f.submit(protocol.Task{Request: protocol.Request{ID: "t2", Agent: "codex"}}, now)
	limited := failure("RATE_LIMITED")
	limited.Failures[0].Message = "usage limit reached, resets 3pm"
	f.finish("t2", limited, now)
	view := s.look()
	view.Load.CPU = protocol.Used(0.80004) // a dump says 0.8, which is the limit
	return view
}

// TestSameViewSamePlan is law 4, with what a dump loses: the monotonic clock, the name of the zone, the last digits.
func TestSameViewSamePlan(t *testing.T) {
	for name, zone := range map[string]*time.Location{"local": time.Local, "UTC": time.UTC, "west": time.FixedZone("west", -7*3600)} {
		t.Run(name, func(t *testing.T) {
			view := aLook(time.Now().In(zone))
			var dumped decide.View
			reread(t, view, &dumped)
			a, b := supervisor.Decide(view, decide.Memory{}, settings()), supervisor.Decide(dumped, decide.Memory{}, settings())
			if x, y := dump(t, a), dump(t, b); x != y {
				t.Errorf("another plan:\n%s\n%s", x, y)
			}
			var memory decide.Memory
			reread(t, a.Memory, &memory)
			a.Memory.Gate.Held, a.Memory.Gate.Turns = memory.Gate.Held, memory.Gate.Turns // empty or nil
			if !reflect.DeepEqual(flatMemory(memory), flatMemory(a.Memory)) {
				t.Errorf("the memory is not what it was:\n%+v\n%+v", a.Memory, memory)
			}
		})
	}
}

// checkReasons holds a plan to the law that every verdict names a reason.
func checkReasons(t fataler, plan decide.Plan) {
	t.Helper()
	for subject, v := range plan.Tasks.All() {
		if v.Reason == "" {
			t.Fatalf("%s is %s without a reason: %s", subject, v.State, sentenceOf(v))
		}
	}
	for subject, v := range plan.Agents.All() {
		if v.Reason == "" {
			t.Fatalf("%s is %s without a reason: %+v", subject, v.State, v.Cause)
		}
	}
	for subject, v := range plan.Locks.All() {
		if v.Reason == "" {
			t.Fatalf("%s is %s without a reason: %+v", subject, v.State, v.Cause)
		}
	}
}

func sentenceOf(v decide.TaskVerdict) string { return words.Sentence(v.Cause, midnight) }

// checkSettled holds a plan to the law that a task which nothing is left to do about is only cheaper to judge: judged in full
// it comes out the same.
func checkSettled(t fataler, view decide.View, memory decide.Memory, cfg decide.Config, plan decide.Plan) {
	t.Helper()
	for subject, m := range memory.Tasks.All() {
		if m.Settled != "" {
			m.Settled = ""
			memory.Tasks = memory.Tasks.With(subject, m)
		}
	}
	again := supervisor.Decide(view, memory, cfg)
	a, b := []any{withoutLog(plan.Changes), plan.Alerts, withoutLog(plan.Waiting), plan.Open, flat(plan.Tasks)},
		[]any{withoutLog(again.Changes), again.Alerts, withoutLog(again.Waiting), again.Open, flat(again.Tasks)}
	for i := range a {
		if !reflect.DeepEqual(a[i], b[i]) {
			t.Fatalf("at %v settled tasks change the plan:\n%+v\n%+v", view.Now, a[i], b[i])
		}
	}
}

// withoutLog leaves out the lines for the shared log. After a jump of the clock a task that ended long ago would get one anew.
func withoutLog(changes []protocol.Change) []protocol.Change {
	return slices.DeleteFunc(append([]protocol.Change{}, changes...), func(c protocol.Change) bool { return c.Verb == protocol.VerbLog })
}

// TestResetTimeIsOfThePlace: "resets 3pm" is meant in the time of the machine.
func TestResetTimeIsOfThePlace(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.FixedZone("", -7*3600))
	for _, c := range supervisor.Decide(aLook(noon), decide.Memory{}, settings()).Changes {
		if c.Verb == protocol.VerbRetry {
			if due := c.Until.In(noon.Location()); due.Hour() != 15 || due.Minute() > 1 {
				t.Errorf("due %v", due)
			}
			return
		}
	}
	t.Error("not retried")
}

// TestBusyAndObservedAreLeftAlone: on such files nothing is decided, and nothing is paid for.
func TestBusyAndObservedAreLeftAlone(t *testing.T) {
	for name, set := range map[string]func(*protocol.Snapshot){
		"busy": func(s *protocol.Snapshot) { s.Busy = true }, "observed": func(s *protocol.Snapshot) { s.Act = false },
	} {
		view := aLook(midnight)
		view.Load.CPU = protocol.Used(0.99)
		view.Snapshots[0].Tasks[1].Outcome.Failures[0].Code = "FILE_NOT_FOUND"
		if n := len(supervisor.Decide(view, decide.Memory{}, settings()).Changes); n != 2 {
			t.Fatalf("%d changes otherwise", n)
		}
		set(&view.Snapshots[0])
		plan := supervisor.Decide(view, decide.Memory{}, settings())
		if len(plan.Changes) != 0 || len(plan.Memory.Projects["demo"].Retries) != 0 {
			t.Errorf("%s: %+v, paid %v", name, plan.Changes, plan.Memory.Projects["demo"].Retries)
		}
	}
}

// TestDecideChangesNoMemory: the old memory may be shared with readers.
func TestDecideChangesNoMemory(t *testing.T) {
	view := aLook(midnight)
	old := supervisor.Decide(view, decide.Memory{}, settings()).Memory
	before := string(encoded(t, old))
	view.Now = view.Now.Add(time.Minute)
	view.Snapshots[0].At = view.Now
	supervisor.Decide(view, old, settings())
	if after := string(encoded(t, old)); after != before {
		t.Errorf("the memory was changed:\n%s\n%s", before, after)
	}
}

// TestAbsentProjectsAreRemembered: a decision that does not see a project forgets nothing of it, and ends none of its
// incidents.
func TestAbsentProjectsAreRemembered(t *testing.T) {
	s := newStage(t)
	s.folders["other"] = newFolder()
	s.load.Memory = protocol.Used(0.95)
	s.until(midnight.Add(7 * time.Second))
	s.folders["other"].submit(protocol.Task{Request: protocol.Request{ID: "t1", Agent: "codex"}}, s.now)
	s.folders["other"].submit(protocol.Task{Request: protocol.Request{ID: "t2", Agent: "codex"}}, s.now)
	s.folders["other"].finish("t2", failure("GIT_CONFLICT"), s.now)
	s.until(midnight.Add(20 * time.Second))
	before := s.memory
	view := s.look()
	view.Snapshots = view.Snapshots[:1]
	plan := supervisor.Decide(view, s.memory, s.cfg)
	if len(plan.Alerts) != 0 {
		t.Errorf("alerts: %+v", plan.Alerts)
	}
	if !reflect.DeepEqual(flat(plan.Memory.Tasks), flat(before.Tasks)) || !reflect.DeepEqual(plan.Memory.Gate.Held, before.Gate.Held) || len(before.Gate.Held) != 1 {
		t.Errorf("before %+v\nafter %+v", before, plan.Memory)
	}
}

// TestHangingProjectIsInNobodysWay: its held task of higher priority does not keep the others waiting for ever.
func TestHangingProjectIsInNobodysWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "bad", "good")
		w.fill(0.95)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		hang := make(chan struct{})
		defer close(hang) // after the end of the loop: the project still hangs then
		go func() { ended <- w.loop().Run(ctx) }()
		defer func() {
			cancel()
			if err := <-ended; !errors.Is(err, supervisor.ErrStayHeld) || !strings.Contains(err.Error(), "bad:task/t1") {
				t.Errorf("what stays held there is not named: %v", err)
			}
		}()
		time.Sleep(7 * time.Second)
		first := request("t1")
		first.Priority = protocol.PriorityCritical
		w.at("bad", func(f *folder) { f.submit(first, time.Now()) })
		w.at("good", func(f *folder) { f.submit(request("t1"), time.Now()) })
		if w.read("bad", "t1").Hold == nil || w.read("good", "t1").Hold == nil {
			t.Fatal("not held")
		}
		w.at("good", func(*folder) { w.folders["bad"].beforeLook = func() { <-hang } })
		time.Sleep(10 * time.Second)
		w.fill(0.25)
		time.Sleep(time.Minute)
		if w.read("good", "t1").Hold != nil {
			t.Fatal("it waits behind a task of a project that does not answer")
		}
	})
}

// TestSettledWhileNobodyLooked: a project that is not looked at for a while (another steward has it, its disk hangs) takes
// with it nothing of what a human has settled there.
func TestSettledWhileNobodyLooked(t *testing.T) {
	s := newStage(t)
	demo := s.demo()
	do := func(lines ...string) {
		for _, line := range lines {
			if err := s.do(line); err != nil {
				t.Fatal(line, err)
			}
		}
	}
	do("finding gate on t9 high the audit failed", "at 00:10", "settle t9")
	delete(s.folders, "demo")
	s.until(midnight.Add(time.Hour))
	s.folders["demo"] = demo
	s.until(midnight.Add(2 * time.Hour))
	if s.alerts != 1 {
		t.Errorf("told again:\n%s", s.log.String())
	}
}

// TestEmptyPlan: whatever a plan asks for, it is not empty, so that the law of rest holds for all of it.
func TestEmptyPlan(t *testing.T) {
	for what, p := range map[string]decide.Plan{"changes": {Changes: make([]protocol.Change, 1)}, "alerts": {Alerts: make([]rules.Alert, 1)}} {
		if p.Empty() || !(decide.Plan{}).Empty() {
			t.Errorf("a plan with %s is empty", what)
		}
	}
}
