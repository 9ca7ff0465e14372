package text

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                   "plain",
		" \n a\tb \r\n\r\nc\x00 ": "a b \nc",
		"a\u202eb\u2066c\u200f":   "abc",
		"\x1b[2Ja\u0085b\u2028c":  "[2Ja\nb\nc",
		"x\xffy\ufffe":            "x\ufffdy",
		"👩‍💻 ok":                  "👩‍💻 ok",
		"0123456789abc":           "012345678…",
	} {
		if got := Clean(in, 10); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func FuzzClean(f *testing.F) {
	for _, s := range []string{"", "a\x00b", "\xff\xfe", "\u202e[[[", strings.Repeat("é\n", 600)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, out := range []string{Clean(s, 20), Line(s, 20)} {
			if !utf8.ValidString(out) || utf8.RuneCountInString(out) > 20 {
				t.Errorf("%q", out)
			}
			for _, r := range out {
				if r != '\n' && unicode.IsControl(r) {
					t.Errorf("%q holds %U", out, r)
				}
			}
		}
		if strings.Contains(Line(s, 20), "\n") {
			t.Errorf("%q is more than a line", Line(s, 20))
		}
		if cut := Cut(s, 20); len(cut) > 20 && len(s) > 20 {
			t.Errorf("%q has %d bytes", cut, len(cut))
		}
	})
}
