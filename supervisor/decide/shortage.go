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

// alertGate tells the user of gates that have been shut for long: those of the machine in one alert, and that of each agent
// in its own.
func (d *decision) alertGate(closed []capacity.Closed) {
	var machine []capacity.Closed
	for _, shut := range closed {
		due := shut.Since.Add(d.cfg.Capacity.AlarmAfter)
		switch {
		case d.now.Before(due):
			d.wakeAt(due)
		case shut.Agent.ID != "":
			d.gateShut(shut.Agent, shut, []string{shut.Dimension + " " + shut.Agent.ID})
		default:
			machine = append(machine, shut)
		}
	}
	if len(machine) > 0 {
		var names []string
		for _, shut := range machine {
			name := shut.Dimension
			if shut.Project != "" {
				name += " of " + shut.Project
			}
			names = append(names, name)
		}
		d.gateShut(protocol.Subject{Kind: protocol.KindMachine, ID: machine[0].Dimension}, machine[0], names)
	}
}

func (d *decision) gateShut(subject protocol.Subject, shut capacity.Closed, dimensions []string) {
	what, lack := strings.Join(dimensions, ", "), "for lack of "+shut.Dimension
	if shut.Agent.ID != "" {
		lack = "because " + shut.Agent.ID + " is full"
	}
	limit := ""
	if shut.Limit < d.cfg.Capacity.Threshold {
		limit = fmt.Sprintf(" They allow no more than %.0f %% to be used.", 100*shut.Limit)
	}
	d.tell(condition{Alert: rules.Alert{Kind: "gate_shut", Code: shut.Dimension, Severity: protocol.High, Subject: subject, Agent: shut.Agent.ID,
		Summary:    fmt.Sprintf("No room for %s since %s: %s", tasks(shut.Waiting), clock(shut.Since), what),
		Detail:     strings.TrimSpace(fmt.Sprintf("Tasks have been held back since %s because of %s.%s %s", shut.Since.UTC().Format(time.RFC3339), what, limit, d.consumers(shut.Dimension))),
		Spoken:     fmt.Sprintf("%s, tasks are held back %s.", d.cfg.Human, lack),
		Occurrence: shut.Since.UTC().Format(time.RFC3339)}})
}

// consumers names the processes that use most of a dimension.
func (d *decision) consumers(dimension string) string {
	list := capacity.Largest(d.view.Load.Consumers, dimension, capacity.ConsumersShown)
	if len(list) == 0 {
		return ""
	}
	var names []string
	for _, c := range list {
		whose := ""
		if c.Agent != "" {
			whose = " of " + c.Agent
		}
		names = append(names, fmt.Sprintf("%s%s (pid %d, %.1f cores, %d MiB)", c.Name, whose, c.PID, c.CPU, c.Memory>>20))
	}
	return "Largest consumers: " + strings.Join(names, ", ")
}

func tasks(n int) string {
	if n == 1 {
		return "a task"
	}
	return fmt.Sprintf("%d tasks", n)
}

// mostNamed is how many starving tasks are named.
const mostNamed = 5

// alertStarving tells the user of tasks that have waited for room for very long although others were admitted: what they
// need may never be free. Where the gate itself is shut, the incident is about that.
func (d *decision) alertStarving(closed []capacity.Closed) {
	var starving []protocol.Subject
	var first time.Time
	for subject, held := range d.plan.Memory.Gate.Held {
		due := held.Since.Add(d.cfg.Capacity.StarveAfter)
		switch {
		case d.now.Before(due):
			d.wakeAt(due)
		case shutLong(closed, held.Since.Add(d.cfg.Capacity.AlarmAfter)):
		default:
			starving = append(starving, subject)
			if first.IsZero() || held.Since.Before(first) {
				first = held.Since
			}
		}
	}
	if len(starving) == 0 {
		return
	}
	slices.SortFunc(starving, func(a, b protocol.Subject) int { return strings.Compare(a.String(), b.String()) })
	var names []string
	for _, s := range starving[:min(len(starving), mostNamed)] {
		names = append(names, s.String())
	}
	list := strings.Join(names, ", ")
	if more := len(starving) - len(names); more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	d.tell(condition{Alert: rules.Alert{Kind: "starving", Severity: protocol.Medium, Subject: protocol.Subject{Kind: protocol.KindMachine, ID: "queue"},
		Summary:    fmt.Sprintf("%s waited for room since %s", capital(tasks(len(starving)), len(starving)), clock(first)),
		Detail:     fmt.Sprintf("Others were admitted meanwhile. These wait: %s. 'steward explain' says what each waits for, 'steward release' releases it.", list),
		Spoken:     fmt.Sprintf("%s, tasks have waited for room for very long.", d.cfg.Human),
		Occurrence: first.UTC().Format(time.RFC3339)}})
}

// shutLong reports whether a gate has been shut since then or longer, so that an incident is about it. The longest comes
// first in the list.
func shutLong(closed []capacity.Closed, since time.Time) bool {
	return len(closed) > 0 && !closed[0].Since.After(since)
}

func capital(text string, n int) string {
	verb := " has"
	if n > 1 {
		verb = " have"
	}
	return strings.ToUpper(text[:1]) + text[1:] + verb
}

// exhaustionHolds is how long the descriptors must have been safe until that counts as over.
const exhaustionHolds = 30 * time.Second

// alertExhaustion tells the user at once when the open files are about to run out: soon nothing can be written any more.
func (d *decision) alertExhaustion() {
	load, m := d.view.Load.Fresh(d.now), &d.plan.Memory
	if e := load.Exhausted; e > 0 && e < FilesSoon {
		if m.Exhausting = d.old.Exhausting; m.Exhausting.IsZero() {
			m.Exhausting = d.now
		}
		m.ExhaustedLast, m.ExhaustedBy = d.now, load.Because[capacity.DimFiles]
	} else if over := d.old.ExhaustedLast.Add(exhaustionHolds); !d.old.ExhaustedLast.IsZero() && d.now.Before(over) {
		m.Exhausting, m.ExhaustedLast, m.ExhaustedBy = d.old.Exhausting, d.old.ExhaustedLast, d.old.ExhaustedBy
		d.wakeAt(over)
	}
	if m.Exhausting.IsZero() {
		return
	}
	d.tell(condition{Alert: rules.Alert{Kind: "files_run_out", Severity: protocol.High, Subject: protocol.Subject{Kind: protocol.KindMachine, ID: capacity.DimFiles},
		Summary:    "Open files run out",
		Detail:     strings.TrimSpace("At the present pace none is left in less than half a minute. " + m.ExhaustedBy + ". Tasks are held back meanwhile. " + d.consumers(capacity.DimFiles)),
		Spoken:     fmt.Sprintf("%s, this machine is running out of open files.", d.cfg.Human),
		Occurrence: m.Exhausting.UTC().Format(time.RFC3339)}})
}

// FilesWatched is how near the end of the descriptors must be for the gauges to be read at the fast pace.
const FilesWatched = 2 * time.Minute

// FilesSoon is how near the end of the descriptors must be to count.
const FilesSoon = 30 * time.Second
