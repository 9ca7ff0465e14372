package capacity

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
)

// Memory is the state that the files do not hold from one judgement to the next. It is stored as JSON. Tasks that were
// admitted or no longer wait are removed from it.
type Memory struct {
	// At is the time of the last judgement.
	At   time.Time                 `json:"at,omitzero"`
	Held map[protocol.Subject]Held `json:"held,omitempty"`
	// Turns holds, per queue (the machine's, each agent's), the sample on which a task was last released.
	Turns map[protocol.Subject]Turn `json:"turns,omitempty"`
	// Reservations are those of the last judgement; Freed holds the places of recently ended reservations.
	Reservations map[protocol.Subject]Reserved `json:"claims,omitempty"`
	Freed        []Freed                       `json:"freed,omitempty"`
	// BaseCores and BaseMemory (bytes) are the load without the reservations.
	BaseCores  float64 `json:"base_cores,omitempty"`
	BaseMemory float64 `json:"base_memory,omitempty"`
	// Learnt holds the costs of work by kind.
	Learnt Learnt `json:"learnt,omitempty"`
}

// Held is what is remembered of a task held for capacity.
type Held struct {
	Since time.Time        `json:"since"`
	Limit float64          `json:"limit"`
	Agent protocol.Subject `json:"agent,omitzero"`
	// Shut lists the dimensions that have held the task, in the order in which they began to.
	Shut []Shut `json:"shut"`
}

// Shut is a dimension that has held a task. With neither Clear nor Blind set it holds the task now.
type Shut struct {
	Dimension string `json:"dimension"`
	// Since is from when it has held the task without once proving calm.
	Since time.Time `json:"since"`
	// Clear is since when it has been low enough, without interruption.
	Clear time.Time `json:"clear,omitzero"`
	// Blind is since when it has been unreadable.
	Blind time.Time `json:"blind,omitzero"`
}

// Turn is the last release from a queue, and the sample on which it was decided.
type Turn struct {
	Sample time.Time `json:"sample,omitzero"`
	At     time.Time `json:"at"`
}

// Closed is a gate that holds at least one task.
type Closed struct {
	Dimension string           `json:"dimension"`
	Agent     protocol.Subject `json:"agent,omitzero"`    // for DimAgent: the agent of the gate
	Project   string           `json:"project,omitempty"` // for DimDisk: the project of the disk
	// Since is when the first of its tasks began to wait or when the last task was released, whichever is later. At
	// Since + Config.AlarmAfter the gate becomes an alert.
	Since   time.Time `json:"since"`
	Waiting int       `json:"waiting"`
	// Limit is the highest used share that any of its tasks allows.
	Limit float64 `json:"limit"`
}

// Closed lists the gates that were shut at the last judgement, longest first. A gate that opens only for moments too
// short to prove calm counts as shut. See docs/decisions.md, "A gate is shut since the last admission".
func (m Memory) Closed(cfg Config) []Closed {
	r := readings{now: m.At, cfg: cfg}
	gates := map[Closed]Closed{}
	for subject, held := range m.Held {
		for _, s := range held.Shut {
			if due, any := r.dueOf(s); any && !due.After(m.At) {
				continue
			}
			key := Closed{Dimension: s.Dimension}
			switch s.Dimension {
			case DimAgent:
				key.Agent = held.Agent
			case DimDisk:
				key.Project = subject.Project
			}
			g, any := gates[key]
			if !any {
				g = key
			}
			if !any || s.Since.Before(g.Since) {
				g.Since = s.Since
			}
			g.Waiting, g.Limit = g.Waiting+1, max(g.Limit, held.Limit)
			gates[key] = g
		}
	}
	return slices.SortedFunc(maps.Values(gates), func(a, b Closed) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Dimension, b.Dimension), strings.Compare(a.Project, b.Project),
			compareSubjects(a.Agent, b.Agent))
	})
}

// Follow returns the memory as it applies at now. After a gap without judgements every proof of calm starts again,
// including those of tasks whose project was not scanned yet. Times in the future, which appear when the clock is set
// back, become now.
func (m Memory) Follow(now time.Time) Memory {
	restart := interrupted(now.Sub(m.At))
	m.Held = maps.Clone(m.Held)
	for subject, held := range m.Held {
		held.Since, held.Shut = toNow(held.Since, now, false), slices.Clone(held.Shut)
		for i := range held.Shut {
			s := &held.Shut[i]
			s.Since, s.Clear, s.Blind = toNow(s.Since, now, false), toNow(s.Clear, now, restart), toNow(s.Blind, now, restart)
		}
		m.Held[subject] = held
	}
	return m
}

// toNow replaces a known time by now if it lies in the future or is to start again.
func toNow(t, now time.Time, restart bool) time.Time {
	if !t.IsZero() && (restart || t.After(now)) {
		return now
	}
	return t
}

// machineQueue is the queue of the tasks that wait for a dimension of the machine.
var machineQueue = protocol.Subject{Kind: protocol.KindMachine}

// diskQueue is the queue of the tasks that wait for the disk of a project.
func diskQueue(project string) protocol.Subject {
	return protocol.Subject{Project: project, Kind: protocol.KindMachine, ID: DimDisk}
}

// queueOf returns the queue of a dimension: each agent and each project's disk has its own queue; all other dimensions
// share the machine's queue.
func queueOf(task, agent protocol.Subject, dimension string) protocol.Subject {
	switch dimension {
	case DimAgent:
		return agent
	case DimDisk:
		return diskQueue(task.Project)
	}
	return machineQueue
}

// queues returns the queues in which a held task has waited. A task without a known cause waited in the machine's
// queue.
func queues(w Waiter, shut []Shut) []protocol.Subject {
	if len(shut) == 0 {
		return []protocol.Subject{machineQueue}
	}
	var out []protocol.Subject
	for _, s := range shut {
		if queue := queueOf(w.Subject, w.Agent, s.Dimension); !slices.Contains(out, queue) {
			out = append(out, queue)
		}
	}
	return out
}

// opened records that a gate was open until now if a task was just released through it: a queue that is making progress
// is no alert, however long it is. A release with a higher limit says nothing about the gate of tasks with a lower
// limit.
func (r *round) opened() {
	for subject, held := range r.next.Held {
		for i, s := range held.Shut {
			queue := queueOf(subject, held.Agent, s.Dimension)
			if lowest, any := r.went[queue]; any && lowest <= held.Limit+tiny {
				held.Shut[i].Since = r.now
			}
		}
		r.next.Held[subject] = held
	}
}

// pending returns the dimensions that a task waits for now: those that have not proved calm or, if it waits only for
// its turn, all that held it. A task that waits only for its agent must not block tasks that wait for the machine.
func (r *readings) pending(held Held) []Shut {
	var out []Shut
	for _, s := range held.Shut {
		if due, any := r.dueOf(s); !any || due.After(r.now) {
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return held.Shut
	}
	return out
}

// waitsIn returns the dimension for which a task waits in the given queue.
func waitsIn(queue protocol.Subject, w Waiter, pending []Shut) string {
	for _, s := range pending {
		if queueOf(w.Subject, w.Agent, s.Dimension) == queue {
			return s.Dimension
		}
	}
	return machine[0] // the cause of the hold is unknown
}

// observe records the readings for a waiting task.
func (r *round) observe(w Waiter, held Held) Held {
	held.Shut = slices.Clone(held.Shut)
	held.Shut = slices.DeleteFunc(held.Shut, func(s Shut) bool { return !r.counts(s.Dimension) })
	for _, d := range allDimensions {
		at := slices.IndexFunc(held.Shut, func(s Shut) bool { return s.Dimension == d })
		if used, known := r.used(w, d); at < 0 && known && used > r.line(w, d)+tiny {
			held.Shut = append(held.Shut, Shut{Dimension: d, Since: r.now})
		} else if at >= 0 {
			held.Shut[at] = r.see(w, held.Shut[at])
		}
	}
	return held
}

// see updates one dimension that has held a task.
func (r *round) see(w Waiter, s Shut) Shut {
	due, proving := r.dueOf(s)
	proved := proving && !due.After(r.now)
	if r.interrupted {
		s.Clear, s.Blind = time.Time{}, time.Time{}
	}
	used, known := r.used(w, s.Dimension)
	switch {
	case known && used > r.line(w, s.Dimension)+tiny:
		if proved {
			s.Since = r.now // the gate had opened meanwhile
		}
		s.Clear, s.Blind = time.Time{}, time.Time{}
	case known && s.Clear.IsZero():
		s.Clear, s.Blind = r.now, time.Time{}
	case !known && s.Blind.IsZero():
		s.Clear, s.Blind = time.Time{}, r.now
	}
	return s
}

// await makes a task wait for a dimension that holds a task before it.
func (r *round) await(w Waiter, held Held, dimension string) Held {
	if !slices.ContainsFunc(held.Shut, func(s Shut) bool { return s.Dimension == dimension }) {
		held.Shut = append(held.Shut, r.see(w, Shut{Dimension: dimension, Since: r.now}))
	}
	return held
}

// unremembered replaces the lost memory of a held task. The cause of the hold is unknown, so every readable dimension
// has to prove calm.
func (r *readings) unremembered(w Waiter) Held {
	held := Held{Since: r.now}
	for _, d := range allDimensions {
		if r.share(w, d).Known() {
			held.Shut = append(held.Shut, Shut{Dimension: d, Since: r.now})
		}
	}
	return held
}

// settled reports whether no dimension holds the task any more.
func (r *readings) settled(held Held) bool {
	due, any := r.due(held)
	return any && !due.After(r.now)
}

// due returns when the last of a task's dimensions will have proved calm, or will have been unreadable for long enough,
// if the readings stay as they are; false while any of them is too full.
func (r *readings) due(held Held) (time.Time, bool) {
	last := r.now
	for _, s := range held.Shut {
		due, any := r.dueOf(s)
		if !any {
			return time.Time{}, false
		}
		if due.After(last) {
			last = due
		}
	}
	return last, true
}

func (r *readings) dueOf(s Shut) (time.Time, bool) {
	switch {
	case !s.Blind.IsZero():
		return s.Blind.Add(r.cfg.RetryAfter), true
	case s.Clear.IsZero():
		return time.Time{}, false
	}
	return s.Clear.Add(r.calm(s.Dimension)), true
}

func (r *readings) calm(dimension string) time.Duration {
	if dimension == DimMemory {
		return r.cfg.CalmMemory
	}
	return r.cfg.Calm
}
