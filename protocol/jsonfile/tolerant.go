package jsonfile

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"
)

// Reading is the last good reading of one file. Writers truncate and rewrite in place, so a bad read means "unknown,
// read again": the last good value stays valid while a writer is active.
type Reading[T any] struct {
	There bool // the file exists, readable or not
	Good  bool // Value is valid
	Rest  bool // Stamp had settled: an equal Stamp proves that nothing changed
	Stamp Stamp
	Sum   Sum
	Value T
}

// AtRest reports whether the reading stays valid until a hint reports a change of the file.
func (r *Reading[T]) AtRest() bool { return !r.There || r.Rest && r.Good }

// Still reports whether the file is unchanged since it was read, at the cost of one system call. The caller must know
// that the parent folders are the same as then: a symbolic link that has replaced a parent is not refused here. If
// Still is false, Load must judge the file.
func (r *Reading[T]) Still(root *Root, file string) bool {
	if !r.There || !r.Rest || !r.Good || checkPath(file) != nil {
		return false
	}
	st, err := root.top.lstat(file)
	return err == nil && st == r.Stamp
}

// Trouble is a file that cannot be used in its present state.
type Trouble struct {
	Path, Problem, Hint string // Path is relative to the Root
	Since               time.Time

	next  time.Time
	tries int
	sure  bool // not caused by a writer, so it counts at once
	said  bool // the form is valid but the content is not
}

// BadAfter is how long a file must stay unparseable before it counts as trouble.
const BadAfter = 2 * time.Second

// TolerantReader tracks files that could not be read, and says when to retry. The zero value is ready for use; Begin
// starts each scan. It is not safe for concurrent use.
type TolerantReader struct {
	now      time.Time
	again    time.Time
	troubles map[string]*Trouble
}

// Begin starts a scan at that moment.
func (p *TolerantReader) Begin(now time.Time) {
	p.now, p.again = now, time.Time{}
	if p.troubles == nil {
		p.troubles = map[string]*Trouble{}
	}
}

// Forget drops all state, for a folder that was recreated.
func (p *TolerantReader) Forget() { p.troubles = map[string]*Trouble{} }

// RetryAt requests another scan at that time; the earliest request wins. A zero time is no request.
func (p *TolerantReader) RetryAt(at time.Time) {
	if !at.IsZero() && (p.again.IsZero() || at.Before(p.again)) {
		p.again = at
	}
}

// Again is the earliest request since Begin; zero if none exists.
func (p *TolerantReader) Again() time.Time { return p.again }

// Has reports whether the file is in trouble, even if only temporarily.
func (p *TolerantReader) Has(file string) bool { return p.troubles[file] != nil }

// Passing reports whether the file is in trouble that may pass without a change of the file: the system lacks a
// resource, or a writer may be active.
func (p *TolerantReader) Passing(file string) bool {
	t := p.troubles[file]
	return t != nil && !t.said && (t.sure && !t.next.IsZero() || !t.sure && p.now.Sub(t.Since) < BadAfter)
}

// Calm reports that no file is in trouble, even temporarily: callers can skip calling Has for many files.
func (p *TolerantReader) Calm() bool { return len(p.troubles) == 0 }

// Clear stops tracking a file.
func (p *TolerantReader) Clear(file string) { delete(p.troubles, file) }

// ClearBelow stops tracking a folder and the files below it.
func (p *TolerantReader) ClearBelow(dir string) {
	maps.DeleteFunc(p.troubles, func(file string, _ *Trouble) bool { return file == dir || strings.HasPrefix(file, dir+"/") })
}

// Refuse marks a file as trouble at once because of its content rather than its form.
func (p *TolerantReader) Refuse(file, problem, hint string) {
	since := p.now
	if t := p.troubles[file]; t != nil && t.Problem == problem {
		since = t.Since
	}
	p.troubles[file] = &Trouble{Path: file, Problem: problem, Hint: hint, Since: since, sure: true, said: true}
}

// Refused reports whether the file's trouble is its content. Only a change of the file ends that.
func (p *TolerantReader) Refused(file string) bool {
	t := p.troubles[file]
	return t != nil && t.said
}

// Unreadable tracks a file that could not be read. A missing file is no trouble.
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
		t.next = time.Time{} // only a change of the file can fix it
		return
	case t.sure: // lack of a resource or a disk error: not caused by a writer, but it may pass
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

// Troubles lists files that stay unusable, ordered by path.
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

// Load updates the reading of a JSON document and reports whether the file was read. It costs one stat if the file did
// not change. Files of more than max bytes are trouble.
func Load[T any](root *Root, p *TolerantReader, r *Reading[T], file string, max int64, decode func(Object) T) (read bool) {
	return LoadText(root, p, r, file, max, func(doc []byte) (value T, err error) {
		o, err := Parse(doc)
		if err != nil {
			return value, root.fail(opParse, file, err)
		}
		return decode(o), nil
	})
}

// LoadText is Load for a file that is no JSON document. An error of decode that wraps ErrTorn or ErrBad is tolerated
// for BadAfter, as for a JSON document.
func LoadText[T any](root *Root, p *TolerantReader, r *Reading[T], file string, max int64, decode func([]byte) (T, error)) (read bool) {
	t := p.troubles[file]
	st, err := root.Stat(file)
	switch {
	case errors.Is(err, ErrNotExist):
		delete(p.troubles, file)
		*r = Reading[T]{}
		return false
	case err != nil:
		r.There, r.Rest = true, false // read it as soon as it can be examined again
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
	var value T
	blob, err := root.Read(file, max)
	if err == nil {
		value, err = decode(blob.Data)
	}
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

// doubt keeps the last good value while the error may come from the file's writer or the system. A file that is not
// plain or is too big is no longer trusted.
func (r *Reading[T]) doubt(err error) {
	if errors.Is(err, ErrNotExist) || errors.Is(err, ErrHostile) || errors.Is(err, ErrTooBig) {
		r.Good = false
	}
}
