package heartbeat

import (
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
)

// counts reports whether the Cause becomes outdated while State and ground stay the same, because it has durations or
// quotes.
func counts(state protocol.AgentState, ground protocol.Phrase) bool {
	switch state {
	case protocol.AgentLate, protocol.AgentStarting, protocol.AgentHung:
		return true
	case protocol.AgentUnknown:
		return ground == protocol.PhraseWatched || ground == protocol.PhraseOnlyRecorded
	}
	return ground == protocol.PhraseHeldByUser || ground == protocol.PhraseQuote
}

func reason(state protocol.AgentState, ground protocol.Phrase) protocol.Reason {
	switch {
	case ground == protocol.PhraseHeldByUser:
		return protocol.ReasonOperator
	case ground == protocol.PhraseGone:
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

// says returns the phrase for a State and its ground, and the facts that it names. They are determined when the State
// changes, and later only if the sentence has durations.
func (e *evidence) says(state protocol.AgentState, ground protocol.Phrase, gap time.Duration, beat bool) (protocol.Phrase, protocol.Facts) {
	m, a, f := e.m, e.a, protocol.Facts{PID: e.m.Proven.PID}
	switch ground {
	case protocol.PhraseHeldByUser:
		f.Text, f.PID = a.Held, e.gonePID()
	case protocol.PhraseSaysPaused:
		f.PID = e.gonePID()
	case protocol.PhraseQuote:
		f.Text = a.Evidence
	case protocol.PhraseIdle:
		f.Text = a.Left
	case protocol.PhraseLeft:
		f.Text = strings.ToLower(a.Status)
	case protocol.PhraseAbsent: // the time of the registration and not its age: the sentence stands for days
		f.At = m.Registered
	case protocol.PhraseGone:
		switch {
		case a.Presence == protocol.PresenceGone:
			f.Text = a.Evidence
			return protocol.PhraseQuote, f
		case a.Ending != "":
			f.Text = a.Ending
			return protocol.PhraseOver, f
		}
		f.Base = e.lastBeat(&f)
	case protocol.PhraseNeverSeen:
		if f.Base = e.lastBeat(&f); m.Registered.After(m.Last) {
			f.Base, f.Age = protocol.PhraseRegistered, e.now.Sub(m.Registered)
		}
	case protocol.PhraseRecent:
		f.For = gap
		return e.beats(beat), f
	case protocol.PhraseOnlyRecorded:
		if a.Recorded == "" {
			return protocol.PhraseNoBeatAtAll, f
		}
	case protocol.PhraseHung:
		f.Still, f.Limit, f.Base = m.Still, e.task, e.silence(&f)
		if !e.beatsForItself() && m.Mark != "" {
			f.Base = protocol.PhraseStewardBeats
		}
	case protocol.PhraseLives:
		if state == protocol.AgentAlive && e.announced() { // no duration in this sentence: it stands for days
			return protocol.PhraseLivesUnbeaten, f
		}
		f.Base = e.silence(&f)
	case protocol.PhraseFilesMoved, protocol.PhraseResumed, protocol.PhraseDoubted, protocol.PhraseDead:
		f.Still, f.Base = m.SignSilent, e.silence(&f)
	case protocol.PhraseSilent, protocol.PhraseWatched, protocol.PhraseFirstAwaited:
		return e.silence(&f), f
	}
	return ground, f
}

// gonePID is the process of the agent if it is gone; 0 if it is not.
func (e *evidence) gonePID() int {
	if e.m.Process != ProcessGone {
		return 0
	}
	return e.m.Proven.PID
}

// lastBeat fills in the age of the last beat.
func (e *evidence) lastBeat(f *protocol.Facts) protocol.Phrase {
	if f.At = e.m.Last; !f.At.IsZero() {
		f.Age = e.now.Sub(f.At)
	}
	return protocol.PhraseLastBeat
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
		e.lastBeat(f)
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
func absence(ground protocol.Phrase, a *protocol.Agent) protocol.Absence {
	switch ground {
	case protocol.PhraseFirstAwaited:
		return protocol.AbsenceExpected
	case protocol.PhraseAbsent:
		return protocol.AbsenceAbsent
	case protocol.PhraseNeverSeen:
		return protocol.AbsenceGone
	case protocol.PhraseLeft:
		return protocol.AbsenceLeft
	case protocol.PhraseIdle:
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
