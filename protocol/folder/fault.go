package folder

import (
	"cmp"
	"errors"
	"path"
	"strconv"
	"strings"
	"unicode"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Fault describes a file of the folder ("" for the folder itself) that cannot be used. old is its previous Fault or
// nil: the time at which the fault began is kept.
func (f *Folder) Fault(old *protocol.Fault, file string, err error) *protocol.Fault {
	now := &protocol.Fault{Path: f.Shown(file), Since: f.Now}
	if old != nil {
		now.Since = old.Since
	}
	now.Problem, now.Hint = jsonfile.Describe(err)
	if errors.Is(err, jsonfile.ErrNoSpace) || errors.Is(err, jsonfile.ErrReadOnly) {
		now.Severity = protocol.High // no change at all can be written there
	}
	now.Problem = Line(now.Problem, problemLimit)
	return now
}

// Faults lists the files that stay unusable, ordered by path.
func (f *Folder) Faults() []protocol.Fault {
	var list []protocol.Fault
	for _, t := range f.Patience.Troubles() {
		list = append(list, protocol.Fault{Path: f.Shown(t.Path), Problem: Line(t.Problem, problemLimit), Hint: t.Hint, Since: t.Since})
	}
	return list
}

// problemLimit keeps a Fault to a line or two: a document nested ten thousand levels deep has an equally long path.
const problemLimit = 400

// Line makes foreign text fit one line of at most limit runes.
func Line(s string, limit int) string {
	return Short(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "�")), limit)
}

// Clean is Line without white space at its ends.
func Clean(s string, limit int) string { return strings.TrimSpace(Line(s, limit)) }

// Short truncates a text to at most limit runes.
func Short(s string, limit int) string {
	if s = strings.ToValidUTF8(s, "�"); len(s) <= limit {
		return s
	}
	if r := []rune(s); len(r) > limit {
		return string(r[:limit-1]) + "…"
	}
	return s
}

// Shown is a file's path as shown in a snapshot: relative to the project, on one line, and distinct for distinct names.
func (f *Folder) Shown(file string) string {
	quoted := strconv.Quote(file)
	return cmp.Or(path.Join(f.opts.Base, quoted[1:len(quoted)-1]), ".")
}
