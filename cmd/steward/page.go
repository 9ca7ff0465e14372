package main

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/join/task"
	"github.com/livhana/steward/protocol"
)

// style is how a cell looks on a terminal: the SGR code, "" for plain.
type style string

const (
	plain  style = ""
	bold   style = "1"
	dim    style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
)

// styles are the looks of the words of all states and severities.
var styles = map[string]style{
	"alive": green, "done": green, "running": green, "starting": yellow, "late": yellow, "paused": yellow, "unknown": dim,
	"dead": red, "hung": red, "failed": red, "deferred": yellow, "waiting": yellow, "overdue": yellow, "stale": red,
	"critical": red, "high": yellow, "resolved": dim, "missed": red,
}

// page gathers text for people before it is written.
type page struct {
	strings.Builder
	width int
	color bool
	wraps bool // the last column of a table goes on a line of its own where it has no room
	now   time.Time
}

func (a *app) page() *page {
	return &page{width: a.width(), color: a.isColored(), now: time.Now()}
}

func (a *app) isColored() bool {
	return !a.noColor && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && isTerminal(a.out)
}

// usualWidth is assumed of a terminal that does not say how wide it is.
const usualWidth = 100

// unbounded is a width that no screen has: lists for files and other programs are not shortened.
const unbounded = 1 << 20

// width is the room on a line. What goes to a file or another program is not cut: a grep should find it.
func (a *app) width() int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	f, ok := a.out.(*os.File)
	if !ok || !isTerminal(f) {
		return math.MaxInt
	}
	return cmp.Or(screenWidth(f), usualWidth)
}

// line prints a line, cut to the width. Foreign text in it must be clean.
func (p *page) line(format string, args ...any) { p.styled(plain, format, args...) }

func (p *page) styled(s style, format string, args ...any) {
	p.WriteString(p.dye(fit(fmt.Sprintf(format, args...), p.width), s) + "\n")
}

// full prints a line that is never cut.
func (p *page) full(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// title begins a part of the page.
func (p *page) title(text string) { p.WriteString("\n" + p.dye(text, bold) + "\n") }

func (p *page) dye(text string, s style) string {
	if !p.color || s == plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// cell is one field of a table.
type cell struct {
	text  string
	style style
}

// word is a cell whose look follows from what it says.
func word[S ~string](s S) cell { return cell{string(s), styles[string(s)]} }

func text(s string) cell { return cell{s, plain} }

// minLast is the least room for the last column of a table.
const minLast = 20

// table prints rows in columns, under a head unless that is nil. Columns without any text are left out. The last
// column is cut to the room that is left, so that ids, which people copy, stay whole.
func (p *page) table(indent string, head []string, rows ...[]cell) {
	widths := measured(rows)
	if head != nil {
		row := make([]cell, len(head))
		for i, h := range head {
			row[i] = cell{h, dim}
			if widths[i] > 0 {
				widths[i] = max(widths[i], cells(h))
			}
		}
		rows = append([][]cell{row}, rows...)
	}
	for _, row := range rows {
		p.row(indent, row, widths)
	}
}

// measured gives the widths of the columns, after cleaning every cell in place.
func measured(rows [][]cell) []int {
	var widths []int
	for _, row := range rows {
		for i := range row {
			row[i].text = clean(row[i].text)
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], cells(row[i].text))
		}
	}
	return widths
}

// spare empties columns, in the order given, until the last column has that much room: a table leaves out empty columns.
func (p *page) spare(rows [][]cell, least int, columns ...int) {
	for _, column := range columns {
		used := 0
		for i, w := range measured(rows) {
			switch {
			case i == len(rows[0])-1:
				used += min(w, least)
			case w > 0:
				used += w + 2
			}
		}
		if used <= p.width {
			return
		}
		for _, row := range rows {
			row[column].text = ""
		}
	}
}

func (p *page) row(indent string, row []cell, widths []int) {
	line, used, owed := indent, cells(indent), 0
	for i, c := range row {
		if widths[i] == 0 {
			continue
		}
		line, used = line+strings.Repeat(" ", owed), used+owed
		if i == len(row)-1 {
			if room := p.width - used; p.wraps && room < minLast && cells(c.text) > max(room, 0) { // the next line has more room
				line = strings.TrimRight(line, " ") + "\n" + indent + "    "
				used = cells(indent) + 4
			}
			c.text = fitWords(c.text, max(p.width-used, minLast))
		}
		line += p.dye(c.text, c.style)
		used += cells(c.text)
		owed = widths[i] - cells(c.text) + 2
	}
	p.WriteString(strings.TrimRight(line, " ") + "\n")
}

// fit cuts clean text to a number of screen cells.
func fit(s string, room int) string { return task.Fit(s, room) }

// fitWords is fit that ends after a whole word, unless that would take more than a third of the room.
func fitWords(s string, room int) string {
	cut := fit(s, room)
	if cut == s {
		return s
	}
	text := strings.TrimSuffix(cut, "…")
	if next := s[len(text):]; strings.HasPrefix(next, " ") {
		return cut
	}
	if at := strings.LastIndexByte(text, ' '); 3*at > 2*len(text) {
		return strings.TrimRight(text[:at], " ,;:") + "…"
	}
	return cut
}

func cells(s string) int { return task.Cells(s) }

// ago is a moment as people say it: "12 s ago", "in 5 min"; "" for none.
func (p *page) ago(t *time.Time) string {
	switch {
	case t == nil || t.IsZero():
		return ""
	case t.After(p.now.Add(time.Second)):
		return "in " + short(t.Sub(p.now))
	}
	return short(p.now.Sub(*t)) + " ago"
}

// soon is ago for what is to come: what is due already comes now.
func (p *page) soon(t time.Time) string {
	if !t.After(p.now.Add(time.Second)) {
		return "now"
	}
	return p.ago(&t)
}

// clock is a moment as the clock on the wall shows it, with its date unless it is of today.
func (p *page) clock(t time.Time) string {
	t = t.In(p.now.Location())
	if t.YearDay() == p.now.YearDay() && t.Year() == p.now.Year() {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}

// short is a duration in its largest unit.
func short(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d d", int(d.Hours()/24))
}

// seconds is short for a number of seconds, as documents hold durations.
func seconds(s float64) string { return short(time.Duration(s * float64(time.Second))) }

// share is a used share for people: "?" when it is unknown, never 0.
func share(s protocol.Share) string {
	if !s.Known() {
		return "?"
	}
	return s.String()
}

// plural is "1 task", "2 tasks".
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
