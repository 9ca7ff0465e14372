package status

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status/words"
	"github.com/livhana/steward/supervisor"
)

// Capacity is GET /v1/capacity: how full the machine is, which dimension is the limit, what uses it and what waits for
// it.
type Capacity struct {
	At        *time.Time            `json:"at"` // of the reading
	Load      supervisor.LoadReport `json:"load"`
	Threshold float64               `json:"threshold"` // used share above which tasks wait, unless a task sets its own
	// Cores and MemoryBytes are the totals behind the shares; 0: unknown. Because says why a dimension is so full.
	Cores       float64           `json:"cores,omitempty"`
	MemoryBytes uint64            `json:"memory_bytes,omitempty"`
	Because     map[string]string `json:"because,omitempty"`
	// Stalled is the share of the last seconds in which some process waited for the processor. ExhaustedSeconds is the
	// forecast until the open files run out; 0 if that is not expected.
	Stalled          protocol.Share `json:"stalled"`
	ExhaustedSeconds float64        `json:"exhausted_seconds,omitempty"`
	// Promised is the usage of processor and memory that the next task meets, including the expected use of the claims.
	Promised supervisor.Promised `json:"promised"`
	// Alone: no daemon answered, and the command took the readings itself; the held tasks are then unknown.
	Alone     bool                     `json:"alone,omitempty"`
	Claims    []supervisor.ClaimReport `json:"claims"`
	Running   int                      `json:"running"`   // tasks in flight
	Consumers []protocol.Consumer      `json:"consumers"` // largest first; empty while there is room
	Gates     []Gate                   `json:"gates"`
	Held      []Held                   `json:"held"`
	Waiting   []Waiting                `json:"waiting"` // at the gate, in addition to held tasks
}

// Gate is a dimension that makes tasks wait; Agent is set if it is an agent's own gate.
type Gate struct {
	Dimension string    `json:"dimension"`
	Agent     string    `json:"agent,omitempty"`
	Project   string    `json:"project,omitempty"` // for a disk: its project
	Since     time.Time `json:"since"`
	Waiting   int       `json:"waiting"`
}

// Held is a task that is kept from its agent.
type Held struct {
	Subject   string            `json:"subject"`
	Project   string            `json:"project"`
	Protocol  string            `json:"protocol"`
	ID        string            `json:"id"`
	Agent     string            `json:"agent"`
	Priority  protocol.Priority `json:"priority"`
	Reason    string            `json:"reason"` // protocol.Hold*
	Why       string            `json:"why"`
	Since     *time.Time        `json:"since"`
	NotBefore *time.Time        `json:"not_before"`
	ReleaseBy *time.Time        `json:"release_by"` // the end of the lease: after it any process may release the task
	// Dimensions are those that are too full for the task, and Limit the used share that it accepts; for capacity only.
	Dimensions []string `json:"dimensions,omitempty"`
	Limit      float64  `json:"limit,omitempty"`
}

func getCapacity(s *Server, _ *http.Request) (any, error) {
	p, err := s.picture()
	if err != nil {
		return nil, err
	}
	if s.Fresh != nil {
		p = s.Fresh(p)
	}
	c := Capacity{At: instant(p.View.Load.At), Load: p.Report().Load, Threshold: p.Config.Capacity.Threshold,
		Consumers: append([]protocol.Consumer{}, p.View.Load.Largest()...), Gates: []Gate{}, Held: held(p), Waiting: s.waiting(p)}
	load := p.View.Load
	c.Cores, c.MemoryBytes, c.Because, c.Stalled, c.ExhaustedSeconds = load.Cores, load.MemoryTotal, load.Because, load.Stalled, load.Exhausted.Seconds()
	c.Claims, c.Promised = p.Claims()
	for _, v := range p.Plan.Tasks.All() {
		if v.State == protocol.TaskRunning {
			c.Running++
		}
	}
	for _, g := range p.Plan.Memory.Gate.Closed(p.Config.Capacity) {
		c.Gates = append(c.Gates, Gate{Dimension: g.Dimension, Agent: g.Agent.ID, Project: g.Project, Since: g.Since.UTC(), Waiting: g.Waiting})
	}
	return c, nil
}

// held lists all held tasks, the most urgent first.
func held(p *supervisor.State) []Held {
	found := []Held{}
	for i := range p.View.Snapshots {
		snap := &p.View.Snapshots[i]
		for j := range snap.Tasks {
			if snap.Tasks[j].Hold != nil {
				found = append(found, heldTask(p, snap, &snap.Tasks[j]))
			}
		}
	}
	slices.SortStableFunc(found, func(a, b Held) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Subject, b.Subject))
	})
	return found
}

func heldTask(p *supervisor.State, snap *protocol.Snapshot, t *protocol.Task) Held {
	subject := snap.Subject(protocol.KindTask, t.ID)
	v := p.Plan.Tasks.Of(subject)
	h := Held{Subject: subject.String(), Project: subject.Project, Protocol: subject.Protocol, ID: t.ID, Agent: t.Agent, Priority: t.Priority,
		Reason: t.Hold.Reason, Why: words.Sentence(v.Cause, p.View.Now), Since: instant(t.Hold.Since), NotBefore: instant(v.NotBefore), ReleaseBy: instant(t.Hold.ReleaseBy)}
	if waits, ok := p.Plan.Memory.Gate.Held[subject]; ok {
		h.Limit = waits.Limit
		for _, shut := range waits.Shut {
			h.Dimensions = append(h.Dimensions, shut.Dimension)
		}
	}
	return h
}
