package supervisor

import (
	"cmp"
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
)

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
	if i := slices.IndexFunc(a.asking, is); i >= 0 {
		since = a.asking[i].Since
	}
	a.asking = slices.DeleteFunc(a.asking, func(w Asker) bool { return is(w) || w.lost(now) })
	if !v.Admit && v.Gate.Dimension != "" && len(a.asking) < mostAskers {
		a.asking = append(a.asking, Asker{Project: q.Project, Task: q.Task, Who: q.Who, PID: q.PID, Why: v.Why, Since: since, Again: now.Add(min(v.RetryAfter, AskAgain))})
	}
}

// Asking lists the askers beside the held tasks, the longest wait first. The caller checks whether their processes still
// live.
func (a *Admissions) Asking(now time.Time) []Asker {
	p := a.Picture()
	a.mu.Lock()
	defer a.mu.Unlock()
	var list []Asker
	for _, w := range a.asking {
		if p != nil && !w.lost(now) && (w.Task == "" || p.waits(w.Project, w.Task)) {
			list = append(list, w)
		}
	}
	slices.SortStableFunc(list, func(a, b Asker) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Task, b.Task)) })
	return list
}

// waits reports whether a task is open and no agent has it.
func (p *State) waits(folder, id string) bool {
	t, at := p.find(folder, id)
	return t != nil && t.Hold == nil && p.Plan.Tasks.Of(at).State == protocol.TaskPending
}

// Named is the name of the project in that folder, or the folder itself if it is no project.
func (p *State) Named(folder string) string {
	for _, d := range p.Projects {
		if sameFolder(d.Path, folder) {
			return d.Name
		}
	}
	return folder
}
