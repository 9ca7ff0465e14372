package task_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/livhana/steward/join/task"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
)

// scene is a task whose files change over time.
type scene struct {
	steps []step
	begun time.Time
	said  []string
	warns int
}

type step struct {
	at time.Duration
	d  agentstatus.Detail
}

func (s *scene) look(context.Context) (agentstatus.Detail, error) {
	d := agentstatus.Detail{}
	err := fmt.Errorf("task x: %w", agentstatus.ErrNoTask)
	for _, st := range s.steps {
		if time.Since(s.begun) >= st.at {
			d, err = st.d, nil
			if d.ID == "gone" {
				err = agentstatus.ErrNoTask
			}
		}
	}
	return d, err
}

// play runs a wait in virtual time (synctest), and returns how long it took.
func play(t *testing.T, s *scene, change func(*task.Waiter)) (d agentstatus.Detail, took time.Duration, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s.begun = time.Now()
		w := &task.Waiter{Look: s.look, Now: time.Now, Every: time.Second,
			Trouble: func(context.Context, agentstatus.Detail) (string, bool) { return "", false },
			Decided: func(context.Context, agentstatus.Detail) bool { return true },
			Other: func(context.Context, string) (agentstatus.Detail, error) {
				return agentstatus.Detail{}, agentstatus.ErrNoTask
			}}
		w.Say = func(n task.News) {
			if n.Text != "" {
				s.said = append(s.said, fmt.Sprintf("%d %s", time.Since(s.begun)/time.Second, n.Text))
			}
			if n.Warning {
				s.warns++
			}
		}
		if change != nil {
			change(w)
		}
		d, err = w.Run(t.Context())
		took = time.Since(s.begun)
	})
	return d, took, err
}

var asked = &agentstatus.Request{Target: "codex-cursor", Timeout: 60}

func in(state string) agentstatus.Detail {
	return agentstatus.Detail{ID: "x", State: state, Request: asked}
}

func endedWith(status string) agentstatus.Detail {
	d := in(agentstatus.StateEnded)
	d.Result, d.Final = &agentstatus.Result{Status: status}, true
	return d
}

func told(t *testing.T, s *scene, want ...string) {
	t.Helper()
	if got := strings.Join(s.said, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("it said\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

func TestAWaitTellsEachChangeOnce(t *testing.T) {
	forty, eighty := in(agentstatus.StateRunning), in(agentstatus.StateRunning)
	forty.Progress = &agentstatus.TaskProgress{Percent: 40, Step: "push\x1b[2J", Done: 2, Total: 5}
	eighty.Progress = &agentstatus.TaskProgress{Percent: 80}
	held := in(agentstatus.StateHeld)
	held.Hold, held.HoldWhy = &protocol.Hold{Reason: protocol.HoldCapacity}, "the machine is full"
	s := &scene{steps: []step{{0, in(agentstatus.StatePending)}, {3 * time.Second, held}, {9 * time.Second, in(agentstatus.StateRunning)},
		{12 * time.Second, forty}, {15 * time.Second, eighty}, {20 * time.Second, endedWith("completed")}}}
	d, took, err := play(t, s, nil)
	if err != nil || took != 20*time.Second || task.ExitCode(d) != 0 {
		t.Errorf("%v after %v, exit %d", err, took, task.ExitCode(d))
	}
	told(t, s, "0 waits for codex-cursor to take it", "3 held: the machine is full; to start it now: steward release "+held.ID, "9 codex-cursor works on it",
		"12 40 %  2/5  push?[2J", "15 80 %")
}

// TestARetryIsNotTheEnd: a failure that steward retries is not the end. The second failure is, once the daemon has
// decided so.
func TestARetryIsNotTheEnd(t *testing.T) {
	failed := endedWith("failed")
	waiting := in(agentstatus.StateHeld)
	waiting.Hold = &protocol.Hold{Reason: protocol.HoldRetry}
	waiting.Attempts = []protocol.Attempt{{N: 1, Action: protocol.ActionRetry, Code: "FILE_NOT_FOUND", Committed: true}}
	again, last := in(agentstatus.StateRunning), endedWith("failed")
	again.Attempts, last.Attempts = waiting.Attempts, waiting.Attempts
	s := &scene{steps: []step{{0, in(agentstatus.StateRunning)}, {5 * time.Second, failed}, {6 * time.Second, waiting}, {30 * time.Second, again}, {40 * time.Second, last}}}
	s.steps[2].d.Due = time.Date(2000, 1, 1, 0, 0, 30, 0, time.UTC) // synctest starts in the year 2000
	_, took, err := play(t, s, func(w *task.Waiter) {
		w.Decided = func(_ context.Context, d agentstatus.Detail) bool {
			return len(d.Attempts) == 1 && time.Since(s.begun) > 42*time.Second
		}
	})
	if err != nil || took != 43*time.Second {
		t.Errorf("%v after %v", err, took)
	}
	told(t, s, "0 codex-cursor works on it", "6 attempt 1 failed: FILE_NOT_FOUND", "6 waits for its next attempt, due in 24 s", "30 codex-cursor works on it")
}

func TestWhenAnEndIsTheEnd(t *testing.T) {
	never := func(context.Context, agentstatus.Detail) bool { return false }
	always := func(context.Context, agentstatus.Detail) bool { return true }
	unfinal := endedWith("failed")
	unfinal.Final = false
	cancelled, buried := endedWith("failed"), endedWith("failed")
	cancelled.Cancelled, buried.Buried = true, true
	for name, c := range map[string]struct {
		d       agentstatus.Detail
		decided func(context.Context, agentstatus.Detail) bool
		took    time.Duration
	}{
		"completed":                             {endedWith("completed"), never, 0},
		"cancelled":                             {cancelled, never, 0},
		"dead letter":                           {buried, never, 0},
		"failed, decided":                       {endedWith("failed"), always, 0},
		"failed, a daemon that says nothing":    {endedWith("failed"), never, 10 * time.Second},
		"deferred, without a release":           {endedWith("deferred"), always, 10 * time.Second},
		"a retry on record that does not begin": {unfinal, always, 10 * time.Second},
	} {
		_, took, err := play(t, &scene{steps: []step{{0, c.d}}}, func(w *task.Waiter) { w.Decided = c.decided })
		if err != nil || took != c.took {
			t.Errorf("%s: %v after %v, want %v", name, err, took, c.took)
		}
	}
	if _, took, err := play(t, &scene{steps: []step{{0, unfinal}, {time.Minute, endedWith("completed")}}}, func(w *task.Waiter) { w.Decided = never }); err != nil || took != time.Minute {
		t.Errorf("a retry that comes late: %v after %v", err, took)
	}
}

// TestHowLongAWaitLasts: each run may take its own timeout plus ten seconds; held time does not count.
func TestHowLongAWaitLasts(t *testing.T) {
	held := in(agentstatus.StateHeld)
	for name, c := range map[string]struct {
		steps []step
		limit time.Duration
		took  time.Duration
	}{
		"never taken":      {[]step{{0, in(agentstatus.StatePending)}}, 0, 70 * time.Second},
		"taken late":       {[]step{{0, in(agentstatus.StatePending)}, {50 * time.Second, in(agentstatus.StateRunning)}}, 0, 120 * time.Second},
		"held for an hour": {[]step{{0, held}, {time.Hour, in(agentstatus.StateRunning)}}, 0, time.Hour + 70*time.Second},
		"a limit":          {[]step{{0, held}}, 5 * time.Minute, 5 * time.Minute},
		"a limit, undecided": {[]step{{0, func() agentstatus.Detail { d := endedWith("failed"); d.Final = false; return d }()}},
			20 * time.Second, 20 * time.Second},
	} {
		_, took, err := play(t, &scene{steps: c.steps}, func(w *task.Waiter) {
			w.Limit, w.Decided = c.limit, func(context.Context, agentstatus.Detail) bool { return false }
		})
		if !errors.Is(err, task.ErrLimit) || took != c.took {
			t.Errorf("%s: %v after %v, want %v", name, err, took, c.took)
		}
	}
	for seconds, want := range map[float64]time.Duration{0: 310 * time.Second, 60: 70 * time.Second, 1e9: time.Hour + 10*time.Second, -1: 310 * time.Second} {
		if got := task.Patience(&agentstatus.Request{Timeout: seconds}); got != want {
			t.Errorf("patience with %v s is %v, want %v", seconds, got, want)
		}
	}
}

func TestATaskThatIsGoneForAMomentIsNotLost(t *testing.T) {
	gone := agentstatus.Detail{ID: "gone"}
	s := &scene{steps: []step{{0, in(agentstatus.StatePending)}, {2 * time.Second, gone}, {4 * time.Second, endedWith("completed")}}}
	if _, _, err := play(t, s, nil); err != nil {
		t.Errorf("while its files move: %v", err)
	}
	s = &scene{steps: []step{{0, in(agentstatus.StatePending)}, {2 * time.Second, gone}}}
	if _, took, err := play(t, s, nil); !errors.Is(err, agentstatus.ErrNoTask) || took > 6*time.Second {
		t.Errorf("gone for good: %v after %v", err, took)
	}
	if _, took, err := play(t, &scene{}, nil); !errors.Is(err, agentstatus.ErrNoTask) || took > 2*time.Second {
		t.Errorf("never there: %v after %v", err, took)
	}
}

func TestTroubleIsToldOnce(t *testing.T) {
	s := &scene{steps: []step{{0, in(agentstatus.StatePending)}, {55 * time.Second, endedWith("completed")}}}
	_, _, err := play(t, s, func(w *task.Waiter) {
		w.Trouble = func(context.Context, agentstatus.Detail) (string, bool) {
			if time.Since(s.begun) < 20*time.Second {
				return "", false
			}
			return "codex-cursor is dead", false
		}
	})
	if err != nil || s.warns != 1 {
		t.Errorf("%v, %d warnings: %q", err, s.warns, s.said)
	}
}

// TestAnAgentInErrorEndsTheWait: an agent that reports an error ends the wait, even after a warning about something
// else.
func TestAnAgentInErrorEndsTheWait(t *testing.T) {
	s := &scene{steps: []step{{0, in(agentstatus.StateRunning)}, {55 * time.Second, endedWith("completed")}}}
	_, took, err := play(t, s, func(w *task.Waiter) {
		w.Trouble = func(context.Context, agentstatus.Detail) (string, bool) {
			if time.Since(s.begun) < 20*time.Second {
				return "codex-cursor is late", false
			}
			return "codex-cursor says that it is in error", true
		}
	})
	var inError *task.AgentError
	if !errors.As(err, &inError) || took < 20*time.Second || took > 26*time.Second || s.warns != 1 {
		t.Errorf("%v after %v, %d warnings", err, took, s.warns)
	}
}

func TestExitCodes(t *testing.T) {
	failed := func(metric any, codes ...string) agentstatus.Detail {
		d := endedWith("failed")
		d.Result.Body.Metrics = map[string]any{"exit_code": metric}
		for _, c := range codes {
			d.Result.Errors = append(d.Result.Errors, agentstatus.TaskError{Code: c})
		}
		return d
	}
	cancelled, buried, doneAfterAll := failed(7), failed(7), endedWith("completed")
	cancelled.Cancelled, buried.Buried, doneAfterAll.Cancelled = true, true, true
	none := in(agentstatus.StateEnded)
	for name, c := range map[string]struct {
		d    agentstatus.Detail
		want int
	}{
		"completed": {endedWith("completed"), 0}, "completed all the same": {doneAfterAll, 0}, "its own": {failed(int64(7)), 7}, "255": {failed(255.0), 255},
		"too large": {failed(256.0), 1}, "negative": {failed(-1.0), 1}, "zero": {failed(0.0), 1}, "a half": {failed(1.5), 1}, "a word": {failed("7"), 1}, "none": {failed(nil), 1},
		"timeout": {endedWith("timeout"), 124}, "failed by timeout": {failed(143.0, "TIMEOUT"), 124}, "partial": {endedWith("partial"), 1}, "blocked": {endedWith("blocked"), 1},
		"cancelled": {cancelled, 130}, "dead letter": {buried, 1}, "no result": {none, 1},
	} {
		if got := task.ExitCode(c.d); got != c.want {
			t.Errorf("%s: exit %d, want %d", name, got, c.want)
		}
	}
}

// TestATaskBehindAFailedOne: a wait for a task whose dependency failed for good would never end, so it fails.
func TestATaskBehindAFailedOne(t *testing.T) {
	held := in(agentstatus.StateHeld)
	held.Hold = &protocol.Hold{Reason: protocol.HoldBlocked}
	held.Request = &agentstatus.Request{Coordination: agentstatus.RequestCoordination{After: []string{"a"}}}
	_, took, err := play(t, &scene{steps: []step{{0, held}}}, func(w *task.Waiter) {
		begun := w.Now()
		w.Decided = func(_ context.Context, d agentstatus.Detail) bool { return time.Since(begun) >= 30*time.Second }
		w.Other = func(context.Context, string) (agentstatus.Detail, error) {
			if time.Since(begun) < 20*time.Second {
				return in(agentstatus.StateRunning), nil
			}
			return endedWith("failed"), nil
		}
	})
	var blocked *task.BlockedError
	if !errors.As(err, &blocked) || took != 30*time.Second {
		t.Errorf("%v after %v", err, took)
	}
}
