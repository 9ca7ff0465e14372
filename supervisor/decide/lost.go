package decide

import (
	"fmt"
	"slices"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status/words"
)

// alone judges work that, as the adapter proves, no process does any more. The proof must hold for a while: files and
// processes change one after the other, and a scan may fall in between.
func (k *taskJudge) alone() {
	if k.next.Alone.IsZero() {
		k.next.Alone = k.at
	}
	due := k.next.Alone.Add(k.env.cfg.Tasks.Presume)
	if until := k.env.resumeUntil; due.Before(until) {
		due = until
	}
	k.is(protocol.TaskRunning, protocol.ReasonLost, "%s", k.t.Lost)
	if k.at.Before(due) || k.env.now.Before(due) { // another process may take it by then
		k.verdict.NotBefore = due
		k.rescan(due)
		return
	}
	k.lost(false, k.t.Lost)
}

// worked judges a task whose claim names its processes. They alone prove whether the work goes on, whatever the verdict on
// the agent is: several workers may share one name, and each knows only its own tasks.
func (k *taskJudge) worked(overdue bool, deadline time.Time) {
	for _, id := range k.t.Workers {
		if k.env.processes[id] == heartbeat.ProcessGone {
			continue
		}
		k.is(protocol.TaskRunning, protocol.ReasonInFlight, "in the hands of process %d since %s", id.PID, moment(k.next.Running, k.env.now))
		if overdue {
			k.is(protocol.TaskRunning, protocol.ReasonOverdue, "over its time of %s since %s; process %d goes on with it", span(k.timeout()), clock(deadline), id.PID)
			k.alertOverrun(deadline)
		}
		return
	}
	k.lost(false, fmt.Sprintf("its worker of %s, process %d, is proved to be gone", k.t.Agent, k.t.Workers[0].PID))
}

// lost handles a task whose agent is gone. A protocol that puts work back in one step does so; otherwise steward writes the
// result that the agent cannot write, and the retry table judges it at the next scan.
func (k *taskJudge) lost(twice bool, why string) {
	if k.next.LostAt.IsZero() {
		k.next.LostAt = k.env.now
	}
	// If the incident about the agent's death names the task, no second incident is needed.
	if told := k.agent.dead() && k.agent.agent.Presence != protocol.PresenceGone || k.leaderDead(); !mayChange(k.s) && k.t.Foreign && !told {
		k.alertLost(why)
	}
	switch {
	case k.t.Requeue:
		k.requeueLost(twice, why)
	case !k.t.Visible && k.t.Lost == "":
		// A file that cannot be read lies in the place of the result, and must not be replaced.
	default:
		k.change(protocol.Change{Verb: protocol.VerbConclude, Reason: protocol.ReasonLost, Entry: protocol.Entry{Code: rules.CodeAgentLost, Twice: twice}, Judged: protocol.Judged{Claim: k.t.Claim}, Why: why})
	}
}

// leaderDead reports whether the leader of the task's agent is dead: the incident about the leader names the task.
func (k *taskJudge) leaderDead() bool {
	return slices.ContainsFunc(k.s.Agents, func(a protocol.Agent) bool { return led(&a, k.t) && k.agents[a.Name].dead() })
}

// alertLost tells the user of lost work that steward may not touch.
func (k *taskJudge) alertLost(why string) {
	k.alert(condition{Alert: rules.Alert{Kind: "task_lost", Severity: protocol.High, Blocking: k.t.Blocking, Options: CareOptions(),
		Summary: fmt.Sprintf("%s is lost", title(k.t)), Detail: why + "." + directive(k.t),
		Spoken: fmt.Sprintf("%s, %s is lost.", k.env.cfg.Human, title(k.t))}})
}

// requeueLost rules on lost work as if its agent had written AGENT_LOST.
func (k *taskJudge) requeueLost(twice bool, why string) {
	if k.next.Alone.IsZero() {
		k.next.Alone = k.at
	}
	if k.unread() {
		return
	}
	t := *k.t
	t.Timeout = k.timeout()
	t.Outcome = &protocol.Outcome{Status: "failed", Agent: t.Agent, At: k.next.Alone, Appeared: k.next.Alone, Ours: true, Twice: twice,
		Ref:      protocol.Ref{Path: t.Ref.Path, Sum: fmt.Sprintf("lost %s %d", t.ID, len(Committed(k.t))+1)},
		Failures: []protocol.Failure{{Code: rules.CodeAgentLost, Message: why, Severity: "error"}}}
	r := rules.Judge(t, k.s.Protocol, k.env.inLocal(k.next.Alone), k.env.cfg.Retry)
	if r.Action == protocol.ActionRetry {
		k.requeue(r, protocol.ReasonLost, twice)
		return
	}
	k.is(protocol.TaskDead, protocol.ReasonExhausted, "%s", words.Sentence(r.Cause, k.env.now))
	open := k.t
	k.t = &t
	k.alertFailure(r)
	k.t = open
}

// requeue puts work back where agents find it, once the delay of the retry rule is over.
func (k *taskJudge) requeue(r rules.Ruling, reason protocol.Reason, twice bool) {
	if k.env.now.Before(r.Due) {
		k.wait(protocol.TaskWaiting, protocol.ReasonRetry, r.Due, "%s", words.Sentence(r.Cause, k.env.now))
		k.rescan(r.Due)
		return
	}
	k.is(protocol.TaskWaiting, protocol.ReasonBudget, "the project's retries of this hour are used up")
	if r.Counted && !k.spend() {
		return
	}
	k.is(protocol.TaskWaiting, protocol.ReasonRetry, "%s", words.Sentence(r.Cause, k.env.now))
	k.change(protocol.Change{Verb: protocol.VerbRequeue, Reason: reason, Why: words.Sentence(r.Cause, k.env.now), Entry: protocol.Entry{
		Action: protocol.ActionRetry, Rule: r.Rule, Code: r.Code,
		Attempt: len(Committed(k.t)) + 1, Twice: twice,
	}})
}

// halfRequeued reports whether a crash cut a requeueing short: its entry stands on record, and nothing says yet that the work
// was moved.
func (k *taskJudge) halfRequeued() bool { return k.t.Requeue && scheduled(k.t) && k.free() }

// repair finishes such a requeueing.
func (k *taskJudge) repair() {
	last := k.t.Attempts[len(k.t.Attempts)-1]
	k.is(protocol.TaskWaiting, protocol.ReasonRepair, "a crash cut its way back short")
	k.change(protocol.Change{Verb: protocol.VerbRequeue, Reason: protocol.ReasonRepair, Why: k.verdict.Why, Entry: protocol.Entry{
		Action: last.Action,
		Rule:   last.Rule, Code: last.Code, Attempt: last.N, Twice: last.Twice,
	}, Agent: last.Agent})
}
