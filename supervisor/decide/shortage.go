package decide

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// Exhaustion is what is remembered of open files that run out.
type Exhaustion struct {
	// Exhausting is since when the file descriptors run out, ExhaustedLast when that was last seen, ExhaustedBy the cause.
	Exhausting    time.Time `json:"exhausting,omitzero"`
	ExhaustedLast time.Time `json:"exhausted_last,omitzero"`
	ExhaustedBy   string    `json:"exhausted_by,omitempty"`
}

// FilesWatched is how near the end of the descriptors must be for the gauges to be read at the fast pace, FilesSoon to count.
const (
	FilesWatched = 2 * time.Minute
	FilesSoon    = 30 * time.Second
)

// exhaustionHolds is how long the descriptors must have been safe until that counts as over.
const exhaustionHolds = 30 * time.Second

// judgeShortage tells the user of what the machine lacks.
func judgeShortage(e *env, gate capacity.Memory) (ruling, Exhaustion) {
	var r ruling
	closed := gate.Closed(e.cfg.Capacity)
	tellShut(e, &r, closed)
	tellStarving(e, &r, closed, gate.Held)
	return r, tellExhaustion(e, &r)
}

// tellShut tells the user of gates that have been shut for long: those of the machine in one alert, and that of each agent in
// its own.
func tellShut(e *env, r *ruling, closed []capacity.Closed) {
	var machine []capacity.Closed
	var names []string
	for _, shut := range closed {
		due := shut.Since.Add(e.cfg.Capacity.AlarmAfter)
		switch {
		case e.now.Before(due):
			r.wakeAt(due, e.now)
		case shut.Agent.ID != "":
			gateShut(e, r, shut.Agent, shut, []string{shut.Dimension + " " + shut.Agent.ID})
		default:
			machine = append(machine, shut)
			name := shut.Dimension
			if shut.Project != "" {
				name += " of " + shut.Project
			}
			names = append(names, name)
		}
	}
	if len(machine) > 0 {
		gateShut(e, r, protocol.Subject{Kind: protocol.KindMachine, ID: machine[0].Dimension}, machine[0], names)
	}
}

func gateShut(e *env, r *ruling, subject protocol.Subject, shut capacity.Closed, dimensions []string) {
	f := protocol.Facts{Count: shut.Waiting, At: shut.Since.UTC(), Agent: shut.Agent.ID, Name: shut.Dimension, Text: consumers(e, shut.Dimension)}
	if shut.Limit < e.cfg.Capacity.Threshold {
		f.Line = shut.Limit
	}
	r.tell(rules.Alert{Kind: "gate_shut", Code: shut.Dimension, Severity: protocol.High, Subject: subject, Agent: shut.Agent.ID, Occurrence: rfc3339(shut.Since)},
		rules.Notice{Phrase: protocol.PhraseGateShut, Facts: f, List: dimensions})
}

// consumers names the processes that use most of a dimension.
func consumers(e *env, dimension string) string {
	var names []string
	for _, c := range capacity.Largest(e.view.Load.Consumers, dimension, capacity.ConsumersShown) {
		whose := ""
		if c.Agent != "" {
			whose = " of " + c.Agent
		}
		names = append(names, fmt.Sprintf("%s%s (pid %d, %.1f cores, %d MiB)", c.Name, whose, c.PID, c.CPU, c.Memory>>20))
	}
	return strings.Join(names, ", ")
}

// mostNamed is how many starving tasks are named.
const mostNamed = 5

// tellStarving tells the user of tasks that have waited for room for very long although others were admitted: what they need
// may never be free. Where the gate itself is shut, the incident is about that.
func tellStarving(e *env, r *ruling, closed []capacity.Closed, waiting map[protocol.Subject]capacity.Held) {
	var starving []string
	var first time.Time
	for subject, held := range waiting {
		due := held.Since.Add(e.cfg.Capacity.StarveAfter)
		switch {
		case e.now.Before(due):
			r.wakeAt(due, e.now)
		case shutLong(closed, held.Since.Add(e.cfg.Capacity.AlarmAfter)):
		default:
			starving = append(starving, subject.String())
			if first.IsZero() || held.Since.Before(first) {
				first = held.Since
			}
		}
	}
	if len(starving) == 0 {
		return
	}
	slices.Sort(starving)
	shown := starving[:min(len(starving), mostNamed)]
	r.tell(rules.Alert{Kind: "starving", Severity: protocol.Medium, Subject: protocol.Subject{Kind: protocol.KindMachine, ID: "queue"}, Occurrence: rfc3339(first)},
		rules.Notice{Phrase: protocol.PhraseStarving, Facts: protocol.Facts{Count: len(starving), Of: len(starving) - len(shown), At: first}, List: shown})
}

// shutLong reports whether a gate has been shut since then or longer, so that an incident is about it. The longest comes
// first in the list.
func shutLong(closed []capacity.Closed, since time.Time) bool {
	return len(closed) > 0 && !closed[0].Since.After(since)
}

// tellExhaustion tells the user at once when the open files are about to run out: soon nothing can be written any more.
func tellExhaustion(e *env, r *ruling) (m Exhaustion) {
	load, last := e.view.Load.Fresh(e.now), e.last.Exhaustion
	if left := load.Exhausted; left > 0 && left < FilesSoon {
		if m.Exhausting = last.Exhausting; m.Exhausting.IsZero() {
			m.Exhausting = e.now
		}
		m.ExhaustedLast, m.ExhaustedBy = e.now, load.Because[capacity.DimFiles]
	} else if over := last.ExhaustedLast.Add(exhaustionHolds); !last.ExhaustedLast.IsZero() && e.now.Before(over) {
		m = last
		r.wakeAt(over, e.now)
	}
	if !m.Exhausting.IsZero() {
		r.tell(rules.Alert{Kind: "files_run_out", Severity: protocol.High, Subject: protocol.Subject{Kind: protocol.KindMachine, ID: capacity.DimFiles},
			Occurrence: rfc3339(m.Exhausting)},
			rules.Notice{Phrase: protocol.PhraseFilesRunOut, Facts: protocol.Facts{Name: m.ExhaustedBy, Text: consumers(e, capacity.DimFiles)}})
	}
	return m
}
