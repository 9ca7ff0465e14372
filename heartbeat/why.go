package heartbeat

import (
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

// counts reports whether the Cause becomes outdated while State and ground stay the same, because it has durations or
// quotes.
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

// cause returns the evidence for a State. It is built when the State changes, and later only if its sentence has durations.
func (e *evidence) cause(state protocol.AgentState, ground string, gap time.Duration, beat bool) protocol.Cause {
	m, a := e.m, e.a
	c := protocol.Cause{Reason: reason(state, ground), Facts: protocol.Facts{PID: m.Proven.PID}}
	f := &c.Facts
	// but adds to the sentence about the silence.
	but := func(p protocol.Phrase) protocol.Cause {
		c.Phrase = p
		f.Base = e.silence(f)
		return c
	}
	switch ground {
	case groundHeld:
		c.Phrase, f.Text, f.PID = protocol.PhraseHeldByUser, a.Held, e.gonePID()
	case groundStopped:
		c.Phrase = protocol.PhraseStopped
	case groundSaid:
		c.Phrase, f.PID = protocol.PhraseSaysPaused, e.gonePID()
	case groundPresent:
		c.Phrase, f.Text = protocol.PhraseQuote, a.Evidence
	case groundIdle:
		c.Phrase, f.Text = protocol.PhraseIdle, a.Left
	case groundKept:
		c.Phrase = protocol.PhraseKept
	case groundGone:
		switch {
		case a.Presence == protocol.PresenceGone:
			c.Phrase, f.Text = protocol.PhraseQuote, a.Evidence
		case a.Ending != "":
			c.Phrase, f.Text = protocol.PhraseOver, a.Ending
		default:
			c.Phrase, f.Base = protocol.PhraseGone, protocol.PhraseLastBeat
			e.aged(f)
		}
	case groundBeats:
		c.Phrase, f.For = e.beats(beat), gap
	case groundActive:
		c.Phrase = protocol.PhraseActive
	case groundProcess:
		if state == protocol.AgentAlive && e.announced() { // no duration in this sentence: it stands for days
			c.Phrase = protocol.PhraseLivesUnbeaten
			return c
		}
		return but(protocol.PhraseLives)
	case groundFiles:
		f.Still = m.SignSilent
		return but(protocol.PhraseFilesMoved)
	case groundResumed:
		return but(protocol.PhraseResumed)
	case groundDoubted:
		return but(protocol.PhraseDoubted)
	case groundStill:
		f.Still, f.Limit = m.Still, e.task
		c = but(protocol.PhraseHung)
		if !e.beatsForItself() && m.Mark != "" {
			c.Facts.Base = protocol.PhraseStewardBeats
		}
	case groundLeft:
		c.Phrase, f.Text = protocol.PhraseLeft, strings.ToLower(a.Status)
	case groundBefore:
		c.Phrase, f.Base = protocol.PhraseNeverSeen, protocol.PhraseLastBeat
		e.aged(f)
		if m.Registered.After(m.Last) {
			f.Base, f.Age = protocol.PhraseRegistered, e.now.Sub(m.Registered)
		}
	case groundAbsent: // the time of the registration and not its age: the sentence stands for days
		c.Phrase, f.At = protocol.PhraseAbsent, m.Registered
	case groundNever:
		c.Phrase = protocol.PhraseOnlyRecorded
		if a.Recorded == "" {
			c.Phrase = protocol.PhraseNoBeatAtAll
		}
	default:
		if state == protocol.AgentDead {
			return but(protocol.PhraseDead)
		}
		c.Phrase = e.silence(f)
	}
	return c
}

// gonePID is the process of the agent if it is gone; 0 if it is not.
func (e *evidence) gonePID() int {
	if e.m.Process != ProcessGone {
		return 0
	}
	return e.m.Proven.PID
}

// aged fills in the age of the last beat.
func (e *evidence) aged(f *protocol.Facts) {
	if f.At = e.m.Last; !f.At.IsZero() {
		f.Age = e.now.Sub(f.At)
	}
}

func (e *evidence) beats(beat bool) protocol.Phrase {
	switch {
	case e.a.Beat.Kept && e.m.Process == ProcessAlive:
		return protocol.PhraseKeptBeat
	case beat && (e.m.State == protocol.AgentDead || e.m.State == protocol.AgentLate || e.m.State == protocol.AgentHung):
		return protocol.PhraseBeatsAgain
	case beat:
		return "" // its Reason says so
	}
	return protocol.PhraseRecent
}

// silence returns what is missing, and fills in for how long.
func (e *evidence) silence(f *protocol.Facts) protocol.Phrase {
	m := e.m
	f.For = m.Silent
	switch {
	case m.Old && m.Mark == "" && !m.Registered.IsZero():
		f.Age = e.now.Sub(m.Registered)
		return protocol.PhraseRegisteredWatched
	case m.Old:
		e.aged(f)
		return protocol.PhraseWatched
	case m.Mark == "" && !e.announced():
		return protocol.PhraseKeepsNone
	case m.Mark == "":
		return protocol.PhraseFirstAwaited
	case m.Stale && (e.a.Beat.Booted || e.a.Beat.Fresh):
		return protocol.PhraseBooted
	case m.Stale:
		return protocol.PhraseRegisteredAgain
	}
	return protocol.PhraseSilent
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

// clock says how far the agent's times are off; the zero Cause if they are right. The figure is rounded so that it does not
// change with every beat.
func (m *Memory) clock(a *protocol.Agent) protocol.Cause {
	if m.Off == 0 || a.Beat.Mark != m.Mark {
		return protocol.Cause{}
	}
	return clockCause(protocol.PhraseClock, m.Off, a.Beat.Zoneless, "")
}

// clockCause describes times that are ahead of steward's clock, or behind it.
func clockCause(p protocol.Phrase, ahead time.Duration, zoneless bool, holder string) protocol.Cause {
	c := protocol.Cause{Reason: protocol.ReasonSeen, Phrase: p, Facts: protocol.Facts{Agent: holder}}
	if ahead = ahead.Round(time.Minute); ahead > 0 {
		c.Facts.For = ahead
	} else {
		c.Facts.Age = -ahead
	}
	if zoneless {
		c.Facts.Count = 1
	}
	return c
}
