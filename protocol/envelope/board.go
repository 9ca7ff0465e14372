package envelope

import (
	"cmp"
	"slices"
	"time"

	"github.com/livhana/steward/protocol/jsonfile"
)

// board holds the messages by task. What spans tasks is in its index, which is made again when a task has changed.
type board struct {
	tasks    map[string]*task        // "" holds the blockers that name no task
	changed  map[string]bool         // tasks with added or removed messages
	unusable map[*message]bool       // messages that cannot be tracked
	works    map[string]*workRecord  // by task
	approved map[string]jsonfile.Sum // by task: the newest completion that was approved
	validate bool                    // a completion counts only once it is approved (Options.Validate)
	messages int
	*index
}

// index is what spans tasks.
type index struct {
	live     []*task                    // tasks that have not ended, or that have an open blocker, by id
	ended    []*task                    // by end, then id
	projects map[string]*projectReviews // the tasks with deliveries or reviews, by context.project
	cycles   map[string]string          // tasks that wait for themselves, with the members of the cycle
	calls    []*message                 // escalations to a human
	totals   totals
}

// totals are counts over all tasks (protocol 004, Suggested Implementation: Monitoring).
type totals struct {
	approved, submitted, rejected int
	spent                         time.Duration // from assignment to approval
}

func newBoard() *board {
	return &board{tasks: map[string]*task{}, changed: map[string]bool{}, unusable: map[*message]bool{}, approved: map[string]jsonfile.Sum{}, index: &index{}}
}

// add enters a message. The next settle rebuilds its task.
func (b *board) add(m *message) {
	b.messages++
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
}

// remove drops a message that no longer exists.
func (b *board) remove(m *message) {
	b.messages--
	delete(b.unusable, m)
	if t := b.tasks[m.task]; t != nil && m.unusable == "" {
		t.messages = slices.DeleteFunc(t.messages, func(other *message) bool { return other == m })
		b.changed[m.task] = true
	}
}

// setWorks enters the records of work.
func (b *board) setWorks(found map[string]*workRecord) {
	for _, list := range []map[string]*workRecord{b.works, found} {
		for id := range list {
			b.touch(id)
		}
	}
	b.works = found
}

func (b *board) approve(a endorsement) {
	b.approved[a.Task] = a.Completion
	b.touch(a.Task)
}

// touch makes the next settle rebuild a task that has messages.
func (b *board) touch(id string) {
	if b.tasks[id] != nil {
		b.changed[id] = true
	}
}

// settle rebuilds the tasks whose messages have changed, and the index.
func (b *board) settle(now time.Time) {
	if len(b.changed) == 0 {
		return
	}
	for id := range b.changed {
		t := b.tasks[id]
		if len(t.messages) == 0 {
			delete(b.tasks, id)
			continue
		}
		held := t.held()
		t.work, t.endorsed, t.validate = b.works[id], b.approved[id], b.validate
		t.replay()
		if held && !t.held() {
			t.released = now
		}
	}
	clear(b.changed)
	b.makeIndex(now)
}

func (b *board) makeIndex(now time.Time) {
	b.index = &index{projects: map[string]*projectReviews{}}
	for _, t := range b.tasks {
		if t.over() {
			b.ended = append(b.ended, t)
		}
		if !t.over() || len(t.blockers) > 0 {
			b.live = append(b.live, t)
		}
		if len(t.reviews)+len(t.deliveries) > 0 {
			r := b.projects[t.project()]
			if r == nil {
				r = &projectReviews{}
				b.projects[t.project()] = r
			}
			r.tasks = append(r.tasks, t)
		}
		b.totals.submitted += t.submitted
		b.totals.rejected += t.rejected
		if t.stage == stageApproved && t.assigned != nil {
			b.totals.approved++
			b.totals.spent += max(t.end.Sub(t.begun), 0)
		}
		for _, m := range t.messages {
			if m.kind == escalates && m.blocker.human && now.Sub(m.at) < day {
				b.calls = append(b.calls, m)
			}
		}
	}
	slices.SortFunc(b.live, compareIDs)
	slices.SortFunc(b.ended, func(x, y *task) int { return cmp.Or(x.end.Compare(y.end), compareIDs(x, y)) })
	for _, p := range b.projects {
		p.order()
	}
	b.cycles = findCycles(b)
}

func compareIDs(a, b *task) int { return cmp.Compare(a.id, b.id) }

// projectReviews is what the security gate needs to know about one project.
type projectReviews struct {
	tasks      []*task // by id
	reviews    []*review
	deliveries []time.Time
	// unreviewed lists the files delivered since the previous approval that the last review was not asked to read.
	unreviewed []string
}

// order sorts reviews and deliveries by time. Of two reviews at the same time, the less permissive is last.
func (p *projectReviews) order() {
	slices.SortFunc(p.tasks, compareIDs)
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
	list := slices.Clone(b.live)
	for i := len(b.ended) - 1; i >= 0 && len(b.ended)-i <= maxEnded; i-- {
		t := b.ended[i]
		if !since.IsZero() && !t.end.After(since) {
			break
		}
		list = append(list, t)
	}
	slices.SortFunc(list, compareIDs)
	return slices.Compact(list)
}
