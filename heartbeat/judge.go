// Package heartbeat judges from an agent's signs of life whether it lives, is late, hangs or is dead.
package heartbeat

import (
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
)

// Facts are what one look showed about one agent.
type Facts struct {
	Agent protocol.Agent
	// Process is how the process was found that Watch asked for, and Identity who was found there.
	Process  ProcessState
	Identity protocol.Identity
	// Keeper is how the process was found that starts the agent again; unknown when there is none.
	Keeper ProcessState
	// Activity is what the tree of processes that speaks for it has done so far.
	Activity Activity
	// Task is the longest timeout of the tasks that it has in flight; 0: it has none.
	Task time.Duration
}

// Clock is the moment of a look.
type Clock struct {
	Now       time.Time
	LookEvery time.Duration
	// ResumeUntil is the end of the grace after a resume of a running loop (see Resumed); zero if none.
	// Our own start is none: then a beat from long ago is old, not one from before a sleep.
	ResumeUntil time.Time
	// Doubt counts what speaks against our own eyes: with any, limits are twice as long.
	Doubt int
	// WaitUntil holds verdicts of silence back, because too many fell silent at once to be true; zero if not.
	WaitUntil time.Time
	// Watched: the files were looked at shortly before, so that what is new in them came in our sight.
	Watched bool
}

// Verdict is what is held of an agent, with its evidence.
type Verdict struct {
	State  protocol.AgentState
	Reason protocol.Reason
	// Why is one sentence with the evidence; Since is when the State began.
	Why   string
	Since time.Time
	// Silent is the awake silence since the last beat, or since the registration when there is none.
	Silent time.Duration
	// Changed: the State is another than at the last look (at first sight, always).
	Changed bool
	// InError: the agent lives and says that something is wrong with it; Error is what.
	InError bool
	Error   string
	// Deadline is when the State changes if nothing happens and looking goes on; zero means never.
	Deadline time.Time
	// Proof: dead by proof of death, rather than by silence.
	Proof bool
	// Absence is why nothing is heard of it although nothing is wrong; "" for all others.
	Absence protocol.Absence
	// Heard is when it was last heard of, by our clock as far as we saw it; zero: never.
	Heard time.Time
	// Clock says that the times which it writes are wrong; "" when they are right, or nobody can say.
	Clock string
}

// Judge gives the verdict on one agent, and what to remember for the next look. Judging twice at one
// moment changes nothing more. The limits are those that cfg.For gives for the agent.
func Judge(f Facts, m Memory, c Clock, limits Limits, cfg Config) (Verdict, Memory) {
	gap, beat := m.observe(&f, c, limits)
	e := evidence{m: &m, a: &f.Agent, limits: limits.doubted(c.Doubt, m.State), grace: cfg.StartGrace, now: m.Looked,
		resumeUntil: wall(c.ResumeUntil), waitUntil: wall(c.WaitUntil), task: f.Task, seen: f.Activity.Known,
		// One that nobody has looked for yet lives until the contrary is proved.
		kept: f.Keeper == ProcessAlive || f.Keeper == ProcessStopped || f.Keeper == ProcessUnknown && f.Agent.Keeper.Proves()}
	state, ground := e.at(0)
	waited := m.State == protocol.AgentPaused && state != protocol.AgentPaused || m.Ground == groundIdle && ground != groundIdle && !beat
	if waited && ground != groundGone && ground != groundPresent {
		m.unpause(limits.Dead)
		state, ground = e.at(0)
	}
	if c.Doubt > 0 && state != m.State { // the limits of what is said now hold, so that it is said again
		e.limits = limits.doubted(c.Doubt, state)
		state, ground = e.at(0)
	}
	if state == protocol.AgentPaused || state == protocol.AgentDead {
		m.Still, m.Pace = 0, Pace{}
	}
	changed := state != m.State
	if changed || ground != m.Ground || counts(state, ground) {
		m.Why = e.why(state, ground, gap, beat)
	}
	if changed {
		m.Since = m.Looked
	}
	m.Seen = m.Seen || state == protocol.AgentAlive
	m.State, m.Ground, m.Reason = state, ground, reason(state, ground)
	v := Verdict{
		State: state, Reason: m.Reason, Why: m.Why, Since: m.Since, Silent: m.Silent, Changed: changed,
		Proof: ground == groundGone, Absence: absence(ground, &f.Agent), Heard: m.Last, Clock: m.clock(&f.Agent),
	}
	if wait := e.lasts(state); wait > 0 {
		v.Deadline = m.Looked.Add(wait)
	}
	if holds := state != protocol.AgentDead && m.Mark != "" && !m.Old && !m.Stale; holds {
		v.Error = complaint(f.Agent.Status, f.Agent.Complaint) // an old beat says nothing about now
	}
	v.InError = v.Error != ""
	return v, m
}

// evidence is all that a State rests on.
type evidence struct {
	m           *Memory
	a           *protocol.Agent
	limits      Limits
	grace       time.Duration
	now         time.Time
	resumeUntil time.Time
	waitUntil   time.Time
	kept        bool          // somebody alive starts it again
	task        time.Duration // as in Facts
	seen        bool          // somebody can say what its processes do
}

// at gives the State, and the kind of evidence for it, if nothing happens for d more of awake time. The
// order is the precedence: a pause is never reaped, whatever else is known; then proof; then signs.
func (e *evidence) at(d time.Duration) (protocol.AgentState, string) {
	m, silent := e.m, e.m.Silent+d
	unheard := m.Mark == "" || m.Stale // no beat since it registered
	switch {
	case e.a.Held != "":
		return protocol.AgentPaused, groundHeld
	case m.Process == ProcessStopped:
		return protocol.AgentPaused, groundStopped
	case !unheard && strings.EqualFold(e.a.Status, "paused"):
		return protocol.AgentPaused, groundSaid
	case e.a.Presence == protocol.PresenceHere: // its leader may be gone, and others of its session go on
		return protocol.AgentAlive, groundPresent
	case e.a.Presence == protocol.PresenceGone && !e.a.Idle:
		return protocol.AgentDead, groundGone
	case e.a.Left != "":
		return protocol.AgentUnknown, groundIdle
	case e.signedOff(silent, unheard):
		return protocol.AgentUnknown, groundLeft
	case e.beforeUs():
		return protocol.AgentUnknown, groundBefore
	case m.Process == ProcessGone && e.kept && e.a.Ending == "":
		return protocol.AgentStarting, groundKept
	case m.Process == ProcessGone && !(e.a.Presence == protocol.PresenceGone && e.a.Idle):
		return protocol.AgentDead, groundGone
	case e.a.Idle && (unheard || m.Old || m.Last.IsZero() || silent > e.limits.Late):
		return protocol.AgentUnknown, groundIdle
	case e.hung(d):
		return protocol.AgentHung, groundStill
	case m.Mark == "" && !e.announced():
		return e.beatless(d)
	case unheard && !m.Old && silent < e.grace:
		return protocol.AgentStarting, groundAwaited
	case e.active(d) && (unheard || m.Old || silent > e.limits.Late):
		return protocol.AgentAlive, groundActive
	case unheard && !(m.Seen && e.task > 0):
		return e.expected(d)
	case silent > e.limits.Dead:
		return e.overdue(d)
	case m.Old && e.sign(d) == groundSilent:
		return protocol.AgentUnknown, groundOld
	case m.Old || unheard || silent > e.limits.Late:
		return protocol.AgentLate, e.sign(d)
	}
	return protocol.AgentAlive, groundBeats
}

// leaving are the words of an agent's own file by which it leaves.
var leaving = []string{"ended", "stopped", "completed", "offline"}

// signedOff reports whether the agent's own file says that it left, and nothing of it moves any more.
func (e *evidence) signedOff(silent time.Duration, unheard bool) bool {
	if e.m.Mark == "" || e.a.Idle || e.m.Process == ProcessAlive || !slices.Contains(leaving, strings.ToLower(e.a.Status)) {
		return false
	}
	return unheard || e.m.Old || e.m.Process == ProcessGone || silent > e.limits.Late
}

// longGone is how long ago an agent that steward never saw alive was last heard of until its end is none of ours.
const longGone = 24 * time.Hour

// beforeUs reports whether the agent ended before steward's time: steward never saw it alive, and it was last heard of
// more than a day ago.
func (e *evidence) beforeUs() bool {
	m := e.m
	heard := m.Last
	if m.Registered.After(heard) {
		heard = m.Registered
	}
	return !m.Seen && !heard.IsZero() && e.now.Sub(heard) > longGone && e.a.Presence == protocol.PresenceUnproved
}

// expected judges an agent that announced itself and has not beaten since. It falls due only after its first beat.
func (e *evidence) expected(d time.Duration) (protocol.AgentState, string) {
	switch e.sign(d) {
	case groundProcess:
		return protocol.AgentAlive, groundProcess
	case groundFiles:
		return protocol.AgentLate, groundFiles
	}
	return protocol.AgentUnknown, groundAbsent
}

// announced reports whether the agent itself ever came up. A boot script that enters somebody else as
// "unknown" announces nobody.
func (e *evidence) announced() bool {
	return e.a.Recorded != "unknown" && (e.a.Recorded != "" || !e.a.Registered.IsZero())
}

// beatless judges an agent that keeps no heartbeat and never announced itself: it has none to miss.
func (e *evidence) beatless(d time.Duration) (protocol.AgentState, string) {
	switch e.sign(d) {
	case groundProcess:
		return protocol.AgentAlive, groundProcess
	case groundFiles:
		return protocol.AgentLate, groundFiles
	}
	return protocol.AgentUnknown, groundNever
}

// overdue judges silence beyond the limit.
func (e *evidence) overdue(d time.Duration) (protocol.AgentState, string) {
	switch sign := e.sign(d); {
	case sign != groundSilent:
		return protocol.AgentLate, sign
	case e.m.State == protocol.AgentDead || !e.now.Add(d).Before(e.resumeUntil) && !e.now.Add(d).Before(e.waitUntil):
		return protocol.AgentDead, groundSilent
	case e.m.Old:
		return protocol.AgentUnknown, groundOld
	case e.now.Add(d).Before(e.waitUntil):
		return protocol.AgentLate, groundDoubted
	}
	return protocol.AgentLate, groundResumed
}

// sign gives the strongest sign of life besides the beat, or groundSilent.
func (e *evidence) sign(d time.Duration) string {
	switch {
	case e.m.Process == ProcessAlive:
		return groundProcess
	case e.m.Signed && e.m.SignSilent+d <= e.limits.Dead:
		return groundFiles
	}
	return groundSilent
}

// active: its process lives and its files move. Both together are as good as a beat; one alone is not.
func (e *evidence) active(d time.Duration) bool {
	return e.m.Process == ProcessAlive && e.m.Signed && e.m.SignSilent+d <= e.limits.Late
}

// past is the least that lies beyond a limit, so that whoever wakes at a Deadline finds the change.
const past = time.Millisecond

// lasts finds after how long the State will be another by time alone; 0 means never.
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

// complaint is what the agent says is wrong with it.
func complaint(status, text string) string {
	if text == "" && strings.EqualFold(status, "error") {
		return "its heartbeat says status: error"
	}
	return text
}
