package supervisor

import (
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status/words"
	"github.com/livhana/steward/supervisor/decide"
)

// Admission is the question of a program that is about to start work by itself: a worker before it claims a task, or a
// command that is started through steward.
type Admission struct {
	Project  string         // its folder; "" when it belongs to none
	Task     string         // "" when it is no task
	Throttle protocol.Share // the highest used share that it allows; unknown: the configured threshold
	Person   bool           // a person at a terminal starts it
	Look     bool           // only a question about the present state; nothing will be started
	// Who and PID show people what waits: the agent to be started, and the process that asks.
	Who string
	PID int
}

// Admitted is the answer to an Admission.
type Admitted struct {
	Admit      bool
	Known      bool // false for a task that the loop has not judged yet: ask again
	Supervised bool // the project is supervised
	Why        string
	RetryAfter time.Duration
	Gate       protocol.Gate // the dimension that is too full; zero if none is
}

// Admissions admits work that starts by itself, and remembers it until the readings show it. Its methods may be called from
// several goroutines. See docs/decisions.md, "What starts by itself is counted for ten seconds".
type Admissions struct {
	Picture func() *State

	mu     sync.Mutex
	let    []decide.Promise
	asking []Asker
}

// settled is how long an admission counts beside the readings: until then they may not show it in full.
const settled = 10 * time.Second

// Ask says whether there is room now, by the load of the last sample and what was admitted since. It answers nil before the
// first state.
func (a *Admissions) Ask(q Admission, now time.Time) *Admitted {
	p := a.Picture()
	if p == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	answer, subject := p.admit(q, a.lately(now), now)
	if answer.Admit && !q.Look {
		a.let = slices.DeleteFunc(a.let, func(l decide.Promise) bool { return l.Subject == subject && subject.Kind == protocol.KindTask })
		a.let = append(a.let, decide.Promise{Subject: subject, At: now})
	}
	a.note(q, answer, now)
	return &answer
}

// Promised lists recent admissions for the loop.
func (a *Admissions) Promised(now time.Time) []decide.Promise {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lately(now)
}

// lately lists recent admissions.
func (a *Admissions) lately(now time.Time) []decide.Promise {
	a.let = slices.DeleteFunc(a.let, func(l decide.Promise) bool {
		age := now.Sub(l.At)
		return age < 0 || age >= settled
	})
	return slices.Clone(a.let)
}

// admit judges by this state and by what was admitted since; it also gives what was asked for.
func (p *State) admit(q Admission, lately []decide.Promise, now time.Time) (Admitted, protocol.Subject) {
	answer := Admitted{Known: true, Supervised: p.Supervises(q.Project)}
	subject := protocol.Subject{Kind: protocol.KindMachine, ID: decide.AdmissionID}
	if q.Task != "" && answer.Supervised {
		t, at := p.find(q.Project, q.Task)
		subject = at
		switch {
		case t == nil:
			answer.Known, answer.RetryAfter, answer.Why = false, judgeSoon, "steward has not scanned the task yet"
			return answer, subject
		case t.Hold != nil:
			answer.RetryAfter, answer.Why = p.Plan.Tasks.Of(at).NotBefore.Sub(now), p.Plan.Tasks.Of(at).Why
			if p.Plan.Tasks.Of(at).State == protocol.TaskPending { // its release is under way
				answer.RetryAfter, answer.Why = judgeSoon, "it is being admitted"
			}
			return answer, subject
		case p.promised(at, now):
			answer.Admit, answer.Why = true, "it was admitted a moment ago"
			return answer, subject
		case p.Plan.Memory.Tasks.Of(at).ByHand:
			answer.Admit, answer.Why = true, "it was released by hand"
			return answer, subject
		}
	}
	waits := subject
	waits.Project = p.named(q.Project) // the disk of this project counts
	work := capacity.Work{Waiters: []capacity.Waiter{{Subject: waits, Since: now, Throttle: q.Throttle, Person: q.Person}}, Claims: p.claimsBut(subject, lately)}
	memory := p.Plan.Memory.Gate
	memory.At, memory.Held, memory.Turns, memory.Claims = now, nil, nil, nil
	verdicts, _, _ := capacity.Admit(work, p.View.Load, memory, now, p.Config.Capacity)
	v := verdicts[0]
	answer.Admit, answer.Why, answer.RetryAfter, answer.Gate = v.Admit, words.Sentence(v.Cause, now), v.RetryAfter, v.Gate
	if !v.Admit && len(lately) > 0 {
		answer.RetryAfter = min(answer.RetryAfter, settled/4)
	}
	return answer, subject
}

// promised reports whether a task holds a reservation from steward that has not lapsed.
func (p *State) promised(task protocol.Subject, now time.Time) bool {
	given := p.Plan.Memory.Tasks.Of(task).Admitted
	return !given.IsZero() && now.Sub(given) < p.Config.Capacity.ClaimLapses
}

// claimsBut lists the reservations except the one that asks, including admissions up to this moment.
func (p *State) claimsBut(asks protocol.Subject, lately []decide.Promise) []capacity.Claim {
	var list []capacity.Claim
	for _, c := range p.Plan.Claims {
		if c.Subject != asks && c.Subject.Kind != protocol.KindMachine {
			list = append(list, c)
		}
	}
	for i, l := range lately {
		at := slices.IndexFunc(list, func(c capacity.Claim) bool { return c.Subject == l.Subject })
		switch {
		case l.Subject.Kind != protocol.KindTask:
			list = append(list, decide.AdmissionClaim(i, l.At))
		case l.Subject == asks:
		case at < 0:
			list = append(list, capacity.Claim{Subject: l.Subject, Since: l.At})
		case l.At.After(list[at].Since):
			list[at].Since = l.At // it had lapsed, and is reserved again
		}
	}
	return list
}

// judgeSoon is how soon a new task will have been judged.
const judgeSoon = 50 * time.Millisecond

// Supervises reports whether the folder is one of the projects.
func (p *State) Supervises(folder string) bool {
	return slices.ContainsFunc(p.Projects, func(d ProjectStatus) bool { return sameFolder(d.Path, folder) })
}

// named is the name of the project in a folder; "" when the folder is no project.
func (p *State) named(folder string) string {
	for _, d := range p.Projects {
		if sameFolder(d.Path, folder) {
			return d.Name
		}
	}
	return ""
}

// find finds a task of the protocol whose work steward admits.
func (p *State) find(folder, id string) (*protocol.Task, protocol.Subject) {
	names := map[string]bool{}
	for _, d := range p.Projects {
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

// sameFolder reports whether two paths lead to the same folder, links included.
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
