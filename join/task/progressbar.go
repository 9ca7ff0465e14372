package task

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/livhana/steward/protocol/agentstatus"
)

// barCells is the bar's width; on a narrow terminal it shrinks in favour of the text.
const barCells = 24

// Bar is one progress line of a task: a bar, percent, step, time elapsed and time left. It has at most width cells and
// no control characters.
func Bar(d agentstatus.Detail, since, now time.Time, width int) string {
	head, rest := Standing(d), []string{"", "", Span(now.Sub(since))}
	if p := d.Progress; p != nil && d.State == StateRunning {
		head = fmt.Sprintf("%s %3.0f %%", gauge(p.Percent, min(barCells, width/4)), math.Floor(within(p.Percent)))
		rest[0], rest[1] = steps(p), Plain(p.Step)
		if left := p.Estimated.Sub(now); !p.Estimated.IsZero() && left > 0 {
			rest = append(rest, "about "+Span(left)+" left")
		}
	}
	line := head
	for _, part := range rest {
		if part != "" {
			line += "  " + part
		}
	}
	return Fit(line, width)
}

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

// Plain returns untrusted text on one line, without characters that move the cursor, ring the bell, hide text or change
// its reading order.
func Plain(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.Is(unicode.Cf, r):
			return -1
		case r == utf8.RuneError, !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, s)
	return strings.Join(strings.Fields(s), " ")
}

// Fit truncates plain text to a number of terminal cells.
func Fit(s string, width int) string {
	if Cells(s) <= width {
		return s
	}
	used := 0
	for i, r := range s {
		if used += runeCells(r); used > width-1 {
			return strings.TrimRight(s[:i], " ") + "…"
		}
	}
	return s
}

// Cells is the number of terminal cells that a text takes.
func Cells(s string) int {
	n := 0
	for _, r := range s {
		n += runeCells(r)
	}
	return n
}

// runeCells is the width of a rune: combining marks take no cell, East Asian scripts and pictographs take two.
func runeCells(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3, r >= 0xf900 && r <= 0xfaff,
		r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60, r >= 0xffe0 && r <= 0xffe6, r >= 0x1f300 && r <= 0x1faff,
		r >= 0x20000 && r <= 0x3fffd:
		return 2
	}
	return 1
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
