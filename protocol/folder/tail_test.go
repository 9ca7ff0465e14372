package folder

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol/jsonfile"
)

// A log grows, shrinks, is rewritten, and holds partial and overlong lines: each whole line is read once, with its
// offset.
func TestTail(t *testing.T) {
	r := newRoom(t, "0123\n4567\n")
	tail := Tail{File: doc, Max: 20, Last: 7}
	text := func() string {
		b, err := os.ReadFile(r.path(doc))
		r.do(err)
		return string(b)
	}
	begun := 0
	for _, step := range []struct {
		what, text string
		want       []string
		anew       bool
	}{
		{"its end is read first", "0123\n4567\n", []string{"4567\n"}, false},
		{"nothing new", "+", nil, false},
		{"a line, and half a line", "+89\nab", []string{"89\n"}, false},
		{"the other half, and an empty line", "+cd\n\n", []string{"abcd\n", "\n"}, false},
		{"it shrank", "new\n", []string{"new\n"}, true},
		{"written anew, and longer", "other\nnew\n", []string{"new\n"}, true},
		{"a long line begins", "+" + strings.Repeat("x", 45), []string{"too long"}, false},
		{"a long line ends", "+" + strings.Repeat("x", 45) + "\ny\n", []string{"y\n"}, false},
		{"lines of many reads", "+" + strings.Repeat("a line\n", 9), slices.Repeat([]string{"a line\n"}, 9), false},
	} {
		if more, ok := strings.CutPrefix(step.text, "+"); ok {
			step.text = text() + more
		}
		r.write(step.text)
		before := begun
		var got []string
		r.do(tail.Read(r.Folder, func() { begun++ }, func(line []byte, at int64) {
			if got = append(got, string(line)); line == nil {
				got[len(got)-1] = "too long"
			} else if now := text()[at:]; !strings.HasPrefix(now, string(line)) {
				t.Errorf("%s: at %d is %q, not %q", step.what, at, now, line)
			}
		}))
		if !slices.Equal(got, step.want) || (begun > before) != step.anew {
			t.Errorf("%s: %q, anew %v", step.what, got, begun > before)
		}
	}
}

// A missing log, or something else in its place, is tracked; reading continues where it was.
func TestTailInTrouble(t *testing.T) {
	r := newRoom(t, "1\n")
	tail := Tail{File: doc, Max: 20}
	read := func() (lines string, err error) {
		err = tail.Read(r.Folder, func() { lines += "anew " }, func(line []byte, _ int64) { lines += string(line) })
		return lines, err
	}
	if got, err := read(); got != "1\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	r.do(os.Rename(r.path(doc), r.path("aside")))
	if got, err := read(); got != "" || !Missing(err) || r.Patience.Has(doc) {
		t.Errorf("missing: %q, %v", got, err)
	}
	r.do(os.Mkdir(r.path(doc), 0o755))
	if got, err := read(); got != "" || !errors.Is(err, jsonfile.ErrHostile) || len(r.Faults()) != 1 {
		t.Errorf("a folder: %q, %v, %+v", got, err, r.Faults())
	}
	r.do(errors.Join(os.Remove(r.path(doc)), os.Rename(r.path("aside"), r.path(doc)), os.WriteFile(r.path(doc), []byte("1\n2\n"), 0o644)))
	r.Begin(r.Now.Add(time.Second))
	if got, err := read(); got != "2\n" || err != nil || len(r.Faults()) > 0 {
		t.Errorf("it is back: %q, %v, %+v", got, err, r.Faults())
	}
	r.do(errors.Join(os.Rename(r.path(doc), r.path("aside")), os.WriteFile(r.path(doc), []byte("3\n"), 0o644)))
	if got, err := read(); got != "anew 3\n" || err != nil {
		t.Errorf("another one: %q, %v", got, err)
	}
	r.do(errors.Join(os.Rename(r.path(doc), r.path("older")), os.WriteFile(r.path(doc), []byte("3\n4\n"), 0o644)))
	if got, err := read(); got != "anew 3\n4\n" || err != nil {
		t.Errorf("another one that begins alike: %q, %v", got, err)
	}
}

func FuzzTail(f *testing.F) {
	f.Add("a\nb\n", "c\n\nd", 3)
	f.Add("", strings.Repeat("x", 60)+"\n\n", 50)
	f.Fuzz(func(t *testing.T, first, more string, cut int) {
		r := newRoom(t, "")
		tail := Tail{File: doc, Max: 32}
		var got strings.Builder
		all := first + more
		for _, text := range []string{first, first + more[:min(max(cut, 0), len(more))], all, all} {
			r.write(text)
			r.do(r.Open())
			r.do(tail.Read(r.Folder, func() { t.Error("anew") }, func(line []byte, _ int64) { got.Write(line) }))
		}
		if whole := all[:strings.LastIndex(all, "\n")+1]; longest(all) <= 32 && got.String() != whole {
			t.Errorf("%q, want %q", got.String(), whole)
		}
	})
}

// longest is the longest line's length.
func longest(text string) (n int) {
	for line := range strings.Lines(text) {
		n = max(n, len(line))
	}
	return n
}
