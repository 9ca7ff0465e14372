package terminal

import (
	"strings"
	"testing"
)

// A picture never scrolls: what does not fit is counted, and each line clears what a longer one left behind.
func TestClip(t *testing.T) {
	for _, c := range []struct {
		rows int
		want string
	}{{9, "a|b|c|d"}, {4, "a|b|c|d"}, {3, "a|b|… 2 more lines"}, {2, "a|… 3 more lines"}} {
		got := clip("a\nb\nc\nd\n", c.rows)
		if strings.ReplaceAll(strings.TrimSuffix(got, "\x1b[K"), "\x1b[K\n", "|") != c.want {
			t.Errorf("%d rows: %q", c.rows, got)
		}
	}
}
