package config

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestLineIndex(t *testing.T) {
	text := `# a comment with [brackets] and "quotes
top = 1
"a b".c = '''
[not] = "a table"
'''
[one]  # after
two.three = { four = [1, # one
  2], five = "x = 1 # no comment" }
[[rows]]
k = "\"] \\"
[[rows]]
[rows.sub]
k = ["""
a""", "]" ]
[[rows.deep]]
k = 1
[[rows.deep]]
"q.r" = 1
inline = [ {x = 1},
           {x = 2} ]
`
	lines, _ := lineIndex(text)
	for at, want := range map[keyPath]int{
		"top": 2, `"a b".c`: 3, "one": 6, "one.two": 7, "one.two.three.four": 7, "one.two.three.four[1]": 8,
		"one.two.three.five": 8, "rows[0]": 9, "rows[0].k": 10, "rows[1]": 11, "rows[1].sub": 12, "rows[1].sub.k": 13,
		"rows[1].sub.k[1]": 14, "rows[1].deep[0].k": 16, "rows[1].deep[1]": 17, `rows[1].deep[1]."q.r"`: 18,
		"rows[1].deep[1].inline[0].x": 19, "rows[1].deep[1].inline[1].x": 20,
	} {
		if lines[at] != want {
			t.Errorf("%s: line %d, want %d", string(at), lines[at], want)
		}
	}
	for at := range lines {
		if strings.Contains(string(at), "not") || strings.Contains(string(at), "brackets") {
			t.Errorf("%q stands in a text", string(at))
		}
	}
	if n := keyPath("rows[1].deep[7].nothing").line(lines); n != 15 {
		t.Errorf("what has no line of its own is at %d, want that of what is around it, 15", n)
	}
}

// checkLines compares the index with the library: every key that the library found has a line, and that line contains
// the last part of the key.
func checkLines(t *testing.T, data []byte) {
	s, err := read("F", data)
	if err != nil {
		return
	}
	text := strings.Split(string(data), "\n")
	var walk func(v any, at keyPath)
	walk = func(v any, at keyPath) {
		if _, ok := s.lines[at]; !ok && at != "" {
			t.Errorf("no line for %q", string(at))
		} else if n := s.lines[at]; n < 0 || n > len(text) {
			t.Errorf("%q is at line %d of %d", string(at), n, len(text))
		}
		if table, ok := v.(map[string]any); ok {
			for key, below := range table {
				walk(below, at.key(key))
				if n := s.lines[at.key(key)]; n > 0 && isPlain(key) && !strings.Contains(text[n-1], key) && !strings.Contains(text[n-1], `\`) {
					t.Errorf("%q is not on its line %d: %q", key, n, text[n-1])
				}
			}
			return
		}
		if list := reflect.ValueOf(v); list.Kind() == reflect.Slice {
			for i := range list.Len() {
				walk(list.Index(i).Interface(), at.entry(i))
			}
		}
	}
	walk(s.tree, "")
}

func isPlain(key string) bool { return string(keyPath("").key(key)) == key }

func TestNearest(t *testing.T) {
	words := []string{"late", "dead", "start_grace", "resume_grace"}
	for _, c := range []struct{ word, want string }{
		{"deed", "dead"}, {"daed", "dead"}, {"Dead", "dead"}, {"dea", "dead"}, {"deads", "dead"}, {"start-grace", "start_grace"},
		{"startgrace", "start_grace"}, {"resume_grade", "resume_grace"}, {"alive", ""}, {"", ""}, {"x", ""},
		{strings.Repeat("dead", 1000), ""},
	} {
		if got, ok := nearest(c.word, words); got != c.want || ok != (c.want != "") {
			t.Errorf("%.20s: got %q, want %q", c.word, got, c.want)
		}
	}
}

func TestEdits(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"abc", "ab", 1}, {"kitten", "sitting", 3}, {"ca", "abc", 3}} {
		for _, pair := range [][2]string{{c.a, c.b}, {c.b, c.a}} {
			if got := edits(pair[0], pair[1]); got != c.want {
				t.Error(fmt.Sprint(pair, " ", got, ", want ", c.want))
			}
		}
	}
}
