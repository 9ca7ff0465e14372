package decide

import (
	"slices"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
)

// running judges an attempt in flight: it may be over its time, or its agent gone.
func running(c *taskCase) taskRuling {
	t, a := c.t, c.agent
	m := c.mem
	if m.Running.IsZero() || m.Presumed && t.Named != "" { // it is taken only now: until now that was a guess
		m.Running, m.Presumed = c.at, t.Named == "" && !t.Foreign
		if started := t.Started; !started.IsZero() && started.Before(c.at) {
			m.Running = plain(started)
		}
	}
	m.Judged = true
	if t.Lost == "" && !a.dead() && !c.abandoned() {
		m.Alone, m.LostAt = time.Time{}, time.Time{}
	}
	r := c.rule(protocol.TaskRunning, because(protocol.ReasonInFlight, protocol.Facts{Name: c.inFlight(), At: m.Running}))
	r.next = m
	if t.Awaits != "" {
		r.verdict = TaskVerdict{State: protocol.TaskWaiting, Cause: because(protocol.ReasonAwaits, protocol.Facts{Name: t.Awaits})}
	}
	closeViolation(c, &r)
	deadline := m.Running.Add(c.timeout())
	timed := t.Timeout != protocol.NoTimeout
	over := !timed || r.passed(c.env, deadline) // without a time limit only the silence of its agent counts
	is := func(why protocol.Cause) { r.verdict = TaskVerdict{State: protocol.TaskRunning, Cause: why} }
	agent := protocol.Facts{Agent: t.Agent}
	switch {
	case len(t.Workers) > 0:
		worked(c, &r, over && timed, deadline)
	case t.Lost != "":
		alone(c, &r)
	case a.dead() && a.agent.Presence != protocol.PresenceUnproved:
		is(phrase(protocol.ReasonGone, protocol.PhraseAgentGoneFrom, agent))
	case a.dead() && a.verdict.Proof:
		lose(c, &r, false, phrase(protocol.ReasonLost, protocol.PhraseAgentProvedGone, agent))
	case a.alive() && dropped(c, &r):
		lose(c, &r, false, phrase(protocol.ReasonLost, protocol.PhraseAgentDropped, agent))
	case a.dead() && over && c.at.Before(deadline):
		is(phrase(protocol.ReasonSilent, protocol.PhraseAgentSilentDue, agent))
		r.rescanAt(deadline, c.now) // it may have sent a heartbeat since the scan
	case a.dead() && over:
		lose(c, &r, true, phrase(protocol.ReasonLost, protocol.PhraseAgentSilentOver, agent))
	case a.dead():
		agent.Until = deadline
		is(phrase(protocol.ReasonSilent, protocol.PhraseAgentSilent, agent))
	case over && timed:
		is(because(protocol.ReasonOverdue, overdue(c, deadline)))
		r.tellOverrun(c, r.verdict.Cause.Facts)
	}
	tellStalled(c, &r)
	sayProgress(c, &r)
	return r
}

// closeViolation fails the task of a worker that left its workspace. Processes of the worker that are named are ended before.
// In ModeAsk a person chooses whether the processes are ended too; in the other modes a violation that is Asked is a finding only.
func closeViolation(c *taskCase, r *taskRuling) {
	v := c.t.Violation
	if v == nil || v.Asked && !c.s.Asks() {
		return
	}
	mark := protocol.Change{Verb: protocol.VerbConclude, Agent: v.Worker, Entry: protocol.Entry{Code: protocol.CodeViolation}}
	why := quote(protocol.ReasonViolation, v.Text)
	if len(v.Processes) > 0 {
		end := mark
		end.Processes, end.Status = v.Processes, "SIGTERM"
		r.order(c, why, end)
	}
	if len(v.Processes) == 0 || c.s.Asks() {
		r.order(c, why, mark)
	}
}

// worked judges a task whose claim names its processes. They alone prove whether the work goes on, whatever the verdict on
// the agent is: several workers may share one name, and each knows only its own tasks.
func worked(c *taskCase, r *taskRuling, over bool, deadline time.Time) {
	for _, id := range c.t.Workers {
		if c.processes[id] == heartbeat.ProcessGone {
			continue
		}
		f := protocol.Facts{PID: id.PID, At: r.next.Running}
		r.verdict = TaskVerdict{State: protocol.TaskRunning, Cause: phrase(protocol.ReasonInFlight, protocol.PhraseInHandsOf, f)}
		if over {
			f.At, f.Limit, f.Base = deadline, c.timeout(), protocol.PhraseProcessGoesOn
			r.verdict.Cause = because(protocol.ReasonOverdue, f)
			r.tellOverrun(c, overdue(c, deadline))
		}
		return
	}
	lose(c, r, false, phrase(protocol.ReasonLost, protocol.PhraseWorkerGone, protocol.Facts{Agent: c.t.Agent, PID: c.t.Workers[0].PID}))
}

// abandoned reports whether every process of the task's claim is gone.
func (c *taskCase) abandoned() bool {
	lives := func(id protocol.Identity) bool { return c.processes[id] != heartbeat.ProcessGone }
	return len(c.t.Workers) > 0 && !slices.ContainsFunc(c.t.Workers, lives)
}

// alone judges work that, as the adapter proves, no process does any more. The proof must hold for a while: files and
// processes change one after the other, and a scan may fall in between.
func alone(c *taskCase, r *taskRuling) {
	if r.next.Alone.IsZero() {
		r.next.Alone = c.at
	}
	due := r.next.Alone.Add(c.cfg.Tasks.Presume)
	if due.Before(c.resumeUntil) {
		due = c.resumeUntil
	}
	r.verdict = TaskVerdict{State: protocol.TaskRunning, Cause: quote(protocol.ReasonLost, c.t.Lost)}
	if c.at.Before(due) || c.now.Before(due) { // another process may take it by then
		r.verdict.NotBefore = due
		r.rescanAt(due, c.now)
		return
	}
	lose(c, r, false, r.verdict.Cause)
}

// dropped reports whether the agent named the task in this run and has stopped naming it for a while. The delay is needed
// because agents clear active_tasks a moment before they write the result. Progress since then contradicts it. The task was
// dropped some time before the scan that showed it, so progress slightly older than that scan contradicts it too.
// See docs/decisions.md, "An agent that stops naming a task must beat once more".
func dropped(c *taskCase, r *taskRuling) bool {
	m := &r.next
	if !m.Named || m.Unnamed.IsZero() {
		return false
	}
	if at := c.t.Progress.At; !at.IsZero() && !at.Before(m.Unnamed.Add(-2*c.cfg.LookEvery)) {
		return false
	}
	due := m.Unnamed.Add(c.cfg.Tasks.Presume)
	if c.now.Before(due) {
		r.rescanAt(due, c.now)
		return false
	}
	// A restarted agent may have taken the task again, and can say so only with its next heartbeat.
	return !c.agent.heard().Before(due) && slices.Contains(c.agent.mem.Dropped, c.t.ID)
}

// tellStalled notices that the updates that the request asked for do not come (000, Progressive Updates). It allows two and a
// half intervals, because the timer of the client and ours are never in step.
func tellStalled(c *taskCase, r *taskRuling) {
	p := c.t.Progress
	if p.Every <= 0 || c.agent.dead() {
		return
	}
	last := r.next.Running
	if p.At.After(last) {
		last = plain(p.At)
	}
	if r.passed(c.env, last.Add(p.Every*5/2)) {
		r.tellTask(c, rules.Alert{Kind: "stalled", Severity: protocol.Medium, Occurrence: last.Format(time.RFC3339)},
			rules.Notice{Phrase: protocol.PhraseStalled, Facts: protocol.Facts{At: last, Limit: p.Every}})
	}
}
