package envelope

import (
	"cmp"
	"slices"
	"time"

	"github.com/livhana/steward/protocol/jsonfile"
)

// book indexes the messages by task, with the state derived from them. Only tasks with changed messages are rebuilt.
type book struct {
	tasks   map[string]*taskState // "" holds the blockers that name no task
	changed map[string]bool       // tasks with added or removed messages
	live    map[string]*taskState // tasks that have not ended, or that have an open blocker
	ended   []*taskState          // sorted by end, then id
	// projects groups the tasks with deliveries or reviews by context.project.
	projects map[string]*dossier
	cycles   map[string]string // tasks that wait for themselves, with the members of the cycle
	useless  map[*message]bool // messages that cannot be tracked
	humans   map[*message]bool // escalations to a human in the last day
	figures  fieldCounts
}

// fieldCounts are totals over all tasks (protocol 004, Suggested Implementation: Monitoring).
type fieldCounts struct {
	messages, approved, submitted, rejected int
	spent                                   time.Duration // from assignment to approval
}

func newBook() book {
	return book{tasks: map[string]*taskState{}, changed: map[string]bool{}, live: map[string]*taskState{}, projects: map[string]*dossier{},
		useless: map[*message]bool{}, humans: map[*message]bool{}}
}

// add enters a message into the book.
func (p *Project) add(m *message) {
	p.figures.messages++
	p.audit.want(m)
	if m.unusable != "" {
		p.useless[m] = true
		return
	}
	t := p.tasks[m.task]
	if t == nil {
		t = &taskState{id: m.task}
		p.tasks[m.task] = t
	}
	t.messages = append(t.messages, m)
	p.changed[m.task] = true
	if m.kind == escalates && m.blocker.human && p.Now.Sub(m.at) < day {
		p.humans[m] = true
	}
}

const day = 24 * time.Hour

// remove drops a message that no longer exists.
func (p *Project) remove(m *message) {
	p.figures.messages--
	p.audit.forgo(m)
	delete(p.humans, m)
	if m.unusable != "" {
		delete(p.useless, m)
		return
	}
	if t := p.tasks[m.task]; t != nil {
		t.messages = slices.DeleteFunc(t.messages, func(other *message) bool { return other == m })
		p.changed[m.task] = true
	}
}

// settle rebuilds the tasks whose messages have changed.
func (p *Project) settle() {
	if len(p.changed) == 0 {
		return
	}
	for id := range p.changed {
		t := p.tasks[id]
		p.unfile(t)
		if len(t.messages) == 0 {
			delete(p.tasks, id)
			continue
		}
		held := t.held()
		t.tell()
		if held && !t.held() {
			t.shown = p.Now
		}
		p.file(t)
	}
	clear(p.changed)
	p.findCycles()
}

// file enters a task into the indexes.
func (p *Project) file(t *taskState) {
	if t.over() {
		at, _ := slices.BinarySearchFunc(p.ended, t, compareEnds)
		p.ended = slices.Insert(p.ended, at, t)
	}
	if !t.over() || len(t.blockers) > 0 {
		p.live[t.id] = t
	}
	if len(t.reviews)+len(t.deliveries) > 0 {
		d := p.projects[t.project()]
		if d == nil {
			d = &dossier{tasks: map[string]*taskState{}}
			p.projects[t.project()] = d
		}
		d.tasks[t.id], d.told = t, false
	}
	p.figures.count(t, 1)
}

// unfile removes a task from the indexes.
func (p *Project) unfile(t *taskState) {
	if at, ok := slices.BinarySearchFunc(p.ended, t, compareEnds); ok && p.ended[at] == t {
		p.ended = slices.Delete(p.ended, at, at+1)
	}
	delete(p.live, t.id)
	if d := p.projects[t.project()]; d != nil && d.tasks[t.id] != nil {
		d.told = false
		if delete(d.tasks, t.id); len(d.tasks) == 0 {
			delete(p.projects, t.project())
		}
	}
	p.figures.count(t, -1)
}

// dossier is what the security gate needs to know about one project.
type dossier struct {
	tasks      map[string]*taskState
	told       bool // the lists are up to date
	reviews    []*review
	deliveries []time.Time
	// missed lists the delivered files that the last review was not asked to read. It is valid once compared is true.
	missed   []string
	compared bool
}

// tell sorts reviews and deliveries by time. Of two reviews at the same time, the less permissive is last.
func (d *dossier) tell() {
	if d.told {
		return
	}
	d.reviews, d.deliveries, d.told, d.compared = nil, nil, true, false
	for _, t := range d.tasks {
		d.deliveries = append(d.deliveries, t.deliveries...)
		for i := range t.reviews {
			d.reviews = append(d.reviews, &t.reviews[i])
		}
	}
	slices.SortFunc(d.reviews, (*review).compare)
	slices.SortFunc(d.deliveries, time.Time.Compare)
}

func compareEnds(a, b *taskState) int { return cmp.Or(a.end.Compare(b.end), cmp.Compare(a.id, b.id)) }

func (f *fieldCounts) count(t *taskState, sign int) {
	f.submitted += sign * t.submitted
	f.rejected += sign * t.everRejected
	if t.state == stateApproved && t.assigned != nil {
		f.approved += sign
		f.spent += time.Duration(sign) * max(t.end.Sub(t.begun), 0)
	}
}

// distinct sorts a task's messages and drops duplicates: a log line that also exists as a file, and a repeated message.
// Two equal files without a timestamp are two messages.
func distinct(all []*message) []*message {
	slices.SortFunc(all, (*message).compare)
	files, seen := map[jsonfile.Sum]bool{}, map[jsonfile.Sum]bool{}
	for _, m := range all {
		if !m.inLog() {
			files[m.sum] = true
		}
	}
	list := make([]*message, 0, len(all))
	for _, m := range all {
		if m.inLog() && files[m.sum] || m.stamped && seen[m.sum] {
			continue
		}
		seen[m.sum] = true
		list = append(list, m)
	}
	return list
}
