package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/status/views"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
)

// print writes v as one JSON document. A json.RawMessage keeps its key order.
func (a *app) print(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write the document: %w", err)
	}
	return a.write(terminal.Guarded(b.String()))
}

func (a *app) write(text string) error {
	if _, err := io.WriteString(a.out, text); err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	return nil
}

// onceDone is the result of a single scan.
type onceDone struct {
	Done     []supervisor.Done          `json:"done"`
	Faults   []protocol.Fault           `json:"faults"`
	Findings []supervisor.FindingReport `json:"findings"`
}

// printDone prints the result of a single scan.
func (a *app) printDone(p *supervisor.State) error {
	once := onceDone{Done: []supervisor.Done{}, Faults: []protocol.Fault{}, Findings: []supervisor.FindingReport{}}
	if p != nil {
		once.Done = append(once.Done, p.Done...)
		for _, project := range p.Report().Projects {
			once.Faults = append(once.Faults, project.Faults...)
			once.Findings = append(once.Findings, project.Findings...)
		}
	}
	if a.output == "json" {
		return a.print(once)
	}
	pg := a.page()
	for _, f := range once.Faults {
		pg.Line("cannot use %s: %s", terminal.Clean(f.Path), terminal.Clean(f.Problem))
	}
	for _, f := range once.Findings {
		pg.Line("finding    %s", views.FindingLine(f.Severity, f.Subject, f.Field, f.Path, f.Text))
	}
	if len(once.Done) == 0 {
		pg.Line("nothing to do")
	}
	for _, d := range once.Done {
		pg.Line("%s %s: %s", d.Verb, terminal.Clean(d.Subject), terminal.Clean(d.Why))
	}
	return a.write(pg.String())
}

func (a *app) page() *terminal.Page {
	return &terminal.Page{Width: a.width(), Color: a.isColored(), Now: time.Now()}
}

func (a *app) isColored() bool {
	return !a.noColor && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && terminal.IsTerminal(a.out)
}

// width is the line width. Output to a file or another program is not truncated, so that grep finds it.
func (a *app) width() int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	f, ok := a.out.(*os.File)
	if !ok || !terminal.IsTerminal(f) {
		return math.MaxInt
	}
	return cmp.Or(terminal.ScreenWidth(f), terminal.UsualWidth)
}
