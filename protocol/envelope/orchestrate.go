package envelope

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// director is the ORCHESTRATOR: it carries out duties.
type director struct{ *Client }

// mostDuties bounds the duties of one call. More are due at the next one.
const mostDuties = 1000

// Orchestrate does what the ORCHESTRATOR must do now: it validates completions, and hands a pipeline on to the next roles.
// A duty that fails does not stop the others. Errors: ErrAbsent, and those of writing.
func (c *Client) Orchestrate(ctx context.Context, now time.Time) (sent []protocol.Receipt, err error) {
	c.p.opts.Validate, c.p.board.validate = true, true
	d, failed := director{c}, []error{}
	err = c.guarded(ctx, now, func() error {
		tried := map[string]bool{}
		for len(tried) < mostDuties {
			next := c.p.view().duties()
			i := slices.IndexFunc(next, func(k duty) bool { return !tried[k.key()] })
			if i < 0 {
				return errors.Join(failed...)
			}
			tried[next[i].key()] = true
			id, file, note, err := d.carryOut(next[i])
			if err != nil {
				failed = append(failed, fmt.Errorf("task %s: %w", next[i].task.id, err))
				continue
			}
			r := c.receipt(id, file)
			r.Note = note
			sent = append(sent, r)
		}
		return errors.Join(failed...)
	})
	return sent, err
}

func (k duty) key() string { return fmt.Sprint(k.act, " ", k.task.id, " ", k.id) }

// carryOut does one duty, with a single write. It returns the task, the file, and what was done.
func (d director) carryOut(k duty) (id, file, note string, err error) {
	t := k.task
	about := &reporter{d.Client, t, protocol.Report{Agent: orchestrator}}
	switch id = t.id; k.act {
	case actAcknowledge:
		l := newLetter("TASK_ACKNOWLEDGMENT", id, orchestrator).set("status", "acknowledged").set("timestamp", d.stamp(t))
		l.set("estimated_completion", nil).set("understood", true)
		note = "taken on: " + strings.Join(t.assigned.assignment.pipeline, ", ")
		file, err = d.send("acknowledgment", l.set("clarifications_needed", []string{}), t.assigned.inLog())
	case actAssign:
		id, note = k.id, "assigned to "+k.role
		file, err = d.assign(k)
	case actFinish:
		note = "complete"
		file, err = d.finish(t)
	case actApprove:
		note = "approved"
		file, err = about.approve()
	case actReject:
		note = "rejected: " + strings.Join(k.issue, "; ")
		about.r.Summary, about.r.Issues = strings.Join(k.issue, "; "), d.issues(t)
		about.r.Next = []string{"Fix the issues listed, and say in the summary what was fixed"}
		file, err = about.reject()
	case actAsk:
		note = "asked the human: " + k.issue[0]
		about.r.Summary, about.r.Options, about.r.To = k.issue[0], k.issue[1:], "human"
		file, err = about.escalate("technical_blocker", protocol.High)
	}
	return id, file, note, err
}

// object reads a message again; an empty object if it has changed.
func (d director) object(m *message) jsonfile.Object {
	text, _ := m.text(d.p.Root)
	o, _ := jsonfile.Parse(text)
	return o
}

// issues lists what a completion reports as open, and its criteria that are not met.
func (d director) issues(t *task) []string {
	list := slices.Clone(t.done.output.issues)
	validation, _ := d.object(t.done).Object("validation")
	met, _ := validation.Array("acceptance_criteria_met")
	criteria, _ := d.object(t.assigned).Strings("acceptance_criteria")
	for i := range min(len(met), len(criteria)) {
		if denies(met[i]) {
			list = append(list, "Not met: "+criteria[i])
		}
	}
	return list
}

// part is what the document says about a role's work in the pipeline.
type part struct{ name, requirement, criterion string }

var parts = map[string]part{
	"ARCHITECT":        {"Design the system architecture", "Design the system architecture", "✓ The architecture covers every requirement"},
	"DESIGNER":         {"Create UI specifications", "Create the UI specifications from the architecture", "✓ The specifications cover every requirement"},
	"DEVELOPER":        {"Implement the components", "Implement the components as the architecture and the specifications say", ""},
	"INTEGRATIONS":     {"Build the API providers", "Build the API providers as the architecture says", ""},
	"TESTING":          {"Write tests", "Write tests for the new code, and run them", "✓ The tests pass"},
	"SECURITY_AUDITOR": {"Security review", "", ""},
	"DOCUMENTATION":    {"Document the features", "Document the features", "✓ Every feature is documented"},
	"DEPLOYMENT":       {"Deploy to staging", "Deploy to staging", "✓ The deployment to staging works"},
}

// assign sends the next assignment of a pipeline. Its requirements are those of the pipeline, and the role's part in it.
func (d director) assign(k duty) (string, error) {
	p, is := k.task, parts[k.role]
	whole := d.object(p.assigned)
	requirements, _ := whole.Strings("requirements")
	criteria, _ := whole.Strings("acceptance_criteria")
	related := []string{p.id}
	for _, t := range k.after {
		related = append(related, t.id)
	}
	title := is.name
	switch {
	case k.fixes != nil:
		title, requirements, criteria = "Fix what "+k.fixes.id+" found", d.found(k.fixes), []string{"✓ Every issue of the review is fixed"}
	case k.role == "SECURITY_AUDITOR":
		requirements, criteria = reviewRequirements, reviewCriteria
	case is.criterion != "":
		requirements, criteria = slices.Insert(requirements, 0, is.requirement), []string{is.criterion}
	case is.requirement != "":
		requirements = slices.Insert(requirements, 0, is.requirement)
	}
	if title != "Deploy to staging" {
		title = strings.TrimPrefix(title+": "+p.assigned.assignment.title, ": ")
	}
	l := newLetter("TASK_ASSIGNMENT", k.id, orchestrator).set("to_agent", k.role).set("timestamp", d.stamp(nil)).set("task_name", title)
	priority, _ := whole.String("priority")
	l.set("priority", priority).set("requirements", requirements).set("acceptance_criteria", criteria)
	if k.role == "SECURITY_AUDITOR" {
		l.set("files_to_review", d.delivered(p))
	}
	if context, ok := whole.Object("context"); ok.OK() {
		l.set("context", context)
	}
	l.set("context.project", p.project())
	return d.send("assignment", l.set("blocked_by", nil).set("related_tasks", related), p.assigned.inLog())
}

// found lists what a security review found, the most severe first.
func (d director) found(review *task) (list []string) {
	output, _ := d.object(review.done).Object("output")
	for _, severity := range severities {
		items, _ := output.Array(severity + "_issues")
		for _, item := range items {
			text, ok := item.Text()
			if !ok.OK() {
				text = string(item.Raw())
			}
			list = append(list, severity+": "+folder.Line(text, maxLong))
		}
	}
	recommendations, _ := output.Strings("recommendations")
	if list = slices.Concat(list, review.done.output.issues, recommendations); len(list) == 0 {
		list = []string{"Fix what the review " + review.id + " found: " + review.done.output.summary}
	}
	return list
}

// delivered lists the files that the tasks of a pipeline delivered; everything if they name none.
func (d director) delivered(p *task) (files []string) {
	for _, role := range []string{"DEVELOPER", "INTEGRATIONS", "TESTING"} {
		for _, t := range d.p.view().playing(p, role) {
			if t.done != nil {
				files = append(files, t.done.output.files...)
			}
		}
	}
	if slices.Sort(files); len(files) == 0 {
		files = []string{"."}
	}
	return slices.Compact(files)
}

// finish completes a pipeline: all its steps are approved.
func (d director) finish(p *task) (string, error) {
	met := make([]bool, max(p.assigned.assignment.criteria, 0))
	for i := range met {
		met[i] = true
	}
	l := newLetter("TASK_COMPLETION", p.id, orchestrator).set("status", "completed").set("timestamp", d.stamp(p))
	l.set("output.files", d.delivered(p)).set("output.summary", "Every step is approved: "+strings.Join(p.assigned.assignment.pipeline, ", "))
	l.set("validation.acceptance_criteria_met", met).set("validation.all_passed", true).set("validation.issues", []string{})
	return d.send("completion", l.set("next_steps", []string{}), p.assigned.inLog())
}
