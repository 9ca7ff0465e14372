package folder

import (
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/livhana/steward/protocol/jsonfile"
)

func TestFaults(t *testing.T) {
	r := newRoom(t, `{}`)
	began := r.Now
	first := r.Fault(nil, "log", &jsonfile.Error{Op: "append", Path: strings.Repeat("x", 1000), Hint: "make room", Err: jsonfile.ErrNoSpace})
	if first.Path != base+"/log" || first.Hint != "make room" || !first.Since.Equal(began) || len([]rune(first.Problem)) != problemLimit {
		t.Errorf("%+v", first)
	}
	r.Begin(began.Add(time.Minute))
	if then := r.Fault(first, "log", jsonfile.ErrPermission); !then.Since.Equal(began) || then.Problem != jsonfile.ErrPermission.Error() {
		t.Errorf("%+v", then)
	}
	for _, name := range []string{"b", "a\nb"} {
		r.Patience.Refuse(name, "says\tnothing", "")
	}
	list := r.Faults()
	if len(list) != 2 || list[0].Path != base+`/a\nb` || list[1].Path != base+"/b" || list[1].Problem != "says nothing" || !list[1].Since.Equal(r.Now) {
		t.Errorf("%+v", list)
	}
}

func FuzzLine(f *testing.F) {
	for _, s := range []string{"", "plain", "two\nlines\u2028three", "\xff\x00", "ü€😀", strings.Repeat("ü", 50)} {
		f.Add(s, 10)
	}
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = 1 + int(uint(limit)%1000)
		line := Line(s, limit)
		if utf8.RuneCountInString(line) > limit || !utf8.ValidString(line) || strings.ContainsFunc(line, unicode.IsControl) || Line(line, limit) != line {
			t.Errorf("%q", line)
		}
		shown := (&Folder{opts: Options{Base: base}}).Shown(s)
		if strings.ContainsFunc(shown, unicode.IsControl) || !utf8.ValidString(shown) {
			t.Errorf("%q is shown as %q", s, shown)
		}
	})
}
