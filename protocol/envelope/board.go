package envelope

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// board holds all tasks, and indexes of them. Only tasks with changed messages are rebuilt.
type board struct {
	tasks   map[string]*task // "" holds the blockers that name no task
	changed map[string]bool  // tasks with added or removed messages
	live    map[string]*task // tasks that have not ended, or that have an open blocker
	ended   []*task          // sorted by end, then id
	// projects groups the tasks with deliveries or reviews by context.project.
	projects map[string]*projectReviews
	cycles   map[string]string // tasks that wait for themselves, with the members of the cycle
	unusable map[*message]bool // messages that cannot be tracked
	calls    map[*message]bool // escalations to a human in the last day
	totals   totals
}

// totals are counts over all tasks (protocol 004, Suggested Implementation: Monitoring).
type totals struct {
	messages, approved, submitted, rejected int
	spent                                   time.Duration // from assignment to approval
}

func newBoard() *board {
	return &board{tasks: map[string]*task{}, changed: map[string]bool{}, live: map[string]*task{}, projects: map[string]*projectReviews{},
		unusable: map[*message]bool{}, calls: map[*message]bool{}}
}

// add enters a message. The next settle rebuilds its task.
func (b *board) add(m *message, now time.Time) {
	b.totals.messages++
	if m.unusable != "" {
		b.unusable[m] = true
		return
	}
	t := b.tasks[m.task]
	if t == nil {
		t = &task{id: m.task}
		b.tasks[m.task] = t
	}
	t.messages = append(t.messages, m)
	b.changed[m.task] = true
	if m.kind == escalates && m.blocker.human && now.Sub(m.at) < day {
		b.calls[m] = true
	}
}

// remove drops a message that no longer exists.
func (b *board) remove(m *message) {
	b.totals.messages--
	delete(b.calls, m)
	delete(b.unusable, m)
	if t := b.tasks[m.task]; t != nil && m.unusable == "" {
		t.messages = slices.DeleteFunc(t.messages, func(other *message) bool { return other == m })
		b.changed[m.task] = true
	}
}

// settle rebuilds the tasks whose messages have changed.
func (b *board) settle(now time.Time) {
	if len(b.changed) == 0 {
		return
	}
	for id := range b.changed {
		t := b.tasks[id]
		b.unindex(t)
		if len(t.messages) == 0 {
			delete(b.tasks, id)
			continue
		}
		held := t.held()
		t.replay()
		if held && !t.held() {
			t.released = now
		}
		b.index(t)
	}
	clear(b.changed)
	b.cycles = findCycles(b)
}

// index enters a task into the indexes.
func (b *board) index(t *task) {
	if t.over() {
		at, _ := slices.BinarySearchFunc(b.ended, t, compareEnds)
		b.ended = slices.Insert(b.ended, at, t)
	}
	if !t.over() || len(t.blockers) > 0 {
		b.live[t.id] = t
	}
	if len(t.reviews)+len(t.deliveries) > 0 {
		r := b.projects[t.project()]
		if r == nil {
			r = &projectReviews{tasks: map[string]*task{}}
			b.projects[t.project()] = r
		}
		r.tasks[t.id], r.sorted = t, false
	}
	b.totals.count(t, 1)
}

// unindex removes a task from the indexes.
func (b *board) unindex(t *task) {
	if at, ok := slices.BinarySearchFunc(b.ended, t, compareEnds); ok && b.ended[at] == t {
		b.ended = slices.Delete(b.ended, at, at+1)
	}
	delete(b.live, t.id)
	if r := b.projects[t.project()]; r != nil && r.tasks[t.id] != nil {
		r.sorted = false
		if delete(r.tasks, t.id); len(r.tasks) == 0 {
			delete(b.projects, t.project())
		}
	}
	b.totals.count(t, -1)
}

func compareEnds(a, b *task) int { return cmp.Or(a.end.Compare(b.end), cmp.Compare(a.id, b.id)) }

func (f *totals) count(t *task, sign int) {
	f.submitted += sign * t.submitted
	f.rejected += sign * t.rejected
	if t.stage == stageApproved && t.assigned != nil {
		f.approved += sign
		f.spent += time.Duration(sign) * max(t.end.Sub(t.begun), 0)
	}
}

// reviewsOf returns the reviews of a project, or nil.
func (b *board) reviewsOf(project string) *projectReviews {
	r := b.projects[project]
	if r != nil {
		r.sort()
	}
	return r
}

// projectReviews is what the security gate needs to know about one project.
type projectReviews struct {
	tasks      map[string]*task
	sorted     bool // the lists are up to date
	reviews    []*review
	deliveries []time.Time
	// unreviewed lists the files delivered since the previous approval that the last review was not asked to read.
	unreviewed []string
}

// sort sorts reviews and deliveries by time. Of two reviews at the same time, the less permissive is last.
func (p *projectReviews) sort() {
	if p.sorted {
		return
	}
	p.reviews, p.deliveries, p.sorted = nil, nil, true
	for _, t := range p.tasks {
		p.deliveries = append(p.deliveries, t.deliveries...)
		for i := range t.reviews {
			p.reviews = append(p.reviews, &t.reviews[i])
		}
	}
	slices.SortFunc(p.reviews, (*review).compare)
	slices.SortFunc(p.deliveries, time.Time.Compare)
	p.unreviewed = unreviewedFiles(p)
}

// last returns the newest review, or nil.
func (p *projectReviews) last() *review {
	if len(p.reviews) == 0 {
		return nil
	}
	return p.reviews[len(p.reviews)-1]
}

// maxEnded bounds the ended tasks of a snapshot; the newest are kept.
const maxEnded = 200

// listed returns the tasks of a snapshot, sorted by id: the live tasks and those that ended after since.
func (b *board) listed(since time.Time) []*task {
	list := slices.AppendSeq(make([]*task, 0, len(b.live)+16), maps.Values(b.live))
	for i := len(b.ended) - 1; i >= 0 && len(b.ended)-i <= maxEnded; i-- {
		t := b.ended[i]
		if !since.IsZero() && !t.end.After(since) {
			break
		}
		if b.live[t.id] == nil {
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b *task) int { return cmp.Compare(a.id, b.id) })
	return list
}
