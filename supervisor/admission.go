package supervisor

import (
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/protocol"
)

// Admission is what a program asks that is about to start work by itself: a worker before it claims a task, or a
// command that comes in through steward.
type Admission struct {
	Project  string         // its folder; "" when it belongs to none
	Task     string         // "" when it is no task
	Throttle protocol.Share // the highest used share that it allows; unknown: the configured threshold
	Look     bool           // nothing is to be started: the question is only how things stand
}

// Admitted is the answer to an Admission.
type Admitted struct {
	Admit      bool
	Known      bool // false for a task that the loop has not judged yet: ask again
	Supervised bool // the project is one of those that are looked after
	Why        string
	RetryAfter time.Duration
	Gate       protocol.Gate // what is too full; zero when nothing is
}

// Admissions lets in what starts by itself, and remembers it until the readings show it. Its methods may be called from
// several goroutines.
type Admissions struct {
	Picture func() *Picture
	Cores   int

	mu  sync.Mutex
	let []time.Time // when something was let in lately
}

// settled is how long what was let in counts as a core beside the readings: until then these may not show it in full.
const settled = 10 * time.Second

// Ask says whether there is room now, by the load of the last sample and what was let in since. It is nil before the first
// picture.
func (a *Admissions) Ask(q Admission, now time.Time) *Admitted {
	p := a.Picture()
	if p == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	answer := p.admit(q, a.claimed(now), now)
	if answer.Admit && q.Task == "" && !q.Look { // a task shows by its claim
		a.let = append(a.let, now)
	}
	return &answer
}

// claimed is the share of the processor that is promised but perhaps not in use yet: a core each, less and less.
func (a *Admissions) claimed(now time.Time) float64 {
	cores := 0.0
	a.let = slices.DeleteFunc(a.let, func(at time.Time) bool {
		age := now.Sub(at)
		if age < 0 || age >= settled {
			return true
		}
		cores += 1 - float64(age)/float64(settled)
		return false
	})
	return cores / float64(max(a.Cores, 1))
}

// admit judges by this picture. claimed is added to the load of the processor.
func (p *Picture) admit(q Admission, claimed float64, now time.Time) Admitted {
	answer := Admitted{Known: true, Supervised: p.Supervises(q.Project)}
	subject := protocol.Subject{Kind: protocol.KindMachine, ID: "admission"}
	if q.Task != "" && answer.Supervised {
		t, at := p.find(q.Project, q.Task)
		switch {
		case t == nil:
			answer.Known, answer.RetryAfter, answer.Why = false, judgeSoon, "steward has not looked at the task yet"
			return answer
		case t.Hold != nil:
			answer.RetryAfter, answer.Why = p.Plan.Tasks[at].NotBefore.Sub(now), p.Plan.Tasks[at].Why
			return answer
		}
		subject = at
	}
	load := p.View.Load
	if v, known := load.CPU.Value(); known {
		load.CPU = protocol.Used(v + claimed)
	}
	verdicts, _, _ := capacity.Admit([]capacity.Waiter{{Subject: subject, Since: now, Throttle: q.Throttle}}, load, capacity.Memory{At: now},
		now, p.Config.Capacity)
	v := verdicts[0]
	answer.Admit, answer.Why, answer.RetryAfter, answer.Gate = v.Admit, v.Why, v.RetryAfter, v.Gate
	if !v.Admit && claimed > 0 {
		answer.RetryAfter = min(answer.RetryAfter, settled/4)
	}
	return answer
}

// judgeSoon is how soon a new task will have been judged.
const judgeSoon = 50 * time.Millisecond

// Supervises reports whether the folder is one of the projects.
func (p *Picture) Supervises(folder string) bool {
	for _, d := range p.Desks {
		if sameFolder(d.Path, folder) {
			return true
		}
	}
	return false
}

// find finds a task of the protocol whose work steward lets in.
func (p *Picture) find(folder, id string) (*protocol.Task, protocol.Subject) {
	names := map[string]bool{}
	for _, d := range p.Desks {
		names[d.Name] = sameFolder(d.Path, folder)
	}
	for i := range p.View.Snapshots {
		s := &p.View.Snapshots[i]
		if !names[s.Project] {
			continue
		}
		for j := range s.Tasks {
			if t := &s.Tasks[j]; t.ID == id && !t.Foreign {
				return t, s.Subject(protocol.KindTask, id)
			}
		}
	}
	return nil, protocol.Subject{}
}

// sameFolder reports whether two paths lead to the same folder, be it through links.
func sameFolder(a, b string) bool {
	if filepath.Clean(a) == filepath.Clean(b) {
		return true
	}
	if a == "" || b == "" {
		return false
	}
	a, err := filepath.EvalSymlinks(a)
	if err != nil {
		return false
	}
	b, err = filepath.EvalSymlinks(b)
	return err == nil && a == b
}
