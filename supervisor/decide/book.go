package decide

import (
	"bytes"
	"cmp"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/livhana/steward/protocol"
)

// Book holds a value for each of many subjects, in one part per project, protocol and kind. A part never changes once it
// stands in a Book, so that a Book and its successor share the parts that are equal: the cost of a decision depends on what
// has changed, not on what there is. The zero Book is empty. Books are values; several goroutines may read one.
type Book[V any] struct{ parts map[bookKey]*part[V] }

// bookKey is the key of a part.
type bookKey struct {
	source
	kind protocol.Kind
}

func shelfOf(s protocol.Subject) bookKey { return bookKey{sourceOf(s), s.Kind} }

func (s bookKey) subject(id string) protocol.Subject {
	return protocol.Subject{Project: s.project, Protocol: s.protocol, Kind: s.kind, ID: id}
}

// part lists the values of one key in the order in which they were found; each id stands there once.
type part[V any] struct {
	ids    []string
	at     map[string]int
	values []V
	// stored is the JSON of the part, once it was encoded.
	stored atomic.Pointer[[]byte]
}

// BookOf makes a Book of a map.
func BookOf[V any](all map[protocol.Subject]V) Book[V] {
	var b Book[V]
	subjects := slices.SortedFunc(maps.Keys(all), func(a, b protocol.Subject) int { return cmp.Compare(a.ID, b.ID) })
	for _, s := range subjects {
		if b.parts == nil {
			b.parts = map[bookKey]*part[V]{}
		}
		p := b.parts[shelfOf(s)]
		if p == nil {
			p = &part[V]{at: map[string]int{}}
			b.parts[shelfOf(s)] = p
		}
		p.at[s.ID], p.ids, p.values = len(p.ids), append(p.ids, s.ID), append(p.values, all[s])
	}
	return b
}

// Of gives the value of a subject, the zero value if there is none.
func (b Book[V]) Of(s protocol.Subject) V {
	v, _ := b.Find(s)
	return v
}

// Find gives the value of a subject, and whether there is one.
func (b Book[V]) Find(s protocol.Subject) (v V, known bool) {
	return b.parts[shelfOf(s)].find(s.ID)
}

// near finds the value of an id that stood at index i in a similar part; nil if there is none.
func (p *part[V]) near(i int, id string) *V {
	if p == nil {
		return nil
	}
	if i >= len(p.ids) || p.ids[i] != id {
		var known bool
		if i, known = p.at[id]; !known {
			return nil
		}
	}
	return &p.values[i]
}

func (p *part[V]) find(id string) (v V, known bool) {
	if p == nil {
		return v, false
	}
	i, known := p.at[id]
	if !known {
		return v, false
	}
	return p.values[i], true
}

// All iterates over everything, in no fixed order.
func (b Book[V]) All() iter.Seq2[protocol.Subject, V] {
	return b.where(func(bookKey, *part[V]) bool { return true })
}

// Turned is the value of a subject, and its former one; nil where there is none.
type Turned[V any] struct{ Was, Is *V }

// Since iterates over the parts that an older Book does not share.
func (b Book[V]) Since(old Book[V]) iter.Seq2[protocol.Subject, Turned[V]] {
	return func(yield func(protocol.Subject, Turned[V]) bool) {
		for at, p := range b.parts {
			was := old.parts[at]
			if was == p {
				continue
			}
			for i, id := range p.ids {
				if !yield(at.subject(id), Turned[V]{Was: was.near(i, id), Is: &p.values[i]}) {
					return
				}
			}
		}
	}
}

// In iterates over the values of a project.
func (b Book[V]) In(project string) iter.Seq2[protocol.Subject, V] {
	return b.where(func(at bookKey, _ *part[V]) bool { return at.project == project })
}

func (b Book[V]) where(wanted func(bookKey, *part[V]) bool) iter.Seq2[protocol.Subject, V] {
	return func(yield func(protocol.Subject, V) bool) {
		for at, p := range b.parts {
			if !wanted(at, p) {
				continue
			}
			for i, id := range p.ids {
				if !yield(at.subject(id), p.values[i]) {
					return
				}
			}
		}
	}
}

// Len counts the subjects.
func (b Book[V]) Len() int {
	n := 0
	for _, p := range b.parts {
		n += len(p.ids)
	}
	return n
}

// With is the Book with another value for one subject.
func (b Book[V]) With(s protocol.Subject, v V) Book[V] {
	next := Book[V]{parts: maps.Clone(b.parts)}
	if next.parts == nil {
		next.parts = map[bookKey]*part[V]{}
	}
	next.parts[shelfOf(s)] = b.parts[shelfOf(s)].with(s.ID, v)
	return next
}

func (p *part[V]) with(id string, v V) *part[V] {
	if p == nil {
		return &part[V]{ids: []string{id}, at: map[string]int{id: 0}, values: []V{v}}
	}
	if i, known := p.at[id]; known {
		next := &part[V]{ids: p.ids, at: p.at, values: slices.Clone(p.values)}
		next.values[i] = v
		return next
	}
	next := &part[V]{ids: append(slices.Clone(p.ids), id), at: maps.Clone(p.at), values: append(slices.Clone(p.values), v)}
	next.at[id] = len(p.ids)
	return next
}

// only is the part reduced to the values that keep accepts, nil if none remains.
func (p *part[V]) only(keep func(V) bool) *part[V] {
	if !slices.ContainsFunc(p.values, func(v V) bool { return !keep(v) }) {
		return p
	}
	w := writer[V]{}
	for i, id := range p.ids {
		if keep(p.values[i]) {
			w.write(id, &p.values[i])
		}
	}
	return w.done()
}

// IsZero reports whether the Book is empty.
func (b Book[V]) IsZero() bool { return len(b.parts) == 0 }

// MarshalJSON gives one object with the texts of the subjects as its sorted keys.
func (b Book[V]) MarshalJSON() ([]byte, error) {
	shelves := slices.SortedFunc(maps.Keys(b.parts), func(a, b bookKey) int {
		return cmp.Or(cmp.Compare(a.project, b.project), cmp.Compare(a.protocol, b.protocol), cmp.Compare(a.kind, b.kind))
	})
	out := []byte{'{'}
	for _, at := range shelves {
		text, err := b.parts[at].text(at)
		if err != nil {
			return nil, err
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, text...)
	}
	return append(out, '}'), nil
}

// text is the JSON of the part. It is computed once, because most parts are the same at the next save.
func (p *part[V]) text(at bookKey) ([]byte, error) {
	if known := p.stored.Load(); known != nil {
		return *known, nil
	}
	all := make(map[protocol.Subject]V, len(p.ids))
	for i, id := range p.ids {
		all[at.subject(id)] = p.values[i]
	}
	text, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	text = bytes.Clone(text[1 : len(text)-1])
	p.stored.Store(&text)
	return text, nil
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (b *Book[V]) UnmarshalJSON(data []byte) error {
	var all map[protocol.Subject]V
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	*b = BookOf(all)
	return nil
}

// writer makes a part from its predecessor, which mostly has the same ids in the same order, many with the same values.
// Nothing is copied as long as everything is equal.
type writer[V any] struct {
	old    *part[V]
	same   func(a, b *V) bool
	shared int // the number of values shared with the old part, while values is nil
	ids    []string
	at     map[string]int
	values []V
	other  bool // the ids differ from those of the old part
}

// before is the former value of the id that is written next; nil if there is none. It must not be changed.
func (w *writer[V]) before(id string) *V { return w.old.near(w.len(), id) }

// value is the same as a copy, the zero value for nil.
func (w *writer[V]) value(id string) (v V) {
	if known := w.before(id); known != nil {
		return *known
	}
	return v
}

func (w *writer[V]) len() int {
	if w.values == nil {
		return w.shared
	}
	return len(w.values)
}

// write adds a value and gives its index. Of two with one id the last counts.
func (w *writer[V]) write(id string, v *V) int {
	n := w.len()
	inOrder := !w.other && w.old != nil && n < len(w.old.ids) && w.old.ids[n] == id
	if inOrder && w.values == nil {
		if before := &w.old.values[n]; before == v || w.same(before, v) {
			w.shared++
			return n
		}
	}
	w.copy()
	if inOrder {
		w.values = append(w.values, *v)
		return n
	}
	if !w.other {
		w.part(n)
	}
	if i, known := w.at[id]; known {
		w.values[i] = *v
		return i
	}
	w.at[id], w.ids, w.values = n, append(w.ids, id), append(w.values, *v)
	return n
}

// copy makes the values so far the writer's own.
func (w *writer[V]) copy() {
	if w.values != nil {
		return
	}
	w.values = make([]V, 0, 8)
	if w.old != nil {
		w.values = append(make([]V, 0, len(w.old.ids)), w.old.values[:w.shared]...)
	}
}

// part separates the ids from those of the old part after the first n.
func (w *writer[V]) part(n int) {
	w.other, w.at = true, make(map[string]int, n+1)
	if w.old != nil {
		w.ids = slices.Clone(w.old.ids[:n])
	}
	for i, id := range w.ids {
		w.at[id] = i
	}
}

// done gives the part, the old one itself if it is equal; nil if there is nothing.
func (w *writer[V]) done() *part[V] {
	n := w.len()
	switch {
	case n == 0:
		return nil
	case w.values == nil && n == len(w.old.ids):
		return w.old
	}
	w.copy()
	if !w.other && n < len(w.old.ids) {
		w.part(n)
	}
	if w.other {
		return &part[V]{ids: w.ids, at: w.at, values: w.values}
	}
	return &part[V]{ids: w.old.ids, at: w.old.at, values: w.values}
}

func equal[V comparable](a, b *V) bool { return *a == *b }

// aligned is a part with other values for the same ids.
func aligned[V, W any](p *part[V], values []W) *part[W] {
	if p == nil {
		return nil
	}
	return &part[W]{ids: p.ids, at: p.at, values: values}
}

// replace sets a part of a Book that is being made; nil removes it. own says whether the Book no longer shares its map of
// parts with the one that it started from.
func replace[V any](b *Book[V], own *bool, at bookKey, p *part[V]) {
	if b.parts[at] == p {
		return
	}
	if !*own {
		if b.parts = maps.Clone(b.parts); b.parts == nil {
			b.parts = map[bookKey]*part[V]{}
		}
		*own = true
	}
	if p == nil {
		if delete(b.parts, at); len(b.parts) == 0 {
			b.parts, *own = nil, false
		}
	} else {
		b.parts[at] = p
	}
}
