package desktop

import (
	"strings"
	"testing"
)

func TestSentence(t *testing.T) {
	for in, want := range map[string]string{
		"-w /etc/passwd":          "-w /etc/passwd",
		"Failed\nNext step!\n\nx": "Failed. Next step! x",
		"[[volm 0]] hello [[[":    "[ [volm 0]] hello [ [ [",
		"\x00 \u202e":             "",
	} {
		if got := sentence(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func FuzzSentence(f *testing.F) {
	for _, s := range []string{"", "a\x00b", "\xff\xfe", "\u202e[[[", strings.Repeat("é\n", 600)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if strings.Contains(sentence(s), "[[") {
			t.Errorf("%q holds an instruction", sentence(s))
		}
	})
}
