package agentstatus

import (
	"errors"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
)

// A result written by hand between two runs is a duplicate of the last run's result: it goes on record, and the next
// run still takes place.
func TestResultByHandBetweenRuns(t *testing.T) {
	for name, tc := range map[string]struct {
		action string
		ours   bool // steward wrote the result itself, for a run taken for lost
		want   error
	}{
		"its own failure":     {action: protocol.ActionRetry, want: ErrEnded},
		"only put off":        {action: protocol.ActionDefer},
		"a run taken as lost": {action: protocol.ActionRetry, ours: true},
	} {
		c := newCrew(t)
		id := c.submit(ask(NewTaskID()))
		me := c.client()
		p := New(c.dir, Options{})
		apply := func(ch protocol.Change) {
			t.Helper()
			ch.Subject = protocol.Subject{Kind: protocol.KindTask, ID: id}
			if err := p.Apply(t.Context(), ch, c.now); err != nil {
				t.Fatal(err)
			}
		}
		if tc.ours {
			take(t, me, c, "m")
			task, _ := find(c.look(), id)
			apply(protocol.Change{Verb: protocol.VerbConclude, Judged: protocol.Judged{Ref: task.Ref, Claim: task.Claim}, Entry: protocol.Entry{Code: "AGENT_LOST"}})
		} else if err := me.Finish(t.Context(), id, Result{Status: "failed", Source: codex, Errors: []TaskError{{Code: "TIMEOUT", Message: "slow", Severity: "error"}}}, c.now); err != nil {
			t.Fatal(err)
		}
		task, _ := find(c.look(), id)
		due := c.now.Add(time.Hour)
		apply(protocol.Change{Verb: protocol.VerbRetry, Judged: protocol.Judged{Ref: task.Outcome.Ref}, Entry: protocol.Entry{Action: tc.action, Attempt: 1}, Until: due, ReleaseBy: due, Hold: protocol.HoldRetry})
		p.Close()

		if err := me.Finish(t.Context(), id, done(""), c.now); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
		if tc.want == nil {
			continue
		}
		if late := c.file("steward/attempts/" + id + ".1.late.json"); late["status"] != "completed" {
			t.Errorf("%s: on record: %v", name, late)
		}
		if task, _ := find(c.look(), id); task.Outcome != nil || task.Hold == nil || !task.Hold.NotBefore.Equal(due) {
			t.Errorf("%s: the next run: %+v", name, task)
		}
	}
}
