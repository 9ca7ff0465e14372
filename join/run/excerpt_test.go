package run

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestExcerpt(t *testing.T) {
	for _, c := range []struct {
		keep     int
		in, want string
	}{
		{10, "0123456789", "0123456789"},
		{10, "0123456789a", "01234\n[… 1 bytes left out …]\n6789a"},
		{0, "abc", "\n[… 3 bytes left out …]\n"},
		{1, "abc", "a\n[… 2 bytes left out …]\n"},
		{0, "", ""},
		{100, "a\x00b\xff\xfec\xc3", "a\uFFFDb\uFFFDc\uFFFD"},
		{8, "abcéxyzÜabcd", "abc\n[… 7 bytes left out …]\nabcd"}, // é is cut in two
		{7, "abcd….xyz", "abcd\n[… 4 bytes left out …]\nxyz"},
	} {
		for size := 1; size <= 3; size++ {
			x := newExcerpt(c.keep)
			for i := 0; i < len(c.in); i += size {
				x.Write([]byte(c.in[i:min(i+size, len(c.in))]))
			}
			got := x.output()
			if got.Text != c.want || got.Bytes != int64(len(c.in)) || got.Cut != strings.Contains(c.want, "left out") {
				t.Errorf("keep %d of %q in pieces of %d: got %+v", c.keep, c.in, size, got)
			}
		}
	}
}

func TestExcerptOfAnything(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		x, keep := newExcerpt(0), r.IntN(40)
		x.keep = keep
		var all []byte
		for range r.IntN(8) {
			p := make([]byte, r.IntN(60))
			for i := range p {
				p[i] = byte(r.IntN(256))
			}
			all = append(all, p...)
			x.Write(p)
		}
		got := x.output()
		if !utf8.ValidString(got.Text) || strings.Contains(got.Text, "\x00") || got.Bytes != int64(len(all)) || got.Cut != (len(all) > keep) {
			t.Fatalf("keep %d of %q: got %+v", keep, all, got)
		}
		if got.Cut {
			tail := x.tail[len(x.tail)-keep/2:]
			if string(x.head) != string(all[:(keep+1)/2]) || string(tail) != string(all[len(all)-keep/2:]) {
				t.Fatalf("keep %d of %q: kept %q and %q", keep, all, x.head, tail)
			}
		}
	}
}
