package watch

import "slices"

// maxPaths is the number of waiting paths per key above which a full scan is cheaper.
const maxPaths = 1024

// pending holds the undelivered hints. It is fair between keys and holds each path once.
type pending struct {
	order []string // keys with hints, the next one first
	byKey map[string]*backlog
}

type backlog struct {
	paths []string
	known map[string]struct{}
	all   bool // rescan everything; paths are empty
	lost  bool // the kernel has lost events
}

func newPending() pending { return pending{byKey: map[string]*backlog{}} }

func (p *pending) of(key string) *backlog {
	b := p.byKey[key]
	if b == nil {
		b = &backlog{known: map[string]struct{}{}}
		p.byKey[key] = b
		p.order = append(p.order, key)
	}
	return b
}

func (p *pending) add(key, path string) {
	b := p.of(key)
	if _, ok := b.known[path]; ok || b.all {
		return
	}
	if len(b.paths) == maxPaths {
		p.overflow(key)
		return
	}
	b.paths = append(b.paths, path)
	b.known[path] = struct{}{}
}

func (p *pending) overflow(key string) {
	b := p.of(key)
	*b = backlog{all: true, lost: b.lost}
}

func (p *pending) lose(key string) { *p.of(key) = backlog{all: true, lost: true} }

func (p *pending) forget(key string) {
	delete(p.byKey, key)
	p.order = slices.DeleteFunc(p.order, func(k string) bool { return k == key })
}

// head returns the event to offer next. The event stays until it is delivered.
func (p *pending) head() (Event, bool) {
	if len(p.order) == 0 {
		return Event{}, false
	}
	key := p.order[0]
	b := p.byKey[key]
	if !b.all {
		return Event{Key: key, Path: b.paths[0]}, true
	}
	return Event{Key: key, Overflow: true, Lost: b.lost}, true
}

// delivered removes the offered event, unless it has changed since the offer: a superfluous hint does no harm, but a
// missing hint does.
func (p *pending) delivered(ev Event) {
	if now, ok := p.head(); !ok || now != ev {
		return
	}
	p.order = p.order[1:]
	b := p.byKey[ev.Key]
	if len(b.paths) > 1 {
		delete(b.known, b.paths[0])
		b.paths = b.paths[1:]
		p.order = append(p.order, ev.Key)
		return
	}
	delete(p.byKey, ev.Key)
}
