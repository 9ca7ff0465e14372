package supervisor_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
	"github.com/livhana/steward/supervisor/decide"
)

// forgetful is a folder that does not show what ended before history begins, as adapters do.
type forgetful struct{ *folder }

func (f forgetful) Observe(ctx context.Context, look protocol.ScanOrder) protocol.Snapshot {
	s := f.folder.Observe(ctx, look)
	s.Tasks = slices.DeleteFunc(s.Tasks, func(t protocol.Task) bool {
		return t.Outcome != nil && t.Hold == nil && t.Outcome.Appeared.Before(look.Since)
	})
	return s
}

// TestPauseOutlastsHistory: what its client put off before a pause, or during it, goes on after it, however long it was.
func TestPauseOutlastsHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "demo")
		w.cfg.Tasks.History = time.Minute
		f := w.folders["demo"]
		f.sims = []*sim{agentOf("codex")}
		p := w.project("demo")
		p.Open = func(string, protocol.Mode) (supervisor.Speaker, error) {
			return supervisor.Speaker{Adapter: forgetful{f}, Mode: protocol.ModeAct, Close: func() {}}, nil
		}
		s := supervisor.New(w.cfg, []supervisor.Project{p}, decide.Memory{}, w.doors(), slog.New(slog.DiscardHandler), nil)
		defer w.run(s)()
		time.Sleep(time.Second)
		deferred := protocol.Outcome{Status: "deferred", Agent: "codex"}
		for _, id := range []string{"before", "during"} {
			w.at("demo", func(f *folder) { f.submit(request(id), time.Now()) })
		}
		time.Sleep(20 * time.Second)
		w.at("demo", func(f *folder) { f.finish("before", deferred, time.Now()) })
		time.Sleep(time.Second)
		if err := do(t, s, "pause", "demo"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		w.at("demo", func(f *folder) { f.finish("during", deferred, time.Now()) })
		time.Sleep(10 * time.Minute)
		if err := do(t, s, "resume", "demo"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		for _, id := range []string{"before", "during"} {
			if n := len(w.read("demo", id).Attempts); n != 1 {
				t.Errorf("%s has %d attempts on record; it is %s", id, n, stateOf(s, "demo", protocol.KindTask, id))
			}
		}
	})
}

// TestResultWhileHeld: a failure that came while the task was held, long ago by the clock that there is now, is told.
func TestResultWhileHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "demo")
		w.cfg.Tasks.History = time.Minute
		w.fill(0.95)
		f := w.folders["demo"]
		f.sims = []*sim{agentOf("codex")}
		p := w.project("demo")
		p.Open = func(string, protocol.Mode) (supervisor.Speaker, error) {
			return supervisor.Speaker{Adapter: forgetful{f}, Mode: protocol.ModeAct, Close: func() {}}, nil
		}
		s := supervisor.New(w.cfg, []supervisor.Project{p}, decide.Memory{}, w.doors(), slog.New(slog.DiscardHandler), nil)
		defer w.run(s)()
		time.Sleep(time.Second)
		w.at("demo", func(f *folder) { f.submit(request("t1"), time.Now()) })
		time.Sleep(time.Second)
		if w.read("demo", "t1").Hold == nil {
			t.Fatal("it is not held")
		}
		w.at("demo", func(f *folder) { f.finish("t1", failure("GIT_CONFLICT"), time.Now().Add(-10*time.Minute)) })
		time.Sleep(time.Minute)
		synctest.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		if !slices.ContainsFunc(w.alerts, func(a rules.Alert) bool { return a.Subject.ID == "t1" && a.Code == "GIT_CONFLICT" }) {
			t.Errorf("told was %+v", w.alerts)
		}
	})
}

// TestFirstSightIsKept: a steward that is killed soon after it first saw a project, before anything was to be done there,
// finds out what failed while it was away, however long that was.
func TestFirstSightIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "demo")
		first := time.Now()
		_, stop := w.start()
		defer stop()
		time.Sleep(time.Second)
		synctest.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		if at := w.memory.Projects["demo"].Since; at.IsZero() || w.memory.LastLook.IsZero() || at.Sub(first) > time.Second {
			t.Errorf("on disk is that it was first seen at %v, and last looked at at %v", at, w.memory.LastLook)
		}
	})
}

// TestNoVerdictByAnOldLook: when a silent agent's task falls due it is looked at once more; it may have beaten since.
func TestNoVerdictByAnOldLook(t *testing.T) {
	s := newStage(t)
	for _, line := range []string{"agent codex beats", "task t1 appears timeout 200s", "task t1 taken", "at 00:10", "agent codex silent", "at 03:15"} {
		if err := s.do(line); err != nil {
			t.Fatal(err)
		}
	}
	concludes := func(p decide.Plan) bool {
		return slices.ContainsFunc(p.Changes, func(c protocol.Change) bool { return c.Verb == protocol.VerbConclude })
	}
	view := s.look()
	due := midnight.Add(200 * time.Second)
	view.Now = due.Add(time.Second)
	plan := supervisor.Decide(view, s.memory, s.cfg)
	if concludes(plan) || !plan.Looks["demo"].Equal(due) {
		t.Errorf("by a look from before the task was due: %+v; the next one at %v", plan.Changes, plan.Looks["demo"])
	}
	s.now = view.Now
	if plan := s.turn(); !concludes(plan) {
		t.Errorf("by a look from after it was due: %+v", plan.Changes)
	}
}

// TestHistoryReachesBack: history begins at its usual length before the last look. Where the clock was set back since, that
// was at most a day ago.
func TestHistoryReachesBack(t *testing.T) {
	now := midnight.Add(30 * time.Hour)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for rule, c := range map[string]struct{ looked, want time.Time }{
		"never seen":                     {want: ago(time.Hour)},
		"over the time without a look":   {looked: ago(3 * time.Hour), want: ago(4 * time.Hour)},
		"over a clock that was set back": {looked: now.Add(time.Hour), want: ago(25 * time.Hour)},
	} {
		if got := (decide.Memory{}).History("demo", now, c.looked, time.Hour); !got.Equal(c.want) {
			t.Errorf("%s: it begins at %v, want %v", rule, got, c.want)
		}
	}
	known := decide.Memory{Projects: map[string]decide.ProjectMemory{"demo": {Looked: ago(2 * time.Hour)}}}
	if got := known.LookedAt("demo"); !got.Equal(ago(2 * time.Hour)) {
		t.Errorf("demo was looked at %v", got)
	}
	if got := known.LookedAt("other"); !got.IsZero() {
		t.Errorf("a project never seen was looked at %v", got)
	}
}
