package views

import (
	"strings"
	"testing"

	"github.com/livhana/steward/status/terminal"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/supervisor"
)

func TestHistory(t *testing.T) {
	h := History{}
	for i := range 100 {
		c := status.Capacity{Load: supervisor.LoadReport{CPU: protocol.Used(float64(i) / 99)}}
		h.Add(c)
	}
	p := &terminal.Page{Width: 200}
	DrawHistory(p, h)
	line := strings.Split(p.String(), "\n")[2]
	if n := strings.Count(line, "█"); n < 7 || n > 14 || !strings.HasSuffix(line, "█") || len([]rune(strings.TrimSpace(line))) != len("cpu     ")+minuteOf {
		t.Errorf("%q", line)
	}
	if strings.Contains(p.String(), "memory  ▁") {
		t.Error("what cannot be read is drawn")
	}
}
