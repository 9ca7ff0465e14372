// Package terminal formats text for people: pages cut to the screen width, tables, colours, and foreign text made
// harmless.
package terminal

import (
	"fmt"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
)

// Style is how a cell looks on a terminal: the SGR code, "" for plain.
type Style string

const (
	Plain  Style = ""
	Bold   Style = "1"
	Dim    Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
)

// Styles are the styles of all state and severity words.
var Styles = map[string]Style{
	"alive": Green, "done": Green, "running": Green, "starting": Yellow, "late": Yellow, "paused": Yellow, "unknown": Dim,
	"dead": Red, "hung": Red, "failed": Red, "deferred": Yellow, "waiting": Yellow, "overdue": Yellow, "stale": Red,
	"critical": Red, "high": Yellow, "resolved": Dim, "missed": Red,
}

// Page collects text before it is written.
type Page struct {
	strings.Builder
	Width int
	Color bool
	Wraps bool // the last column of a table moves to its own line if it does not fit
	Now   time.Time
}

// UsualWidth is assumed for a terminal that does not report its width.
const UsualWidth = 100

// Unbounded is wider than any screen: lists for files and other programs are not shortened.
const Unbounded = 1 << 20

// Line prints a line, cut to the width. Foreign text in it must already be clean.
func (p *Page) Line(format string, args ...any) { p.Styled(Plain, format, args...) }

func (p *Page) Styled(s Style, format string, args ...any) {
	p.WriteString(p.Dye(Fit(fmt.Sprintf(format, args...), p.Width), s) + "\n")
}

// Full prints a line without cutting it.
func (p *Page) Full(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// Title starts a section of the page.
func (p *Page) Title(text string) { p.WriteString("\n" + p.Dye(text, Bold) + "\n") }

func (p *Page) Dye(text string, s Style) string {
	if !p.Color || s == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// Cell is one field of a table.
type Cell struct {
	Text  string
	Style Style
}

// Colored is a cell in a style.
func Colored(s string, look Style) Cell { return Cell{s, look} }

// Word is a cell whose style follows from its text.
func Word[S ~string](s S) Cell { return Cell{string(s), Styles[string(s)]} }

func Text(s string) Cell { return Cell{s, Plain} }

// MinLast is the minimum width of a table's last column.
const MinLast = 20

// Table prints rows in columns, under a head unless that is nil. It omits columns without any text. It cuts the last
// column to the remaining width, so that ids, which users copy, stay whole.
// See docs/decisions.md, "text/tabwriter is not used".
func (p *Page) Table(indent string, head []string, rows ...[]Cell) {
	widths := Measured(rows)
	if head != nil {
		row := make([]Cell, len(head))
		for i, h := range head {
			row[i] = Cell{h, Dim}
			if widths[i] > 0 {
				widths[i] = max(widths[i], Cells(h))
			}
		}
		rows = append([][]Cell{row}, rows...)
	}
	for _, row := range rows {
		p.Row(indent, row, widths)
	}
}

// Measured returns the widths of the columns, after cleaning every cell in place.
func Measured(rows [][]Cell) []int {
	var widths []int
	for _, row := range rows {
		for i := range row {
			row[i].Text = Clean(row[i].Text)
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], Cells(row[i].Text))
		}
	}
	return widths
}

// Spare empties columns, in the order given, until the last column has the width least: a table omits empty columns.
func (p *Page) Spare(rows [][]Cell, least int, columns ...int) {
	for _, column := range columns {
		used := 0
		for i, w := range Measured(rows) {
			switch {
			case i == len(rows[0])-1:
				used += min(w, least)
			case w > 0:
				used += w + 2
			}
		}
		if used <= p.Width {
			return
		}
		for _, row := range rows {
			row[column].Text = ""
		}
	}
}

func (p *Page) Row(indent string, row []Cell, widths []int) {
	line, used, owed := indent, Cells(indent), 0
	for i, c := range row {
		if widths[i] == 0 {
			continue
		}
		line, used = line+strings.Repeat(" ", owed), used+owed
		if i == len(row)-1 {
			if room := p.Width - used; p.Wraps && room < MinLast && Cells(c.Text) > max(room, 0) { // the next line has more room
				line = strings.TrimRight(line, " ") + "\n" + indent + "    "
				used = Cells(indent) + 4
			}
			c.Text = FitWords(c.Text, max(p.Width-used, MinLast))
		}
		line += p.Dye(c.Text, c.Style)
		used += Cells(c.Text)
		owed = widths[i] - Cells(c.Text) + 2
	}
	p.WriteString(strings.TrimRight(line, " ") + "\n")
}

// Fit truncates clean text to a number of terminal cells.
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

// FitWords is Fit that ends after a whole word, unless that would waste more than a third of the room.
func FitWords(s string, room int) string {
	cut := Fit(s, room)
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

// Ago is a relative time: "12 s ago", "in 5 min"; "" for none.
func (p *Page) Ago(t *time.Time) string {
	switch {
	case t == nil || t.IsZero():
		return ""
	case t.After(p.Now.Add(time.Second)):
		return "in " + Short(t.Sub(p.Now))
	}
	return Short(p.Now.Sub(*t)) + " ago"
}

// Soon is Ago for a future time: a time that has passed reads as now.
func (p *Page) Soon(t time.Time) string {
	if !t.After(p.Now.Add(time.Second)) {
		return "now"
	}
	return p.Ago(&t)
}

// Clock is a time of day, with its date unless it is today.
func (p *Page) Clock(t time.Time) string {
	t = t.In(p.Now.Location())
	if t.YearDay() == p.Now.YearDay() && t.Year() == p.Now.Year() {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}

// Short is a duration in its largest unit.
func Short(d time.Duration) string {
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

// Seconds is Short for a number of seconds, as documents hold durations.
func Seconds(s float64) string { return Short(time.Duration(s * float64(time.Second))) }

// Share formats a used share: "?" if unknown, never 0.
func Share(s protocol.Share) string {
	if !s.Known() {
		return "?"
	}
	return s.String()
}

// Plural is "1 task", "2 tasks".
func Plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
