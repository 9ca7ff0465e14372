// Package heartbeat judges from an agent's signs of life whether it is alive, late, hung or dead.
package heartbeat

import (
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
)

// Facts are the observations of one scan of one agent.
type Facts struct {
	Agent protocol.Agent
	// Process is the state of the process that Watch asked for, and Identity is the process found there.
	Process  ProcessState
	Identity protocol.Identity
	// Keeper is the state of the process that restarts the agent; unknown if none exists.
	Keeper ProcessState
	// Activity is what the agent's process tree has done so far.
	Activity Activity
	// Task is the longest timeout among the agent's tasks in flight; 0 if it has none.
	Task time.Duration
}

// Clock is the time context of one scan.
type Clock struct {
	Now       time.Time
	LookEvery time.Duration
	// ResumeUntil is the end of the grace after a resume of a running loop (see Resumed); zero if none exists. A
	// start of steward is not a resume: after it, an old beat is just old and not one from before a sleep.
	ResumeUntil time.Time
	// Doubt counts the indications that steward's own observation is unreliable. Above zero, limits are doubled.
	Doubt int
	// WaitUntil postpones verdicts of silence because too many agents fell silent at once to be plausible; zero if not.
	WaitUntil time.Time
	// Watched: the previous scan of the files was recent, so anything new in them appeared while steward watched.
	Watched bool
}

// Verdict is the judgement on an agent, with its evidence.
type Verdict struct {
	State protocol.AgentState
	// Cause is the evidence.
	protocol.Cause
	// Since is when the State began.
	Since time.Time
	// Silent is the awake silence since the last beat, or since the registration when none exists.
	Silent time.Duration
	// Changed: the State differs from the one at the last scan (always true at the first scan).
	Changed bool
	// InError: the agent lives and reports an error; Error is its text.
	InError bool
	Error   string
	// Deadline is when the State changes if nothing happens and scans continue; zero means never.
	Deadline time.Time
	// Proof: the agent is dead by proof of death, not by silence.
	Proof bool
	// Absence says why an agent is silent although nothing is wrong; "" for all other agents.
	Absence protocol.Absence
	// Heard is when steward last heard of the agent, by steward's clock as far as it watched; zero if never.
	Heard time.Time
	// Clock describes an error in the times that the agent writes; zero if they are right or it cannot be known.
	Clock protocol.Cause
}

// Judge returns the verdict on one agent and the Memory for the next scan. A second call for the same moment changes
// nothing more. limits must be those that cfg.For returns for the agent.
func Judge(f Facts, m Memory, c Clock, limits Limits, cfg Config) (Verdict, Memory) {
	gap, beat := m.observe(&f, c, limits)
	e := evidence{m: &m, a: &f.Agent, limits: limits.doubted(c.Doubt, m.State), grace: cfg.StartGrace, now: m.Looked,
		resumeUntil: wall(c.ResumeUntil), waitUntil: wall(c.WaitUntil), task: f.Task, seen: f.Activity.Known,
		// A keeper that was not examined yet counts as alive until proved otherwise.
		kept: f.Keeper == ProcessAlive || f.Keeper == ProcessStopped || f.Keeper == ProcessUnknown && f.Agent.Keeper.Proves()}
	state, ground := e.at(0)
	waited := m.State == protocol.AgentPaused && state != protocol.AgentPaused || m.Ground == protocol.PhraseIdle && ground != protocol.PhraseIdle && !beat
	if waited && ground != protocol.PhraseGone && ground != protocol.PhraseQuote {
		m.unpause(limits.Dead)
		state, ground = e.at(0)
	}
	if c.Doubt > 0 && state != m.State { // judge with the new state's limits, so that the next scan agrees
		e.limits = limits.doubted(c.Doubt, state)
		state, ground = e.at(0)
	}
	if state == protocol.AgentPaused || state == protocol.AgentDead {
		m.Still, m.Pace = 0, Pace{}
	}
	changed := state != m.State
	if changed || ground != m.Ground || counts(state, ground) || m.Cause.Reason == "" {
		m.Cause = protocol.Cause{Reason: reason(state, ground)}
		m.Cause.Phrase, m.Cause.Facts = e.says(state, ground, gap, beat)
	}
	if changed {
		m.Since = m.Looked
	}
	m.Seen = m.Seen || state == protocol.AgentAlive
	m.State, m.Ground = state, ground
	v := Verdict{
		State: state, Cause: m.Cause, Since: m.Since, Silent: m.Silent, Changed: changed,
		Proof: ground == protocol.PhraseGone, Absence: absence(ground, &f.Agent), Heard: m.Last, Clock: m.clock(&f.Agent),
	}
	if wait := e.lasts(state); wait > 0 {
		v.Deadline = m.Looked.Add(wait)
	}
	if holds := state != protocol.AgentDead && m.Mark != "" && !m.Old && !m.Stale; holds {
		v.Error = complaint(f.Agent.Status, f.Agent.Complaint) // an old beat says nothing about the current state
	}
	v.InError = v.Error != ""
	return v, m
}

// evidence is everything that a State is based on.
type evidence struct {
	m           *Memory
	a           *protocol.Agent
	limits      Limits
	grace       time.Duration
	now         time.Time
	resumeUntil time.Time
	waitUntil   time.Time
	kept        bool          // a living keeper restarts the agent
	task        time.Duration // as in Facts
	seen        bool          // the activity of its processes is known
}

// at returns the State and its ground, as the phrase that says it, if nothing happens for another d of awake time. The order of the cases is the
// precedence: a paused agent is never declared dead, whatever the other evidence; then proof; then signs of life.
// See docs/decisions.md, "A pause outranks proof of death".
func (e *evidence) at(d time.Duration) (protocol.AgentState, protocol.Phrase) {
	m, silent := e.m, e.m.Silent+d
	unheard := m.Mark == "" || m.Stale // no beat since the registration
	switch {
	case e.a.Held != "":
		return protocol.AgentPaused, protocol.PhraseHeldByUser
	case m.Process == ProcessStopped:
		return protocol.AgentPaused, protocol.PhraseStopped
	case !unheard && strings.EqualFold(e.a.Status, "paused"):
		return protocol.AgentPaused, protocol.PhraseSaysPaused
	case e.a.Presence == protocol.PresenceHere: // the session leader may be gone while other processes of the session run
		return protocol.AgentAlive, protocol.PhraseQuote
	case e.a.Presence == protocol.PresenceGone && !e.a.Idle:
		return protocol.AgentDead, protocol.PhraseGone
	case e.a.Left != "":
		return protocol.AgentUnknown, protocol.PhraseIdle
	case e.signedOff(silent, unheard):
		return protocol.AgentUnknown, protocol.PhraseLeft
	case e.beforeUs():
		return protocol.AgentUnknown, protocol.PhraseNeverSeen
	case m.Process == ProcessGone && e.kept && e.a.Ending == "":
		return protocol.AgentStarting, protocol.PhraseKept
	case m.Process == ProcessGone && !(e.a.Presence == protocol.PresenceGone && e.a.Idle):
		return protocol.AgentDead, protocol.PhraseGone
	case e.a.Idle && (unheard || m.Old || m.Last.IsZero() || silent > e.limits.Late):
		return protocol.AgentUnknown, protocol.PhraseIdle
	case e.hung(d):
		return protocol.AgentHung, protocol.PhraseHung
	case m.Mark == "" && !e.announced():
		return e.unbeaten(d, protocol.PhraseOnlyRecorded)
	case unheard && !m.Old && silent < e.grace:
		return protocol.AgentStarting, protocol.PhraseFirstAwaited
	case e.active(d) && (unheard || m.Old || silent > e.limits.Late):
		return protocol.AgentAlive, protocol.PhraseActive
	case unheard && !(m.Seen && e.task > 0):
		return e.unbeaten(d, protocol.PhraseAbsent)
	case silent > e.limits.Dead:
		return e.overdue(d)
	case m.Old && e.sign(d) == protocol.PhraseSilent:
		return protocol.AgentUnknown, protocol.PhraseWatched
	case m.Old || unheard || silent > e.limits.Late:
		return protocol.AgentLate, e.sign(d)
	}
	return protocol.AgentAlive, protocol.PhraseRecent
}

// leaving are the status words in an agent's own file that mean that it has left.
var leaving = []string{"ended", "stopped", "completed", "offline"}

// signedOff reports whether the agent's own file says that it left and nothing of the agent moves any more.
func (e *evidence) signedOff(silent time.Duration, unheard bool) bool {
	if e.m.Mark == "" || e.a.Idle || e.m.Process == ProcessAlive || !slices.Contains(leaving, strings.ToLower(e.a.Status)) {
		return false
	}
	return unheard || e.m.Old || e.m.Process == ProcessGone || silent > e.limits.Late
}

// longGone is the age of the last sign of life beyond which steward ignores the end of an agent that it never saw
// alive.
const longGone = 24 * time.Hour

// beforeUs reports whether the agent ended before steward's time: steward never saw it alive, and its last sign of life
// is more than a day old.
func (e *evidence) beforeUs() bool {
	m := e.m
	heard := m.Last
	if m.Registered.After(heard) {
		heard = m.Registered
	}
	return !m.Seen && !heard.IsZero() && e.now.Sub(heard) > longGone && e.a.Presence == protocol.PresenceUnproved
}

// announced reports whether the agent itself ever came up. An entry "unknown" that a boot script writes for another
// agent does not count.
func (e *evidence) announced() bool {
	return e.a.Recorded != "unknown" && (e.a.Recorded != "" || !e.a.Registered.IsZero())
}

// unbeaten judges an agent that has not beaten since it announced itself, or that keeps no heartbeat and never announced
// itself. It can become overdue only after its first beat.
func (e *evidence) unbeaten(d time.Duration, otherwise protocol.Phrase) (protocol.AgentState, protocol.Phrase) {
	switch e.sign(d) {
	case protocol.PhraseLives:
		return protocol.AgentAlive, protocol.PhraseLives
	case protocol.PhraseFilesMoved:
		return protocol.AgentLate, protocol.PhraseFilesMoved
	}
	return protocol.AgentUnknown, otherwise
}

// overdue judges silence beyond the limit.
func (e *evidence) overdue(d time.Duration) (protocol.AgentState, protocol.Phrase) {
	switch sign := e.sign(d); {
	case sign != protocol.PhraseSilent:
		return protocol.AgentLate, sign
	case e.m.State == protocol.AgentDead || !e.now.Add(d).Before(e.resumeUntil) && !e.now.Add(d).Before(e.waitUntil):
		return protocol.AgentDead, protocol.PhraseDead
	case e.m.Old:
		return protocol.AgentUnknown, protocol.PhraseWatched
	case e.now.Add(d).Before(e.waitUntil):
		return protocol.AgentLate, protocol.PhraseDoubted
	}
	return protocol.AgentLate, protocol.PhraseResumed
}

// sign returns the strongest sign of life besides the beat, or protocol.PhraseSilent.
func (e *evidence) sign(d time.Duration) protocol.Phrase {
	switch {
	case e.m.Process == ProcessAlive:
		return protocol.PhraseLives
	case e.m.Signed && e.m.SignSilent+d <= e.limits.Dead:
		return protocol.PhraseFilesMoved
	}
	return protocol.PhraseSilent
}

// active reports whether the agent's process lives and its files change. Both together count as a beat; either alone
// does not.
func (e *evidence) active(d time.Duration) bool {
	return e.m.Process == ProcessAlive && e.m.Signed && e.m.SignSilent+d <= e.limits.Late
}

// past is the smallest step beyond a limit, so that a scan at the Deadline finds the change.
const past = time.Millisecond

// lasts returns after how long the passage of time alone changes the State; 0 means never.
func (e *evidence) lasts(state protocol.AgentState) time.Duration {
	if state == protocol.AgentDead || state == protocol.AgentPaused {
		return 0
	}
	var first time.Duration
	for _, d := range [...]time.Duration{
		e.limits.Late - e.m.Silent + past, e.limits.Dead - e.m.Silent + past, e.grace - e.m.Silent,
		e.limits.Late - e.m.SignSilent + past, e.limits.Dead - e.m.SignSilent + past, e.resumeUntil.Sub(e.now),
		e.waitUntil.Sub(e.now), e.stillFor() + past, blindMost - e.m.Pace.Blind + past,
	} {
		if d <= 0 || first != 0 && d >= first {
			continue
		}
		if s, _ := e.at(d); s != state {
			first = d
		}
	}
	return first
}

// complaint returns the error that the agent reports.
func complaint(status, text string) string {
	if text == "" && strings.EqualFold(status, "error") {
		return "its heartbeat says status: error"
	}
	return text
}
