package status

import (
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
)

// TaskEvidence is the basis of the verdict on a task. Durations are in seconds.
type TaskEvidence struct {
	FirstSeen *time.Time `json:"first_seen"`
	Created   *time.Time `json:"created"`
	Running   *time.Time `json:"running_since"`
	Named     string     `json:"named,omitempty"` // the evidence that its agent works on it
	Visible   float64    `json:"visible"`         // how long its live agent could see it
	Timeout   float64    `json:"timeout"`         // its own timeout; 0: the configured one
	Block     string     `json:"block,omitempty"`
	Related   []string   `json:"related,omitempty"`
	Directive string     `json:"directive,omitempty"`
	Cancelled bool       `json:"cancelled,omitempty"`
	CancelWhy string     `json:"cancel_why,omitempty"` // if steward cancelled the retry
	Buried    bool       `json:"buried,omitempty"`
	Hold      *HoldFact  `json:"hold"`
	Outcome   *Outcome   `json:"outcome"`
	// Takings are the recorded attempts, oldest first.
	Takings []protocol.Attempt `json:"takings"`
}

// HoldFact describes the hold of a task.
type HoldFact struct {
	Reason     string     `json:"reason"`
	Since      *time.Time `json:"since"`
	NotBefore  *time.Time `json:"not_before"`
	ReleaseBy  *time.Time `json:"release_by"`
	Dimensions []string   `json:"dimensions,omitempty"`
	// RetryAfter is the time until NotBefore in seconds; 0 if that has passed.
	RetryAfter float64 `json:"retry_after_seconds"`
	// Gate is what was too full at the last decision, with its largest consumers; nil if the hold has another reason.
	Gate *protocol.Gate `json:"gate,omitempty"`
}

// nameGate adds the journal's record of the last decision to a hold.
func (e *Explanation) nameGate() {
	if e.TaskEvidence == nil || e.TaskEvidence.Hold == nil {
		return
	}
	for _, entry := range slices.Backward(e.Journal) {
		if since := e.TaskEvidence.Hold.Since; since != nil && entry.At.Before(since.Truncate(time.Second)) {
			return // that was an earlier hold
		}
		if entry.Change != nil && entry.Change.Gate != nil {
			e.TaskEvidence.Hold.Gate = entry.Change.Gate
			return
		}
	}
}

// Outcome is how the task's last attempt ended.
type Outcome struct {
	Status     string             `json:"status"`
	At         *time.Time         `json:"at"`
	Agent      string             `json:"agent,omitempty"`
	Summary    string             `json:"summary,omitempty"`
	Failures   []protocol.Failure `json:"failures"`
	RetryAfter float64            `json:"retry_after,omitempty"`
	Ours       bool               `json:"ours,omitempty"`  // steward wrote it for an agent that could not
	Twice      bool               `json:"twice,omitempty"` // the attempt may still be running
}

func taskEvidence(p *supervisor.State, subject protocol.Subject, now time.Time) *TaskEvidence {
	snap := snapshotOf(p, subject)
	t := pick(snap.Tasks, func(t *protocol.Task) bool { return t.ID == subject.ID })
	if t == nil {
		return nil
	}
	m := p.Plan.Memory.Tasks.Of(subject)
	e := &TaskEvidence{FirstSeen: instant(m.FirstSeen), Created: instant(t.Created), Running: instant(m.Running), Named: t.Named,
		Visible: m.Visible.Seconds(), Timeout: t.Timeout.Seconds(), Block: t.Block, Related: t.Related, Directive: t.Directive,
		Cancelled: t.Cancelled, Buried: t.Buried, Takings: []protocol.Attempt{}}
	if t.CancelReason == protocol.ReasonSuperseded {
		e.CancelWhy = "steward cancelled its retry: " + t.CancelWhy
	}
	for _, k := range t.Attempts {
		k.Due = k.Due.UTC()
		e.Takings = append(e.Takings, k)
	}
	if t.Hold != nil {
		h := heldTask(p, snap, t)
		e.Hold = &HoldFact{Reason: h.Reason, Since: h.Since, NotBefore: instant(t.Hold.NotBefore), ReleaseBy: h.ReleaseBy, Dimensions: h.Dimensions}
		if due := t.Hold.NotBefore; !due.IsZero() {
			e.Hold.RetryAfter = max(due.Sub(now), 0).Seconds()
		}
	}
	if o := t.Outcome; o != nil {
		e.Outcome = &Outcome{Status: o.Status, At: instant(o.At), Agent: o.Agent, Summary: o.Summary,
			Failures: append([]protocol.Failure{}, o.Failures...), RetryAfter: o.RetryAfter.Seconds(), Ours: o.Ours, Twice: o.Twice}
	}
	return e
}

// snapshotOf is the snapshot that a subject is in, or an empty one.
func snapshotOf(p *supervisor.State, subject protocol.Subject) *protocol.Snapshot {
	for i := range p.View.Snapshots {
		if s := &p.View.Snapshots[i]; s.Project == subject.Project && s.Protocol == subject.Protocol {
			return s
		}
	}
	return &protocol.Snapshot{}
}

func findingsOf(p *supervisor.State, subject protocol.Subject) []protocol.Finding {
	var list []protocol.Finding
	for i := range p.View.Snapshots {
		for _, f := range p.View.Snapshots[i].Findings {
			if f.Subject == subject {
				list = append(list, f)
			}
		}
	}
	return list
}

func pleaIn(p *supervisor.State, subject protocol.Subject) *protocol.Question {
	return pick(snapshotOf(p, subject).Questions, func(q *protocol.Question) bool { return q.ID == subject.ID })
}

// LockEvidence is what a lock's file says, or for a kernel lock its record and the kernel.
type LockEvidence struct {
	Holder   string     `json:"holder"`
	Process  *int       `json:"process"`
	Acquired *time.Time `json:"acquired"`
	Expires  *time.Time `json:"expires"`
	// Waiting are the processes that wait for a lock of steward lock run; nil if unknown.
	Waiting []LockWaiter `json:"waiting,omitzero"`
}

func lockEvidence(p *supervisor.State, subject protocol.Subject) *LockEvidence {
	l := pick(snapshotOf(p, subject).Locks, func(l *protocol.Lock) bool { return l.Resource == subject.ID })
	if l == nil {
		return nil
	}
	e := &LockEvidence{Holder: l.Holder, Acquired: instant(l.Acquired), Expires: instant(l.Expires)}
	if l.Process.PID > 0 {
		e.Process = &l.Process.PID
	}
	return e
}
