package jsonfile

import (
	"cmp"
	"errors"
	"slices"
	"time"
)

// Reading is the last good reading of one file. Writers truncate and rewrite in place, so a bad read means "unknown,
// read again": the last good value stands while a writer is at work.
type Reading[T any] struct {
	There bool // the file exists, readable or not
	Good  bool // Value holds
	Rest  bool // Stamp had settled: an equal one proves that nothing changed
	Stamp Stamp
	Sum   Sum
	Value T
}

// AtRest reports whether the reading stands until somebody says that the file changed.
func (r *Reading[T]) AtRest() bool { return !r.There || r.Rest && r.Good }

// Still reports whether the file is what it was when it was read, at the price of one system call. It is for callers
// who know that the folders on the way are the same as then: a link that has taken the place of one is not refused
// here. Whatever is not the very same file is not still, and is for Load to judge.
func (r *Reading[T]) Still(root *Root, file string) bool {
	if !r.There || !r.Rest || !r.Good || checkPath(file) != nil {
		return false
	}
	st, err := root.top.lstat(file)
	return err == nil && st == r.Stamp
}

// Trouble is a file that cannot be used as it is.
type Trouble struct {
	Path, Problem, Hint string // Path is relative to the Root
	Since               time.Time

	next  time.Time
	tries int
	sure  bool // no writer's doing, so it counts at once
	said  bool // its form is well, but not what it says
}

// BadAfter is how long a file must stay unparseable until it counts as trouble.
const BadAfter = 2 * time.Second

// TolerantReader keeps book of files that could not be read, and says when to try again. The zero value is ready; Begin
// starts each look. It is used by one goroutine at a time.
type TolerantReader struct {
	now      time.Time
	again    time.Time
	troubles map[string]*Trouble
}

// Begin starts a look at that moment.
func (p *TolerantReader) Begin(now time.Time) {
	p.now, p.again = now, time.Time{}
	if p.troubles == nil {
		p.troubles = map[string]*Trouble{}
	}
}

// Forget drops what is known, for a folder that was made anew.
func (p *TolerantReader) Forget() { p.troubles = map[string]*Trouble{} }

// Wish asks for another look at that time; the earliest wish stands. A zero time is no wish.
func (p *TolerantReader) RetryAt(at time.Time) {
	if !at.IsZero() && (p.again.IsZero() || at.Before(p.again)) {
		p.again = at
	}
}

// Again is the earliest wish since Begin; zero if there is none.
func (p *TolerantReader) Again() time.Time { return p.again }

// Has reports whether the file is in trouble, be it for a moment only.
func (p *TolerantReader) Has(file string) bool { return p.troubles[file] != nil }

// Passing reports whether the file is in trouble that may pass without a change of the file: the system is short of
// something, or a writer may be at work.
func (p *TolerantReader) Passing(file string) bool {
	t := p.troubles[file]
	return t != nil && !t.said && (t.sure && !t.next.IsZero() || !t.sure && p.now.Sub(t.Since) < BadAfter)
}

// Calm reports that no file is in trouble, not even for a moment: who would ask Has of many files need not.
func (p *TolerantReader) Calm() bool { return len(p.troubles) == 0 }

// Clear takes a file off the book.
func (p *TolerantReader) Clear(file string) { delete(p.troubles, file) }

// Refuse makes a file trouble at once for what it says rather than for its form.
func (p *TolerantReader) Refuse(file, problem, hint string) {
	since := p.now
	if t := p.troubles[file]; t != nil && t.Problem == problem {
		since = t.Since
	}
	p.troubles[file] = &Trouble{Path: file, Problem: problem, Hint: hint, Since: since, sure: true, said: true}
}

// Unreadable keeps book of a file that could not be read. A missing one is no trouble.
func (p *TolerantReader) Unreadable(file string, err error) {
	if errors.Is(err, ErrNotExist) {
		delete(p.troubles, file)
		return
	}
	t := p.troubles[file]
	if t == nil || t.said {
		t = &Trouble{Path: file, Since: p.now}
		p.troubles[file] = t
	}
	t.Problem, t.Hint = Describe(err)
	t.sure = !errors.Is(err, ErrTorn) && !errors.Is(err, ErrBad)
	switch {
	case errors.Is(err, ErrHostile), errors.Is(err, ErrTooBig), errors.Is(err, ErrPermission):
		t.next = time.Time{} // only a change of the file can mend it
		return
	case t.sure: // the system is short of something, or the disk is ill: no writer's doing, but it may pass
		t.next = p.now.Add(5 * time.Second)
		p.RetryAt(t.next)
		return
	}
	t.tries++
	pause := 50 * time.Millisecond
	if t.tries > 5 {
		pause = 500 * time.Millisecond
	}
	if p.now.Sub(t.Since) >= BadAfter {
		pause = 5 * time.Second
	}
	t.next = p.now.Add(pause)
	p.RetryAt(t.next)
}

// Describe splits an error of this package into the problem and the advice for the operator.
func Describe(err error) (problem, hint string) {
	var e *Error
	if errors.As(err, &e) {
		hint = e.Hint
	}
	return err.Error(), hint
}

// Troubles lists what stays unusable, ordered by path.
func (p *TolerantReader) Troubles() []Trouble {
	var list []Trouble
	for _, t := range p.troubles {
		if t.sure || p.now.Sub(t.Since) >= BadAfter {
			list = append(list, *t)
		}
	}
	slices.SortFunc(list, func(a, b Trouble) int { return cmp.Compare(a.Path, b.Path) })
	return list
}

// Load brings the reading of a JSON document up to date and reports whether the file was read. It costs one stat when
// the file did not change. Files of more than max bytes are trouble.
func Load[T any](root *Root, p *TolerantReader, r *Reading[T], file string, max int64, decode func(Object) T) (read bool) {
	return renew(root, p, r, file, func() (T, Blob, error) {
		object, blob, err := root.Load(file, max)
		if err != nil {
			var none T
			return none, blob, err
		}
		return decode(object), blob, nil
	})
}

// LoadText is Load for a file that is no JSON document. An error of decode that wraps ErrTorn or ErrBad is borne with
// patience like a document's.
func LoadText[T any](root *Root, p *TolerantReader, r *Reading[T], file string, max int64, decode func([]byte) (T, error)) (read bool) {
	return renew(root, p, r, file, func() (T, Blob, error) {
		blob, err := root.Read(file, max)
		if err != nil {
			var none T
			return none, blob, err
		}
		value, err := decode(blob.Data)
		return value, blob, err
	})
}

func renew[T any](root *Root, p *TolerantReader, r *Reading[T], file string, load func() (T, Blob, error)) (read bool) {
	t := p.troubles[file]
	st, err := root.Stat(file)
	switch {
	case errors.Is(err, ErrNotExist):
		delete(p.troubles, file)
		*r = Reading[T]{}
		return false
	case err != nil:
		r.There, r.Rest = true, false // once it can be looked at again, it is read
		r.doubt(err)
		p.Unreadable(file, err)
		return false
	case r.There && r.Rest && st == r.Stamp:
		if t == nil && r.Good {
			return false
		}
		if t != nil && (t.sure && t.next.IsZero() || p.now.Before(t.next)) {
			p.RetryAt(t.next)
			return false
		}
	}
	value, blob, err := load()
	if err != nil {
		r.There, r.Stamp, r.Rest = !errors.Is(err, ErrNotExist), st, st.Settled(p.now)
		r.doubt(err)
		p.Unreadable(file, err)
		return false
	}
	if t != nil && !t.said {
		delete(p.troubles, file)
	}
	*r = Reading[T]{There: true, Good: true, Stamp: blob.Stamp, Rest: blob.Stamp.Settled(p.now), Sum: blob.Sum, Value: value}
	return true
}

// doubt keeps the last good value for as long as the error may be the file's writer or the system at work. What is
// no plain file, or too big to be read, is trusted no more.
func (r *Reading[T]) doubt(err error) {
	if errors.Is(err, ErrNotExist) || errors.Is(err, ErrHostile) || errors.Is(err, ErrTooBig) {
		r.Good = false
	}
}
