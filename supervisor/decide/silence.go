package decide

import (
	"slices"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
)

// Silence is what is remembered of many agents that fell silent at once while the scans themselves were in doubt.
// See docs/decisions.md, "steward doubts itself first".
type Silence struct {
	// Doubted is when a scan was last in doubt.
	Doubted time.Time `json:"doubted,omitzero"`
	// Since is when the silence was noticed; verdicts of silence wait until Until. Both are zero once that is over.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
	// Agents are the agents that the one alert is about, as long as they stay dead; Told is when the last of them were
	// noticed.
	Agents []protocol.Subject `json:"agents,omitempty"`
	Told   time.Time          `json:"told,omitzero"`
}

// Many agents fall silent at once when they are at least manyAgents and more than manyShare percent of all that lived. Then
// verdicts wait for massWait. Allow no second postponement for another massWait; otherwise a permanently slow scan would
// postpone verdicts forever. An agent that was not scanned for lostSight is dropped from the alert: its project may have
// been removed.
const (
	manyAgents = 3
	manyShare  = 55
	massWait   = 90 * time.Second
	lostSight  = 24 * time.Hour
)

// weighSilence decides, before any agent is judged, whether verdicts of silence must wait.
func weighSilence(e *env) Silence {
	m := e.last.Silence
	if e.view.Doubt > 0 {
		m.Doubted = e.now
	}
	recent := !m.Doubted.IsZero() && e.now.Sub(m.Doubted).Abs() <= massWait
	if !recent {
		m.Doubted = time.Time{}
	}
	if m.Since.IsZero() && recent && manyFallSilent(e) {
		m.Since, m.Until = e.now, e.now.Add(massWait)
	}
	return m
}

// manyFallSilent judges all agents as if nothing was in doubt: at this scan, and at the next one if nothing changes.
func manyFallSilent(e *env) bool {
	all, now, soon := 0, 0, 0
	for i := range e.view.Snapshots {
		s := &e.view.Snapshots[i]
		at := e.clock(s)
		at.Doubt = e.view.Doubt
		next := at
		next.Now = at.Now.Add(e.cfg.LookEvery)
		for j := range s.Agents {
			a := &s.Agents[j]
			mem := e.last.Agents.Of(s.Subject(protocol.KindAgent, a.Name))
			if !lived(mem.State) {
				continue
			}
			all++
			facts, limits := e.facts(a, mem), e.cfg.Heartbeat.Of(s.Protocol, a)
			v, m := heartbeat.Judge(facts, mem, at, limits, e.cfg.Heartbeat)
			if bySilence(v) {
				now++
			}
			if v, _ = heartbeat.Judge(facts, m, next, limits, e.cfg.Heartbeat); bySilence(v) {
				soon++
			}
		}
	}
	return now > 0 && soon >= manyAgents && soon*100 > all*manyShare
}

// lived reports whether an agent in that state could fall silent.
func lived(state protocol.AgentState) bool {
	switch state {
	case protocol.AgentStarting, protocol.AgentAlive, protocol.AgentLate, protocol.AgentHung:
		return true
	}
	return false
}

func bySilence(v heartbeat.Verdict) bool { return v.State == protocol.AgentDead && !v.Proof }

// oneOfMany reports whether the alert about many agents covers the agent's death already (known), or does from now on: it
// fell silent with them, or when their verdicts stopped waiting.
func oneOfMany(a agentSubject) (known, joins bool) {
	m := &a.silence
	if slices.Contains(m.Agents, a.subject) {
		return true, false
	}
	return false, !m.Since.IsZero() && bySilence(a.verdict) && a.verdict.Changed && !a.now.Before(m.Until) && a.now.Sub(m.Until) <= 2*a.cfg.LookEvery
}

// judgeSilence alerts the user once of all agents that fell silent together, and drops those that came back or are no longer
// scanned. The alert outlasts the wait of the verdicts by far.
func judgeSilence(e *env, m Silence, agents Book[heartbeat.Verdict], memory Book[heartbeat.Memory]) (Silence, ruling) {
	var r ruling
	if e.now.Before(m.Since) || e.now.After(m.Until.Add(massWait)) { // or the clock was set back
		m.Since, m.Until = time.Time{}, time.Time{}
	}
	r.wakeAt(m.Until, e.now)
	m.Agents = slices.DeleteFunc(slices.Clone(m.Agents), func(s protocol.Subject) bool {
		if e.snapshotOf(s) == nil {
			return e.now.Sub(memory.Of(s).Looked).Abs() >= lostSight
		}
		return agents.Of(s).State != protocol.AgentDead
	})
	if len(m.Agents) == 0 {
		m.Agents, m.Told = nil, time.Time{}
		return m, r
	}
	var names, tasks []string
	silent := true
	for _, subject := range m.Agents {
		names = append(names, subject.ID)
		if s := e.snapshotOf(subject); s != nil {
			open := OpenTasksOf(s, subject.ID)
			tasks, silent = append(tasks, idsOf(open)...), silent && (len(open) == 0 || allSilent(open))
		}
	}
	slices.Sort(names)
	r.tell(rules.Alert{Kind: "agents_silent", Severity: protocol.High, Subject: protocol.Subject{Kind: protocol.KindMachine, ID: "silence"},
		Blocking: len(tasks) > 0, Silent: silent && len(tasks) > 0, Options: careOptions(), Occurrence: stamp(m.Told)},
		rules.Notice{Phrase: protocol.PhraseManySilent, Facts: protocol.Facts{Count: len(names), Limit: massWait}, Names: names, List: tasks})
	return m, r
}
