package views

import (
	"strings"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
)

// History holds the used shares of the last minute per dimension.
type History map[string][]protocol.Share

// minuteOf is the number of readings kept.
const minuteOf = 60

func (h History) Add(c status.Capacity) {
	for _, d := range capacity.Dimensions() {
		list := append(h[d], ShareOf(c, d))
		h[d] = list[max(0, len(list)-minuteOf):]
	}
}

// levels are the characters that draw a share in eighths.
var levels = []rune("▁▂▃▄▅▆▇█")

func DrawHistory(p *terminal.Page, h History) {
	var rows [][]terminal.Cell
	for _, d := range capacity.Dimensions() {
		var line strings.Builder
		for _, s := range h[d] {
			v, known := s.Value()
			if !known {
				line.WriteByte(' ')
				continue
			}
			line.WriteRune(levels[min(int(v*float64(len(levels))), len(levels)-1)])
		}
		rows = append(rows, []terminal.Cell{terminal.Text(d), terminal.Text(line.String())})
	}
	Section(p, "The last minute", "", rows)
}
