package supervisor

import (
	"cmp"
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
	// Role is the agent that would be started for the task; "" if it runs already. A pause of the project and a hold on
	// the agent are reasons to wait.
	Role string
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
	State func() *State
	// Stops says why no agent may be started for a role of the project with this name; "" if it may. nil: it always may.
	Stops func(project, role string) (why string)

	mu       sync.Mutex
	admitted []decide.Promise
	waiting  []Asker
}

// countedFor is how long an admission counts beside the readings: until then they may not show it in full.
const countedFor = 10 * time.Second

// Ask says whether there is room now, by the load of the last sample and what was admitted since. It answers nil before the
// first state.
func (a *Admissions) Ask(q Admission, now time.Time) *Admitted {
	p := a.State()
	if p == nil {
		return nil
	}
	if q.Role != "" && a.Stops != nil {
		if why := a.Stops(p.projectIn(q.Project), q.Role); why != "" {
			return &Admitted{Known: true, Supervised: true, Why: why, RetryAfter: AskAgain}
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	answer, subject := p.admit(q, a.recent(now), now)
	if answer.Admit && !q.Look {
		a.admitted = slices.DeleteFunc(a.admitted, func(l decide.Promise) bool { return l.Subject == subject && subject.Kind == protocol.KindTask })
		a.admitted = append(a.admitted, decide.Promise{Subject: subject, At: now})
	}
	a.note(q, answer, now)
	return &answer
}

// Promised lists what was admitted recently.
func (a *Admissions) Promised(now time.Time) []decide.Promise {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.recent(now)
}

func (a *Admissions) recent(now time.Time) []decide.Promise {
	a.admitted = slices.DeleteFunc(a.admitted, func(l decide.Promise) bool {
		age := now.Sub(l.At)
		return age < 0 || age >= countedFor
	})
	return slices.Clone(a.admitted)
}

// admit judges by this state and by what was admitted recently; it also gives the subject that was asked for.
func (p *State) admit(q Admission, recent []decide.Promise, now time.Time) (Admitted, protocol.Subject) {
	project := p.projectIn(q.Project)
	answer := Admitted{Known: true, Supervised: project != ""}
	subject := protocol.Subject{Kind: protocol.KindMachine, ID: decide.AdmissionID}
	if q.Task != "" && answer.Supervised {
		var t *protocol.Task
		t, subject = p.find(project, q.Task)
		verdict, memory := p.Plan.Tasks.Of(subject), p.Plan.Memory.Tasks.Of(subject)
		switch {
		case t != nil && t.Foreign: // steward does not hold it for lack of room, so it asks like any program
			subject = protocol.Subject{Kind: protocol.KindMachine, ID: decide.AdmissionID}
		case t == nil:
			answer.Known, answer.RetryAfter, answer.Why = false, judgeSoon, "steward has not scanned the task yet"
			return answer, subject
		case t.Hold != nil && verdict.State == protocol.TaskPending: // its release is under way
			answer.RetryAfter, answer.Why = judgeSoon, "it is being admitted"
			return answer, subject
		case t.Hold != nil:
			answer.RetryAfter, answer.Why = verdict.NotBefore.Sub(now), words.Sentence(verdict.Cause, now)
			return answer, subject
		case !memory.Admitted.IsZero() && now.Sub(memory.Admitted) < p.Config.Capacity.ClaimLapses: // it holds a reservation
			answer.Admit, answer.Why = true, "it was admitted a moment ago"
			return answer, subject
		case memory.ByHand:
			answer.Admit, answer.Why = true, "it was released by hand"
			return answer, subject
		}
	}
	waits := subject
	waits.Project = project // the disk of this project counts
	work := capacity.Work{Waiters: []capacity.Waiter{{Subject: waits, Since: now, Throttle: q.Throttle, Person: q.Person}}, Reservations: p.reservations(subject, recent)}
	memory := p.Plan.Memory.Gate
	memory.At, memory.Held, memory.Turns, memory.Reservations = now, nil, nil, nil
	verdicts, _, _ := capacity.Admit(work, p.View.Load, memory, now, p.Config.Capacity)
	v := verdicts[0]
	answer.Admit, answer.Why, answer.RetryAfter, answer.Gate = v.Admit, words.Sentence(v.Cause, now), v.RetryAfter, v.Gate
	if !v.Admit && len(recent) > 0 {
		answer.RetryAfter = min(answer.RetryAfter, countedFor/4)
	}
	return answer, subject
}

// reservations lists all reservations but those of the subject that asks, with those of recent admissions.
func (p *State) reservations(asks protocol.Subject, recent []decide.Promise) []capacity.Reservation {
	var list []capacity.Reservation
	for _, c := range p.Plan.Claims {
		if c.Subject != asks && c.Subject.Kind != protocol.KindMachine {
			list = append(list, c)
		}
	}
	for i, l := range recent {
		at := slices.IndexFunc(list, func(c capacity.Reservation) bool { return c.Subject == l.Subject })
		switch {
		case l.Subject.Kind != protocol.KindTask:
			list = append(list, decide.AdmissionClaim(i, l.At))
		case l.Subject == asks:
		case at < 0:
			list = append(list, capacity.Reservation{Subject: l.Subject, Since: l.At})
		case l.At.After(list[at].Since):
			list[at].Since = l.At // it had lapsed, and is reserved again
		}
	}
	return list
}

// judgeSoon is how soon a new task will have been judged.
const judgeSoon = 50 * time.Millisecond

// Named is the name of the project in a folder, or the folder itself if it is no project.
func (p *State) Named(folder string) string { return cmp.Or(p.projectIn(folder), folder) }

// projectIn is the name of the project in a folder; "" when the folder is no project.
func (p *State) projectIn(folder string) string {
	for _, d := range p.Projects {
		if sameFolder(d.Path, folder) {
			return d.Name
		}
	}
	return ""
}

// find finds a task: first of the protocol whose work steward admits, then of the others.
func (p *State) find(project, id string) (found *protocol.Task, subject protocol.Subject) {
	for i := range p.View.Snapshots {
		s := &p.View.Snapshots[i]
		if s.Project != project {
			continue
		}
		for j := range s.Tasks {
			if t := &s.Tasks[j]; t.ID == id && (!t.Foreign || found == nil) {
				found, subject = t, s.Subject(protocol.KindTask, id)
			}
		}
	}
	return found, subject
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

// Asker is a process that asked for room, was told to wait, and has not been admitted since.
type Asker struct {
	Project string // the folder that it named
	Task    string // "" when it is no task
	Who     string // the agent to be started; "" for a task
	PID     int    // the process that waits; 0 if it did not say
	Why     string
	Since   time.Time
	Again   time.Time // when it was told to ask again
}

// AskAgain is the longest time until a waiting process should ask again: the gate may open at any time.
const AskAgain = 5 * time.Second

// askerLost is how long after its time an asker that does not ask again counts as gone.
const askerLost = 10 * time.Second

// lost reports whether the asker counts as gone. After the clock was set back it is unknown when it was to ask again.
func (w Asker) lost(now time.Time) bool { return now.Sub(w.Again) > askerLost || now.Before(w.Since) }

// mostAskers bounds the list, which is there to be read.
const mostAskers = 1000

// note remembers an asker. A held task waits as such; a task that has not been judged yet will be in a moment.
func (a *Admissions) note(q Admission, v Admitted, now time.Time) {
	if q.Look || q.Who == "" && q.Task == "" {
		return
	}
	is := func(w Asker) bool {
		// Any of several workers may be the one that takes a task.
		return w.Project == q.Project && w.Task == q.Task && (q.Task != "" || w.Who == q.Who && w.PID == q.PID)
	}
	since := now
	if i := slices.IndexFunc(a.waiting, is); i >= 0 {
		since = a.waiting[i].Since
	}
	a.waiting = slices.DeleteFunc(a.waiting, func(w Asker) bool { return is(w) || w.lost(now) })
	if !v.Admit && v.Gate.Dimension != "" && len(a.waiting) < mostAskers {
		a.waiting = append(a.waiting, Asker{Project: q.Project, Task: q.Task, Who: q.Who, PID: q.PID, Why: v.Why, Since: since, Again: now.Add(min(v.RetryAfter, AskAgain))})
	}
}

// Asking lists the askers beside the held tasks, the longest wait first. The caller checks whether their processes still
// live.
func (a *Admissions) Asking(now time.Time) []Asker {
	p := a.State()
	a.mu.Lock()
	defer a.mu.Unlock()
	var list []Asker
	for _, w := range a.waiting {
		if p != nil && !w.lost(now) && (w.Task == "" || p.waits(w.Project, w.Task)) {
			list = append(list, w)
		}
	}
	slices.SortStableFunc(list, func(a, b Asker) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Task, b.Task)) })
	return list
}

// waits reports whether a task is open and no agent has it.
func (p *State) waits(folder, id string) bool {
	t, at := p.find(p.projectIn(folder), id)
	return t != nil && t.Hold == nil && p.Plan.Tasks.Of(at).State == protocol.TaskPending
}
