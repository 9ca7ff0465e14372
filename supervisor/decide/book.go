package decide

import (
	"encoding/json"
	"iter"
	"maps"
	"time"

	"github.com/livhana/steward/protocol"
)

// Book holds a value for each of many subjects. Those of settled tasks stand in lists that a Book shares with its
// predecessor, so that the cost of a decision grows with open work and not with history. Books are values: none changes
// once it was made. The zero Book is empty.
type Book[V any] struct {
	values  map[protocol.Subject]V
	settled map[snapshotSource]*settled
	// of gives the value of a settled task.
	of func(*TaskMemory) V
}

// snapshotSource is one protocol in one project.
type snapshotSource struct{ project, protocol string }

func sourceOf(s protocol.Subject) snapshotSource { return snapshotSource{s.Project, s.Protocol} }

// BookOf makes a Book of a map.
func BookOf[V any](all map[protocol.Subject]V) Book[V] { return Book[V]{values: all} }

// Of gives the value of a subject, the zero value if none exists.
func (b Book[V]) Of(s protocol.Subject) V {
	v, _ := b.Find(s)
	return v
}

// Find gives the value of a subject, and whether there is one.
func (b Book[V]) Find(s protocol.Subject) (v V, known bool) {
	if v, known = b.values[s]; known || s.Kind != protocol.KindTask {
		return v, known
	}
	if m := b.settled[sourceOf(s)].find(s.ID); m != nil {
		return b.of(m), true
	}
	return v, false
}

// All iterates over everything, in no fixed order.
func (b Book[V]) All() iter.Seq2[protocol.Subject, V] {
	return func(yield func(protocol.Subject, V) bool) {
		for s, v := range b.values {
			if !yield(s, v) {
				return
			}
		}
		for at, list := range b.settled {
			for id, m := range list.all() {
				if !yield(protocol.Subject{Project: at.project, Protocol: at.protocol, Kind: protocol.KindTask, ID: id}, b.of(m)) {
					return
				}
			}
		}
	}
}

// Turned is the value of a subject, and its former one; nil where none exists.
type Turned[V any] struct{ Was, Is *V }

// Since iterates over what may differ from an older Book.
func (b Book[V]) Since(old Book[V]) iter.Seq2[protocol.Subject, Turned[V]] {
	return func(yield func(protocol.Subject, Turned[V]) bool) {
		for s, v := range b.values {
			turned := Turned[V]{Is: &v}
			if was, known := old.Find(s); known {
				turned.Was = &was
			}
			if !yield(s, turned) {
				return
			}
		}
	}
}

// Len counts the subjects.
func (b Book[V]) Len() int {
	n := len(b.values)
	for _, list := range b.settled {
		n += len(list.memory) - len(list.open)
	}
	return n
}

// With is the Book with another value for one subject.
func (b Book[V]) With(s protocol.Subject, v V) Book[V] {
	b.values = maps.Clone(b.values)
	if b.values == nil {
		b.values = map[protocol.Subject]V{}
	}
	b.values[s] = v
	if at := sourceOf(s); s.Kind == protocol.KindTask && b.settled[at].find(s.ID) != nil {
		b.settled = maps.Clone(b.settled)
		b.settled[at] = b.settled[at].without(s.ID)
	}
	return b
}

// IsZero reports whether the Book is empty.
func (b Book[V]) IsZero() bool { return len(b.values)+len(b.settled) == 0 }

// MarshalJSON gives one object with the texts of the subjects as its sorted keys.
func (b Book[V]) MarshalJSON() ([]byte, error) { return json.Marshal(maps.Collect(b.All())) }

// encode is MarshalJSON in no fixed order, without encoding what is remembered of settled tasks again.
func (b Book[V]) encode() ([]byte, error) {
	out, err := json.Marshal(b.values)
	if b.values == nil {
		out = []byte("{}")
	}
	if out = out[:len(out)-1]; err != nil {
		return nil, err
	}
	for at, list := range b.settled {
		text, err := list.encode(at)
		if err != nil {
			return nil, err
		}
		if len(out) > 1 && len(text) > 0 {
			out = append(out, ',')
		}
		out = append(out, text...)
	}
	return append(out, '}'), nil
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (b *Book[V]) UnmarshalJSON(data []byte) error {
	*b = Book[V]{}
	return json.Unmarshal(data, &b.values)
}

// settled are the tasks of one source with which nothing is left to do, as a list of completed tasks shows them.
type settled struct {
	list *protocol.Completed
	// memory is what is remembered of each task of the list; nil where the task is judged. open are those positions.
	memory []*TaskMemory
	open   []int
	at     time.Time // when they were last seen in the list
	text   []byte    // their JSON, once the loop has encoded it
}

// Settled tasks are entered again once a day, so that the memory holds when they were last seen; and as soon as so many
// tasks are judged that have settled meanwhile.
const (
	settledFor   = 24 * time.Hour
	mostUnsorted = 64
)

// settle finds the tasks of a list that memory knows as settled by the same result. While the list stays the same, so do
// they: the cost of the rest of a decision does not depend on the length of the list.
// See docs/decisions.md, "A list of settled tasks is kept while it stays the same".
func settle(list *protocol.Completed, old Book[TaskMemory], at snapshotSource, now time.Time) *settled {
	was := old.settled[at]
	if was != nil && was.list == list && now.Sub(was.at).Abs() < settledFor && was.unsorted(old, at) <= mostUnsorted {
		return was
	}
	next := &settled{list: list, memory: make([]*TaskMemory, len(list.Tasks)), at: now}
	near := 0 // where the task stood in the last list, mostly
	for i, c := range list.Tasks {
		m := was.near(&near, c.ID)
		if m == nil {
			if known, ok := old.values[taskOf(at, c.ID)]; ok {
				m = &known
			}
		}
		if m == nil || !m.settledBy(c) {
			next.open = append(next.open, i)
			continue
		}
		if now.Sub(m.Looked).Abs() >= settledFor/2 {
			seen := *m
			m, seen.Looked = &seen, now
		}
		next.memory[i] = m
	}
	return next
}

func taskOf(at snapshotSource, id string) protocol.Subject {
	return protocol.Subject{Project: at.project, Protocol: at.protocol, Kind: protocol.KindTask, ID: id}
}

// unsorted counts the tasks that are judged although they have settled.
func (s *settled) unsorted(old Book[TaskMemory], at snapshotSource) int {
	n := 0
	for _, i := range s.open {
		if m, known := old.values[taskOf(at, s.list.Tasks[i].ID)]; known && m.settledBy(s.list.Tasks[i]) {
			n++
		}
	}
	return n
}

// near gives what is remembered of a task that is expected at a position, and moves the position behind it.
func (s *settled) near(i *int, id string) *TaskMemory {
	if s == nil {
		return nil
	}
	if *i >= len(s.memory) || s.list.Tasks[*i].ID != id {
		at, known := s.list.Find(id)
		if !known {
			return nil
		}
		*i = at
	}
	*i++
	return s.memory[*i-1]
}

func (s *settled) find(id string) *TaskMemory {
	if s == nil {
		return nil
	}
	if i, known := s.list.Find(id); known {
		return s.memory[i]
	}
	return nil
}

func (s *settled) all() iter.Seq2[string, *TaskMemory] {
	return func(yield func(string, *TaskMemory) bool) {
		for i, m := range s.memory {
			if m != nil && !yield(s.list.Tasks[i].ID, m) {
				return
			}
		}
	}
}

// without leaves a task to be judged.
func (s *settled) without(id string) *settled {
	next := &settled{list: s.list, memory: append([]*TaskMemory{}, s.memory...), at: s.at}
	i, _ := s.list.Find(id)
	next.memory[i] = nil
	next.open = append(append(next.open, s.open...), i)
	return next
}

// encode gives the members of a JSON object. Only the goroutine that saves the memory calls it.
func (s *settled) encode(at snapshotSource) ([]byte, error) {
	if s.text != nil {
		return s.text, nil
	}
	all := make(map[protocol.Subject]*TaskMemory, len(s.memory))
	for id, m := range s.all() {
		all[taskOf(at, id)] = m
	}
	text, err := json.Marshal(all)
	if err == nil {
		s.text = text[1 : len(text)-1]
	}
	return s.text, err
}
