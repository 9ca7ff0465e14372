package supervisor

import (
	"cmp"
	"slices"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status/words"
)

// ProjectReport is a project, its protocols and its faults.
type ProjectReport struct {
	Name      string            `json:"name"`
	Path      string            `json:"path"`
	Protocols []string          `json:"protocols"`
	Mode      map[string]string `json:"mode"`
	Notes     []string          `json:"notes,omitempty"`
	Faults    []protocol.Fault  `json:"faults"`
	Findings  []FindingReport   `json:"findings"`
	// Repairs wait for a decision of a person or another program. Measures are the figures that the protocol documents
	// ask for.
	Repairs  []RepairReport  `json:"repairs"`
	Measures []MeasureReport `json:"measures"`
}

// LockReport is a lock, in a file or in the kernel, and the verdict on it.
type LockReport struct {
	Project  string             `json:"project"`
	Protocol string             `json:"protocol"`
	Resource string             `json:"resource"`
	Holder   string             `json:"holder"`
	State    protocol.LockState `json:"state"`
	Acquired *time.Time         `json:"acquired,omitempty"`
	Expires  *time.Time         `json:"expires"`
	PID      *int               `json:"pid,omitempty"`
	Why      string             `json:"why"`
}

// FindingReport is something wrong that needs no repair.
type FindingReport struct {
	Protocol string            `json:"protocol"`
	Subject  string            `json:"subject"`
	Code     string            `json:"code"`
	Field    string            `json:"field,omitempty"`
	Severity protocol.Severity `json:"severity"`
	Text     string            `json:"text"`
	Path     string            `json:"path,omitempty"` // the file that shows it, relative to the project
}

// RepairReport is a change that steward would make if it were allowed to, and what prevents it.
type RepairReport struct {
	Protocol string        `json:"protocol"`
	Verb     protocol.Verb `json:"verb"`
	Subject  string        `json:"subject"`
	Why      string        `json:"why"`
	WaitsFor string        `json:"waits_for"`
}

// MeasureReport is a figure that a protocol's document asks for.
type MeasureReport struct {
	Protocol string  `json:"protocol"`
	Name     string  `json:"name"`
	Agent    string  `json:"agent,omitempty"`
	Value    float64 `json:"value"`
}

func (p *State) lock(s *protocol.Snapshot, l *protocol.Lock) LockReport {
	v := p.Plan.Locks.Of(s.Subject(protocol.KindLock, l.Resource))
	r := LockReport{Project: s.Project, Protocol: s.Protocol, Resource: l.Resource, Holder: l.Holder, Why: words.Sentence(v.Cause, p.View.Now),
		State: cmp.Or(v.State, protocol.LockHeld), Acquired: instant(v.Acquired), Expires: instant(v.Expires)}
	if pid := l.Process.PID; pid > 0 {
		r.PID = &pid
	}
	return r
}

// The codes of findings that follow from verdicts.
const (
	codeClock  = "clock"  // the times that an agent writes are wrong
	codeAbsent = "absent" // an agent was booted, and neither a heartbeat nor a process came
)

// judged lists the findings that follow from the verdicts on agents and locks.
func (p *State) judged(s *protocol.Snapshot) (list []FindingReport) {
	add := func(subject protocol.Subject, code, text string) {
		if text != "" {
			list = append(list, FindingReport{Protocol: s.Protocol, Subject: subject.String(), Code: code, Severity: protocol.Low, Text: text})
		}
	}
	for i := range s.Agents {
		subject := s.Subject(protocol.KindAgent, s.Agents[i].Name)
		v := p.Plan.Agents.Of(subject)
		add(subject, codeClock, words.Sentence(v.Clock, p.View.Now))
		if v.Absence == protocol.AbsenceAbsent {
			add(subject, codeAbsent, words.Sentence(v.Cause, p.View.Now)+"; steward forget "+subject.ID+" takes it off the list")
		}
	}
	for i := range s.Locks {
		subject := s.Subject(protocol.KindLock, s.Locks[i].Resource)
		add(subject, codeClock, words.Sentence(p.Plan.Locks.Of(subject).Clock, p.View.Now))
	}
	return list
}

// found adds the findings of one snapshot and those that follow from its verdicts, the gravest first.
func (r *ProjectReport) found(s *protocol.Snapshot, judged []FindingReport) {
	r.Findings = append(r.Findings, judged...)
	r.Faults = append(r.Faults, s.Faults...)
	for _, f := range s.Findings {
		r.Findings = append(r.Findings, FindingReport{s.Protocol, f.Subject.String(), f.Code, f.Field, f.Severity, f.Text, f.Path})
	}
	slices.SortStableFunc(r.Findings, func(a, b FindingReport) int { return b.Severity.Rank() - a.Severity.Rank() })
	for _, m := range s.Measures {
		r.Measures = append(r.Measures, MeasureReport{s.Protocol, m.Name, m.Agent, m.Value})
	}
}

// repairs lists the changes that wait for the operator, or for another program to finish.
func (p *State) repairs(d ProjectStatus) []RepairReport {
	list := []RepairReport{}
	for _, c := range p.Plan.Waiting {
		if c.Subject.Project == d.Name {
			list = append(list, RepairReport{c.Subject.Protocol, c.Verb, c.Subject.String(), c.Why, p.waitsFor(d, c)})
		}
	}
	return list
}

// waitsFor says what makes the change happen: a command, or the end of another program's work.
func (p *State) waitsFor(d ProjectStatus, c protocol.Change) string {
	protocolName := c.Subject.Protocol
	for _, o := range p.Plan.Offers {
		if slices.ContainsFunc(o.Changes, func(other protocol.Change) bool { return other.Subject == c.Subject && other.Verb == c.Verb }) {
			return "steward answer " + o.Key[:min(8, len(o.Key))] + " " + o.Option
		}
	}
	if d.Paused != "" {
		return "steward resume " + d.Name
	}
	for i := range p.View.Snapshots {
		if s := &p.View.Snapshots[i]; s.Project == d.Name && s.Protocol == protocolName && s.Yield != "" && s.Mode != protocol.ModeObserve {
			return s.Yield
		}
	}
	return "steward mode " + d.Name + " " + protocolName + " act"
}

// Promised are used shares, null if unknown.
type Promised struct {
	CPU    protocol.Share `json:"cpu"`
	Memory protocol.Share `json:"memory"`
}

// ClaimReport is work that was admitted and has not ended, with what it is expected to use.
type ClaimReport struct {
	Subject     string     `json:"subject"`
	Since       time.Time  `json:"since"`
	Taken       *time.Time `json:"taken"` // null until an agent takes it
	Cores       float64    `json:"cores"`
	MemoryBytes uint64     `json:"memory_bytes"`
	Learnt      bool       `json:"learnt"` // from work of its kind; otherwise assumed
	// The measured values are absent where the processes of the work cannot be told from others.
	MeasuredCores  *float64 `json:"measured_cores,omitempty"`
	MeasuredMemory *uint64  `json:"measured_memory_bytes,omitempty"`
}

// Claims lists the reservations, and how full the machine is with them.
func (p *State) Claims() ([]ClaimReport, Promised) {
	list := []ClaimReport{}
	entries, cpu, memory := capacity.Statement(p.Plan.Claims, p.View.Load, p.Plan.Memory.Gate, p.View.Now, p.Config.Capacity)
	for _, e := range entries {
		c := ClaimReport{Subject: e.Subject.String(), Since: e.Since.UTC(), Taken: instant(e.Taken), Cores: e.Cores, MemoryBytes: e.Memory, Learnt: e.Learnt}
		if m := e.Measured; m != nil {
			c.MeasuredMemory = &m.Memory
			if m.Cores >= 0 {
				c.MeasuredCores = &m.Cores
			}
		}
		list = append(list, c)
	}
	return list, Promised{CPU: cpu, Memory: memory}
}
