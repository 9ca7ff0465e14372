package decide

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
)

// Memory is the state that files cannot tell. It is on disk before a plan is carried out.
type Memory struct {
	// Version is the version of the file; the code that stores the memory sets it.
	Version  int       `json:"version,omitempty"`
	LastLook time.Time `json:"last_look,omitzero"`
	// ResumeUntil ends the grace after the machine slept or its clock was set. Retries that were due before then are
	// released one by one.
	ResumeUntil time.Time `json:"resume_until,omitzero"`
	// LastReissue is when the last of those retries was released.
	LastReissue time.Time                  `json:"last_reissue,omitzero"`
	Agents      Book[heartbeat.Memory]     `json:"agents,omitzero"`
	Tasks       Book[TaskMemory]           `json:"tasks,omitzero"`
	Locks       Book[heartbeat.LockMemory] `json:"locks,omitzero"`
	Reaps       Book[Reap]                 `json:"reaps,omitzero"`
	Gate        capacity.Memory            `json:"gate,omitzero"`
	Projects    map[string]ProjectMemory   `json:"projects,omitempty"`
	Exhaustion
	// Standing are the conditions behind incidents, by the keys of the incidents.
	Standing map[string]Standing `json:"standing,omitempty"`
	// Full is when memory or open files were last over [capacity] threshold.
	Full time.Time `json:"full,omitzero"`
	// Silence is about many agents that fell silent at once.
	Silence Silence `json:"silence,omitzero"`
}

// Encode gives the memory as JSON, like json.Marshal except for the order of the keys. What is remembered of settled tasks is
// not encoded again as long as they are the same.
func (m Memory) Encode() ([]byte, error) {
	tasks := m.Tasks
	m.Tasks = Book[TaskMemory]{}
	out, err := json.Marshal(m)
	if err != nil || tasks.IsZero() {
		return out, err
	}
	text, err := tasks.encode()
	if err != nil {
		return nil, err
	}
	if out = out[:len(out)-1]; len(out) > 1 {
		out = append(out, ',')
	}
	out = append(out, `"tasks":`...)
	return append(append(out, text...), '}'), nil
}

// ProjectMemory is what is remembered of a project.
type ProjectMemory struct {
	// Since is the first scan ever: what ended before it is history.
	Since time.Time `json:"since"`
	// Looked is the last scan.
	Looked time.Time `json:"looked,omitzero"`
	// Retries are the times of the retries of the last hour, for the budget.
	Retries []time.Time `json:"retries,omitempty"`
	Tally   Tally       `json:"tally,omitzero"`
}

// TaskMemory is what is remembered of a task that is open or ended lately, by phase. A new attempt starts with the zero
// value of all phases but the first.
type TaskMemory struct {
	TaskHistory
	// Looked is the last scan that showed it.
	Looked time.Time `json:"looked,omitzero"`
	// Settled is the sum of the result that completed the task, once nothing is left to do about it.
	Settled string `json:"settled,omitempty"`
	// Run numbers the results taken away so far, from 1; the phases below belong to that run.
	Run int `json:"run,omitempty"`
	// Asked is the sum of the request, for work that may be asked for again under the same name.
	Asked string `json:"asked,omitempty"`
	TaskGate
	TaskFlight
	TaskEnd
}

// TaskHistory is about all attempts at a task.
type TaskHistory struct {
	FirstSeen time.Time `json:"first_seen"`
	// State is the last verdict, so that a change of it is noted once.
	State protocol.TaskState `json:"state,omitempty"`
	// Withheld is for how long it was held for want of room or by a block.
	Withheld time.Duration `json:"withheld,omitempty"`
	// Counted is the result that stands in the tally, with its Latency.
	Counted string        `json:"counted,omitempty"`
	Latency time.Duration `json:"latency,omitempty"`
}

// TaskGate is about an attempt's admission.
type TaskGate struct {
	// Judgeable is the first decision that could hold it: from then on its age counts against [tasks] judge.
	Judgeable time.Time `json:"judgeable,omitzero"`
	// Judged: it was admitted, or steward saw it too late to hold it, so it is not held for capacity any more.
	Judged bool `json:"judged,omitempty"`
	// Admitted is when steward admitted it; zero while it is held, and for work that started by itself.
	Admitted time.Time `json:"admitted,omitzero"`
	// ByHand: someone else released it; no gate asks again. It is what steward saw, and no order.
	ByHand bool `json:"by_hand,omitempty"`
	// Held: it was held at the last scan. Whatever released it, it was admitted.
	Held bool `json:"held,omitempty"`
	// Lease is until when that hold was to last unless renewed.
	Lease time.Time `json:"lease,omitzero"`
}

// TaskFlight is about an attempt in its agent's hands.
type TaskFlight struct {
	// Open is since when its request lies where agents see it; zero while it does not.
	Open time.Time `json:"open,omitzero"`
	// Visible is the time it lay open in sight of its living agent, as far as scans covered it.
	Visible time.Duration `json:"visible,omitempty"`
	// Running is when this run was first seen in flight. Presumed: no file shows it yet, its agent being one that names no
	// tasks; a file that shows it sets Running again.
	Running  time.Time `json:"running,omitzero"`
	Presumed bool      `json:"presumed,omitempty"`
	// Named: its agent named it in this run. Unnamed: since when it does not any more.
	Named   bool      `json:"named,omitempty"`
	Unnamed time.Time `json:"unnamed,omitzero"`
	// Claimed: a claim named the processes that work on it.
	Claimed bool `json:"claimed,omitempty"`
	// Alone: since when no agent works on it although it is in flight.
	Alone time.Time `json:"alone,omitzero"`
	// Said is the progress that was spoken last, in percent.
	Said float64 `json:"said,omitempty"`
	// Stopped is when the processes of its agent were ended because they hung with it.
	Stopped time.Time `json:"stopped,omitzero"`
}

// TaskEnd is about an attempt's result.
type TaskEnd struct {
	// Paid: this run's retry is entered in the project's budget. Lost: its loss in the tally.
	Paid bool `json:"paid,omitempty"`
	Lost bool `json:"lost,omitempty"`
	// LostAt is when the attempt was judged lost.
	LostAt time.Time `json:"lost_at,omitzero"`
	// News: it was open when steward last saw it, so that its end is news however old its files call it.
	News bool `json:"news,omitempty"`
	// Wanted: the operator has asked for another run of a task whose agent is gone. It lasts until the result of the lost
	// attempt is read, some milliseconds later; without it the rules decide on that result.
	Wanted bool `json:"wanted,omitempty"`
	// Waits is when the result appeared that is still to be followed by something: until then it may not fall off the list.
	Waits time.Time `json:"waits,omitzero"`
	// Called: a human was called for it.
	Called bool `json:"called,omitempty"`
}

// follow moves times that lie in the future to now: after the clock was set back, such a time would delay whatever depends
// on it for hours. It reports whether there was one. See docs/decisions.md, "A clock that was set back is followed".
func (m *TaskMemory) follow(now time.Time) (moved bool) {
	for _, t := range [...]*time.Time{&m.FirstSeen, &m.Judgeable, &m.Open, &m.Admitted, &m.Running, &m.Unnamed, &m.Alone, &m.Waits, &m.LostAt} {
		if t.After(now) {
			*t, moved = now, true
		}
	}
	return moved
}

// ahead reports whether a retry lies in the future. The newest comes last.
func (p ProjectMemory) ahead(now time.Time) bool {
	n := len(p.Retries)
	return n > 0 && p.Retries[n-1].After(now)
}

// follow does the same for the times of the retries.
func (p ProjectMemory) follow(now time.Time) ProjectMemory {
	p.Retries = slices.Clone(p.Retries)
	for i, t := range p.Retries {
		if t.After(now) {
			p.Retries[i] = now
		}
	}
	return p
}

// LookedAt is when a project was last scanned, by this run of steward or an earlier one; zero if never.
func (m Memory) LookedAt(project string) time.Time {
	return m.Projects[project].Looked
}

// lookedLongAgo is how long ago the last scan of a project is assumed to be when that is unknown, because the clock was set
// back since.
const lookedLongAgo = 24 * time.Hour

// History is when the listed history of a project begins: length before its last scan, because what ended while nothing
// scanned the project is news.
func (m Memory) History(project string, now, looked time.Time, length time.Duration) time.Time {
	since := now.Add(-length)
	switch {
	case looked.IsZero():
	case looked.After(now):
		since = now.Add(-length - lookedLongAgo)
	default:
		since = looked.Add(-length)
	}
	for subject, t := range m.Tasks.values { // settled ones wait for nothing
		if at := t.news(); subject.Project == project && !at.IsZero() && at.Before(since) && now.Sub(at) < forgetAfter {
			since = at
		}
	}
	return since
}

// news is since when the end of a task must be listed: since its result came, for a task that waits for something; since the
// last scan, for a task that was open then (its folder may have been away since). Zero: no requirement.
func (m TaskMemory) news() time.Time {
	if wasOpen(m.State) && m.Waits.IsZero() {
		return m.Looked
	}
	return m.Waits
}

// forgetAfter is how long the tasks and agents of a project that is not scanned are remembered.
const forgetAfter = 7 * 24 * time.Hour

// carryOver starts the next Memory from the last one. What belongs to a source that was not scanned stays for a while; the
// rest is judged again, so that a task that left the files leaves the memory. The locks and the open tasks of a folder that is
// gone stay: they are judged when it is back, and what lies in it then did not come while steward watched. Work that may be
// asked for again under the same name is forgotten: it may be other work by then.
func carryOver(e *env) Memory {
	recent := func(t time.Time) bool { return e.now.Sub(t) < forgetAfter }
	next := Memory{LastLook: e.now, Gate: e.last.Gate, ResumeUntil: e.resumeUntil, LastReissue: e.lastReissue, Full: e.full, Silence: e.silence,
		Projects: carryProjects(e), Standing: map[string]Standing{},
		Agents: carry(e, e.last.Agents, func(a heartbeat.Memory, gone bool) bool { return !gone && recent(a.Looked) }),
		Tasks: carry(e, e.last.Tasks, func(t TaskMemory, gone bool) bool {
			return recent(t.Looked) && (!gone || wasOpen(t.State) && t.Asked == "")
		}),
		Locks: carry(e, e.last.Locks, func(l heartbeat.LockMemory, _ bool) bool { return recent(l.Looked) }),
		Reaps: carry(e, e.last.Reaps, func(r Reap, gone bool) bool { return !gone && recent(r.Seen) })}
	for at, list := range e.last.Tasks.settled {
		if e.snapshots[at] == nil && recent(list.at) {
			next.Tasks.settled[at] = list
		}
	}
	for key, s := range e.last.Standing {
		seen := e.snapshotOf(s.Subject) != nil
		if s.Subject.Kind == protocol.KindProject {
			seen = e.scanned(s.Subject.Project)
		}
		if !seen && recent(s.Looked) {
			next.Standing[key] = s
		}
	}
	return next
}

// carry starts a Book with the values of sources that were not scanned, or whose folder is gone, as far as keep holds them.
func carry[V any](e *env, old Book[V], keep func(v V, gone bool) bool) Book[V] {
	next := Book[V]{values: make(map[protocol.Subject]V, len(old.values)), settled: map[snapshotSource]*settled{}, of: old.of}
	for subject, v := range old.values {
		if s := e.snapshotOf(subject); (s == nil || s.Gone) && keep(v, s != nil) {
			next.values[subject] = v
		}
	}
	return next
}

// carryProjects is what is remembered of the projects, with this scan.
func carryProjects(e *env) map[string]ProjectMemory {
	next := make(map[string]ProjectMemory, len(e.last.Projects))
	for name, p := range e.last.Projects {
		if p.ahead(e.now) {
			p = p.follow(e.now)
		}
		next[name] = p
	}
	for i := range e.view.Snapshots {
		s := &e.view.Snapshots[i]
		p := next[s.Project]
		if at := plain(s.At); p.Since.IsZero() || p.Since.After(at) { // the clock was set back since then
			p.Since = at
		}
		if !s.Gone { // a folder that is gone shows nothing
			p.Looked = earliest(plain(s.At), e.now)
		}
		next[s.Project] = p
	}
	return next
}
