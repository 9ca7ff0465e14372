package views

import (
	"time"

	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
)

// Plan prints what a plan would do. Its lines are not cut.
func Plan(page *terminal.Page, p status.Plan) {
	for _, v := range p.Verdicts {
		due := ""
		if v.Due != nil {
			due = "  (re-evaluated at " + v.Due.Local().Format(time.TimeOnly) + ")"
		}
		page.Full("%-10s %s: %s%s", v.State, terminal.OneWord(v.Subject), terminal.OneWord(v.Why), due)
	}
	for _, f := range p.Faults {
		page.Full("fault      %s: %s", terminal.OneWord(f.Path), terminal.OneWord(f.Problem))
	}
	for _, f := range p.Findings {
		page.Full("finding    %s", FindingLine(f.Severity, f.Subject.String(), f.Field, f.Path, f.Text))
	}
	if len(p.Changes)+len(p.Alerts)+len(p.Waiting) == 0 {
		page.Full("nothing to do")
	}
	for _, c := range p.Changes {
		page.Full("would %s %s: %s", c.Verb, terminal.OneWord(c.Subject.String()), terminal.OneWord(c.Why))
	}
	for _, c := range p.Waiting {
		page.Full("would, if it might, %s %s: %s", c.Verb, terminal.OneWord(c.Subject.String()), terminal.OneWord(c.Why))
	}
	for _, al := range p.Alerts {
		what := "tell"
		if al.Resolve {
			what = "resolve"
		}
		page.Full("would %s (%s): %s", what, al.Severity, terminal.OneWord(al.Summary))
	}
}
