package task

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/status/terminal"
)

// barCells is the bar's width; on a narrow terminal it shrinks in favour of the text.
const barCells = 24

// Bar is one progress line of a task: a bar, percent, step, time elapsed and time left. It has at most width cells and
// no control characters.
func Bar(d agentstatus.Detail, since, now time.Time, width int) string {
	line := []string{Standing(d), Span(now.Sub(since))}
	if p := d.Progress; p != nil && d.State == agentstatus.StateRunning {
		head := fmt.Sprintf("%s %3.0f %%", gauge(p.Percent, min(barCells, width/4)), math.Floor(within(p.Percent)))
		line = []string{head, steps(p), terminal.Clean(p.Step), line[1]}
		if left := p.Estimated.Sub(now); !p.Estimated.IsZero() && left > 0 {
			line = append(line, "about "+Span(left)+" left")
		}
	}
	return terminal.Fit(joined("  ", line...), width)
}

func percent(p *agentstatus.TaskProgress) string { return fmt.Sprintf("%.0f %%", within(p.Percent)) }

func steps(p *agentstatus.TaskProgress) string {
	if p.Total <= 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", p.Done, p.Total)
}

// gauge draws a percentage as a bar.
func gauge(percent float64, room int) string {
	room = max(room, 4)
	n := int(within(percent) / 100 * float64(room))
	return "[" + strings.Repeat("#", n) + strings.Repeat(".", room-n) + "]"
}

// within clamps a percentage read from a file to 0 to 100.
func within(percent float64) float64 {
	if math.IsNaN(percent) {
		return 0
	}
	return min(max(percent, 0), 100)
}

// Span formats a duration for people: "42 s", "3 min 5 s", "2 h 10 min".
func Span(d time.Duration) string {
	d = max(d, 0).Round(time.Second)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour && d%time.Minute == 0:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	case d%time.Hour < time.Minute:
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
}
