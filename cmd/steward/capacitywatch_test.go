package main

import (
	"strings"
	"testing"

	"github.com/livhana/steward/status/terminal"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/supervisor"
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

// Without a terminal there is nothing to draw on.
func TestWatchNeedsATerminal(t *testing.T) {
	atHome(t)
	for _, args := range [][]string{{"status", "--watch"}, {"status", "--watch", "-o", "json"}} {
		if code, _, errOut := invoke(args...); code != exitUsage || !strings.Contains(errOut, "steward status -o json") {
			t.Errorf("%q: exit %d, %s", args, code, errOut)
		}
	}
}

func TestHistory(t *testing.T) {
	h := history{}
	for i := range 100 {
		c := status.Capacity{Load: supervisor.LoadReport{CPU: protocol.Used(float64(i) / 99)}}
		h.add(c)
	}
	p := &terminal.Page{Width: 200}
	drawHistory(p, h)
	line := strings.Split(p.String(), "\n")[2]
	if n := strings.Count(line, "█"); n < 7 || n > 14 || !strings.HasSuffix(line, "█") || len([]rune(strings.TrimSpace(line))) != len("cpu     ")+minuteOf {
		t.Errorf("%q", line)
	}
	if strings.Contains(p.String(), "memory  ▁") {
		t.Error("what cannot be read is drawn")
	}
}
