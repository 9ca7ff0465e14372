package heartbeat

import (
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
)

// The kinds of evidence behind a State. Memory keeps them, so they are part of its format.
const (
	groundHeld    = "held"    // the operator holds it
	groundStopped = "stopped" // its process is stopped
	groundSaid    = "said"    // its heartbeat says so
	groundGone    = "gone"    // proof of death
	groundPresent = "present" // the adapter proves that its processes live
	groundIdle    = "idle"    // nothing is expected of it
	groundKept    = "kept"    // its process is gone and its keeper lives, which restarts it or records how it ended
	groundAwaited = "awaited" // registered, first beat pending
	groundBeats   = "beats"   // its heartbeat is fresh
	groundActive  = "active"  // its process lives and its files move
	groundProcess = "process" // its process lives
	groundFiles   = "files"   // its files moved within the limit
	groundResumed = "resumed" // the machine has just woken
	groundDoubted = "doubted" // too many agents fell silent at once
	groundStill   = "still"   // its process lives, and nothing moves
	groundSilent  = "silent"  // no sign of life
	groundOld     = "old"     // beyond the limit when first seen
	groundNever   = "never"   // never seen
	groundLeft    = "left"    // its own file says that it left
	groundBefore  = "before"  // it ended before steward's time
	groundAbsent  = "absent"  // registered, but never came up
)

// counts reports whether the sentence becomes outdated while State and ground stay the same, because it contains
// durations or quotes.
func counts(state protocol.AgentState, ground string) bool {
	switch state {
	case protocol.AgentLate, protocol.AgentStarting, protocol.AgentHung:
		return true
	case protocol.AgentUnknown:
		return ground == groundOld || ground == groundNever
	}
	return ground == groundHeld || ground == groundPresent
}

func reason(state protocol.AgentState, ground string) protocol.Reason {
	switch {
	case ground == groundHeld:
		return protocol.ReasonOperator
	case ground == groundGone:
		return protocol.ReasonGone
	case state == protocol.AgentAlive:
		return protocol.ReasonBeats
	case state == protocol.AgentPaused:
		return protocol.ReasonBlocked
	case state == protocol.AgentStarting:
		return protocol.ReasonSeen
	}
	return protocol.ReasonSilent
}

// why states the evidence in one sentence. It is built when the State changes, and later only if it contains durations.
func (e *evidence) why(state protocol.AgentState, ground string, gap time.Duration, beat bool) string {
	switch ground {
	case groundHeld, groundStopped, groundSaid:
		return e.whyPaused(ground)
	case groundPresent:
		return e.a.Evidence
	case groundIdle:
		if e.a.Left != "" {
			return "stopped: " + e.a.Left
		}
		return "idle: nothing is expected of it"
	case groundKept:
		return "its process " + e.pid() + " ended; who started it says what follows"
	case groundGone:
		if e.a.Presence == protocol.PresenceGone {
			return e.a.Evidence
		}
		if e.a.Ending != "" {
			return "its process " + e.pid() + " is over: " + e.a.Ending
		}
		return "its process " + e.pid() + " is gone, " + e.lastBeat()
	case groundAwaited:
		return e.silence()
	case groundBeats:
		return e.whyBeats(gap, beat)
	case groundActive:
		return "no recent heartbeat, but its process " + e.pid() + " lives and its files move"
	case groundProcess:
		if state == protocol.AgentAlive && e.announced() { // no duration in this sentence: it stands for days
			return "its process " + e.pid() + " lives; no heartbeat of its own yet"
		}
		return e.silence() + ", but its process " + e.pid() + " lives"
	case groundFiles:
		return e.silence() + ", but its files moved " + span(e.m.SignSilent) + " ago"
	case groundResumed:
		return e.silence() + ", but the machine has just woken"
	case groundDoubted:
		return e.silence() + ", but many fell silent at once while steward itself had trouble to look"
	case groundStill:
		return e.whyHung()
	case groundLeft:
		return "stopped: its own file says " + strings.ToLower(e.a.Status)
	case groundBefore:
		return "gone: " + e.heard() + ", and steward never saw it alive"
	case groundAbsent:
		return e.whyAbsent()
	case groundNever:
		if e.a.Recorded == "" {
			return "no heartbeat, and never registered"
		}
		return "registered by another program, never seen live"
	}
	if state == protocol.AgentDead {
		return e.silence() + ", no live process, no progress"
	}
	return e.silence()
}

// heard describes when the agent was last heard of.
func (e *evidence) heard() string {
	if e.m.Registered.After(e.m.Last) {
		return "registered " + span(e.now.Sub(e.m.Registered)) + " ago"
	}
	return e.lastBeat()
}

// whyAbsent states the time of the registration and not its age, because the sentence stands for days.
func (e *evidence) whyAbsent() string {
	text := "absent: it was registered"
	if !e.m.Registered.IsZero() {
		text += " at " + e.m.Registered.Format("2006-01-02 15:04:05 UTC")
	}
	return text + ", and no heartbeat and no process of it came since"
}

// absence returns why an agent is silent although nothing is wrong.
func absence(ground string, a *protocol.Agent) protocol.Absence {
	switch ground {
	case groundAwaited:
		return protocol.AbsenceExpected
	case groundAbsent:
		return protocol.AbsenceAbsent
	case groundBefore:
		return protocol.AbsenceGone
	case groundLeft:
		return protocol.AbsenceLeft
	case groundIdle:
		if a.Left != "" {
			return protocol.AbsenceLeft
		}
	}
	return ""
}

// clock describes how far the agent's times are off. The figure is rounded so that it does not change with every beat.
func (m *Memory) clock(a *protocol.Agent) string {
	if m.Off == 0 || a.Beat.Mark != m.Mark {
		return ""
	}
	way := "behind"
	if m.Off > 0 {
		way = "ahead"
	}
	text := "its heartbeats state times " + span(m.Off.Abs().Round(time.Minute)) + " " + way + " of steward's clock"
	if a.Beat.Zoneless {
		text += ", without a time zone"
	}
	return text + "; steward counts from when it sees them"
}

func (e *evidence) whyPaused(ground string) string {
	text := "its heartbeat says paused"
	switch ground {
	case groundHeld:
		text = "held by you: " + e.a.Held
	case groundStopped:
		text = "its process " + e.pid() + " is stopped"
	}
	if e.m.Process == ProcessGone {
		text += ", and its process " + e.pid() + " is gone"
	}
	return text
}

func (e *evidence) whyBeats(gap time.Duration, beat bool) string {
	switch {
	case e.a.Beat.Kept && e.m.Process == ProcessAlive:
		return "its process " + e.pid() + " lives; steward keeps its heartbeat"
	case beat && (e.m.State == protocol.AgentDead || e.m.State == protocol.AgentLate || e.m.State == protocol.AgentHung):
		return "it beats again after " + span(gap) + " of silence"
	case beat:
		return "it beats"
	}
	return "its heartbeat is recent"
}

// silence describes what is missing, and for how long steward has been watching.
func (e *evidence) silence() string {
	m, d := e.m, span(e.m.Silent)
	switch {
	case m.Old && m.Mark == "" && !m.Registered.IsZero():
		return "registered " + span(e.now.Sub(m.Registered)) + " ago without a heartbeat, watched for " + d
	case m.Old:
		return e.lastBeat() + ", watched for " + d
	case m.Mark == "" && !e.announced():
		return "it keeps no heartbeat"
	case m.Mark == "":
		return "registered, no heartbeat yet for " + d + " awake"
	case m.Stale && (e.a.Beat.Booted || e.a.Beat.Fresh):
		return "booted, no heartbeat of its own yet for " + d + " awake"
	case m.Stale:
		return "registered again, no heartbeat since for " + d + " awake"
	}
	return "no heartbeat for " + d + " awake"
}

func (e *evidence) lastBeat() string {
	if e.m.Last.IsZero() {
		return "no beat seen"
	}
	return "last beat " + span(e.now.Sub(e.m.Last)) + " ago"
}

func (e *evidence) pid() string { return strconv.Itoa(e.m.Proven.PID) }

// span formats a duration in the one unit that people would use: "92 s", "7 min", "3 h", "3 d".
func span(d time.Duration) string {
	d = max(0, d)
	switch {
	case d < 2*time.Minute:
		return strconv.Itoa(int(d/time.Second)) + " s"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + " min"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d/time.Hour)) + " h"
	}
	return strconv.Itoa(int(d/(24*time.Hour))) + " d"
}
