package agentstatus

import (
	"errors"
	"path"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// reading is the last good reading of one file. Writers truncate and rewrite in place, so a bad read means
// "unknown, read again": the last good value stands, and only a file that stays bad for badAfter is a Fault.
type reading[T any] struct {
	there bool // the file exists, readable or not
	good  bool // value holds
	stamp jsonfile.Stamp
	rest  bool // the stamp had settled: an equal one proves that nothing changed
	sum   jsonfile.Sum
	value T
}

// badAfter is how long a file must stay unparseable until it is a Fault.
const badAfter = 2 * time.Second

// trouble is a file that cannot be used as it is.
type trouble struct {
	problem, hint string
	since, next   time.Time
	tries         int
	sure          bool // waiting will not help
	said          bool // its form is well, but not what it says
}

// load brings a reading up to date and reports whether the file was read. It costs one stat when the file did not
// change, and nothing at all when the file was missing and its folder did not change.
func load[T any](p *Project, r *reading[T], file string, decode func(jsonfile.Object) T) (read bool) {
	t := p.trouble[file]
	if !r.there && t == nil && !p.changed[path.Dir(file)] {
		return false
	}
	st, err := p.root.Stat(file)
	switch {
	case isMissing(err):
		delete(p.trouble, file)
		*r = reading[T]{}
		return false
	case err != nil:
		r.there, r.rest = true, false // once it can be looked at again, it is read
		r.doubt(err)
		p.unreadable(file, err)
		return false
	case r.there && r.rest && st == r.stamp:
		if t == nil && r.good {
			return false
		}
		if t != nil && (t.sure || p.now.Before(t.next)) {
			p.wish(t.next)
			return false
		}
	}
	object, blob, err := p.root.Load(file, maxFile)
	if err != nil {
		r.there, r.stamp, r.rest = !isMissing(err), st, st.Settled(p.now)
		r.doubt(err)
		p.unreadable(file, err)
		return false
	}
	if t != nil && !t.said {
		delete(p.trouble, file)
	}
	*r = reading[T]{there: true, good: true, stamp: blob.Stamp, rest: blob.Stamp.Settled(p.now), sum: blob.Sum, value: decode(object)}
	return true
}

// doubt keeps the last good value for as long as the error may be the file's writer or the system at work. What is
// no plain file, or too big to be read, is trusted no more.
func (r *reading[T]) doubt(err error) {
	if isMissing(err) || errors.Is(err, jsonfile.ErrHostile) || errors.Is(err, jsonfile.ErrTooBig) {
		r.good = false
	}
}

// spoken is a document that says which task it speaks of.
type spoken interface{ task() string }

// loadOf is load for a file of one task: one whose content speaks of another task than its name is a Fault, and no
// policy may act on it.
func loadOf[T spoken](p *Project, r *reading[T], file, id string, decode func(jsonfile.Object) T) {
	if !load(p, r, file, decode) {
		return
	}
	if inside := r.value.task(); !same(inside, id) {
		r.good = false
		p.refuse(file, "the task_id inside is \""+clean(inside, 60)+"\", not the one in the file's name",
			"rename the file or correct its task_id; until then the file is left alone")
		return
	}
	delete(p.trouble, file)
}

// same reports whether the id inside a document is the one in its file's name. A document without an id is taken
// by its name; the missing field is a finding.
func same(inside, name string) bool { return inside == "" || inside == name }

// unreadable keeps book of a file that could not be read.
func (p *Project) unreadable(file string, err error) {
	if isMissing(err) {
		delete(p.trouble, file)
		return
	}
	t := p.trouble[file]
	if t == nil || t.said {
		t = &trouble{since: p.now}
		p.trouble[file] = t
	}
	t.problem, t.hint = describeError(err)
	t.sure = !errors.Is(err, jsonfile.ErrTorn) && !errors.Is(err, jsonfile.ErrBad)
	if t.sure {
		t.next = time.Time{}
		return
	}
	t.tries++
	pause := 50 * time.Millisecond
	if t.tries > 5 {
		pause = 500 * time.Millisecond
	}
	if p.now.Sub(t.since) >= badAfter {
		pause = 5 * time.Second
	}
	t.next = p.now.Add(pause)
	p.wish(t.next)
}

func describeError(err error) (problem, hint string) {
	var e *jsonfile.Error
	if errors.As(err, &e) {
		hint = e.Hint
	}
	return err.Error(), hint
}

// refuse makes a file a Fault for what it says rather than for its form.
func (p *Project) refuse(file, problem, hint string) {
	since := p.now
	if t := p.trouble[file]; t != nil && t.problem == problem {
		since = t.since
	}
	p.trouble[file] = &trouble{problem: problem, hint: hint, since: since, sure: true, said: true}
}

// wish asks for another look at that time.
func (p *Project) wish(at time.Time) {
	if !at.IsZero() && (p.again.IsZero() || at.Before(p.again)) {
		p.again = at
	}
}

// faults lists what stays unusable, in a fixed order.
func (p *Project) faults() []protocol.Fault {
	var list []protocol.Fault
	for _, file := range sortedKeys(p.trouble) {
		t := p.trouble[file]
		if !t.sure && p.now.Sub(t.since) < badAfter {
			continue
		}
		list = append(list, protocol.Fault{Path: path.Join(Base, escaped(file)), Problem: clean(t.problem, problemLimit), Hint: t.hint, Since: t.since})
	}
	for _, odd := range []map[string]protocol.Fault{p.oddTasks, p.oddAgents} {
		for _, name := range sortedKeys(odd) {
			list = append(list, odd[name])
		}
	}
	if t := p.log.unwritten; t != nil {
		list = append(list, protocol.Fault{Path: path.Join(Base, logFile), Problem: clean(t.problem, problemLimit), Hint: t.hint, Since: t.since})
	}
	return list
}

// odd is the Fault of a name that cannot be used; it keeps the moment in which it was first seen.
func (p *Project) odd(old, next map[string]protocol.Fault, where, problem, hint string) {
	f := protocol.Fault{Path: where, Problem: problem, Hint: hint, Since: p.now}
	key := where + " " + problem
	if was, ok := old[key]; ok {
		f.Since = was.Since
	}
	next[key] = f
}

// problemLimit keeps a fault to a line or two: a document nested ten thousand deep has a path as long.
const problemLimit = 400
