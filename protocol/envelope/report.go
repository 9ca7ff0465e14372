package envelope

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Accept takes a free task for its agent and sends a TASK_ACKNOWLEDGMENT. The worker's process goes on record first: if it
// ends without a report, the daemon makes the task free again. Errors: ErrNoTask, ErrEnded, ErrTaken,
// *protocol.InvalidError, or what the task waits for.
func (c *Client) Accept(ctx context.Context, id string, a protocol.Acceptance, now time.Time) (protocol.Receipt, error) {
	return c.on(ctx, id, now, func(t *task) (string, error) {
		k := t.claim()
		again := k != nil && k.Worker.Proves() && k.Worker == a.Worker // a crash came before the acknowledgement, or after a question
		switch {
		case !plain(a.Agent):
			return "", folder.Refuse("%q is not a valid agent name", folder.Line(a.Agent, 80))
		case t.over():
			return "", fmt.Errorf("task %s: %w", id, protocol.ErrEnded)
		case !t.assigned.isFor(a.Agent):
			return "", fmt.Errorf("task %s is assigned to %s: %w", id, t.assigned.to, protocol.ErrTaken)
		case !again && !c.free(t):
			return "", fmt.Errorf("task %s is %s: %w", id, cmp.Or(string(t.stage), "in hand"), protocol.ErrTaken)
		case c.waits(t) != "" && !(again && !k.Waiting):
			return "", fmt.Errorf("task %s %s", id, c.waits(t))
		}
		if again && !k.Waiting && t.stage == stageAcknowledged {
			return workFile(id), nil
		}
		l := newLetter("TASK_ACKNOWLEDGMENT", id, a.Agent).set("status", "acknowledged").set("timestamp", c.stamp(t))
		l.set("estimated_completion", nil).set("understood", len(a.Questions) == 0).set("clarifications_needed", a.Questions)
		if a.Estimate != "" {
			l.set("estimated_completion", a.Estimate)
		}
		if err := l.override(nil, a.Fields); err != nil {
			return "", err
		}
		o, _, err := l.encode()
		if err != nil {
			return "", err
		}
		if a.Worker.Proves() || t.work != nil || len(a.Questions) > 0 {
			next := c.p.works.withdraw(t, 0)
			next.Agent, next.Worker, next.Round, next.Waiting = a.Agent, a.Worker, t.opener().sum, len(a.Questions) > 0
			if next.Waiting {
				next.Withdrawn = append(next.Withdrawn, folder.ContentSum(o.Value()))
			}
			if err := c.p.works.put(next); err != nil {
				return "", err
			}
		}
		return c.send("acknowledgment", l, t.assigned.inLog())
	})
}

// reports carry out the kinds of report. Each returns the file that it wrote.
var reports = map[protocol.ReportKind]func(*reporter) (string, error){
	protocol.ReportProgress: (*reporter).progress, protocol.ReportDone: (*reporter).complete, protocol.ReportFailed: (*reporter).fail,
	protocol.ReportRejected: (*reporter).reject, protocol.ReportApproved: (*reporter).approve, protocol.ReportBlocked: (*reporter).block,
	protocol.ReportCancel: (*reporter).cancel, protocol.ReportReturned: (*reporter).giveBack,
}

// Report sends what an agent or the orchestrator says about a task:
//
//   - done, and failed with something to show: TASK_COMPLETION; of SECURITY_AUDITOR with its verdict
//   - failed otherwise, blocked, and rejected by its own agent: BLOCKER_ESCALATION
//   - rejected by the orchestrator: TASK_REJECTION; cancelled: BLOCKER_RESOLUTION that stops the task
//   - approved, progress, returned: a record of steward's own, because the document has no message for them
//
// Errors: ErrNoTask, ErrEnded, ErrTaken if another agent reports, ErrUnsupported, *protocol.InvalidError.
func (c *Client) Report(ctx context.Context, id string, r protocol.Report, now time.Time) (protocol.Receipt, error) {
	return c.on(ctx, id, now, func(t *task) (string, error) {
		carryOut := reports[r.Kind]
		if r.Agent == "" {
			r.Agent = impliedAgent(t, r.Kind)
		}
		byOthers := r.Kind == protocol.ReportApproved || r.Kind == protocol.ReportCancel || r.Kind == protocol.ReportRejected
		switch {
		case carryOut == nil:
			return "", fmt.Errorf("report %q: %w", r.Kind, protocol.ErrUnsupported)
		case !plain(r.Agent):
			return "", folder.Refuse("%q is not a valid agent name", folder.Line(r.Agent, 80))
		case t.cancelled != nil, t.over() && r.Kind != protocol.ReportApproved && (r.Kind != protocol.ReportRejected || t.done == nil || t.assigned.isFor(r.Agent)):
			return "", fmt.Errorf("task %s: %w", id, protocol.ErrEnded)
		case !byOthers && !t.assigned.isFor(r.Agent):
			return "", fmt.Errorf("task %s is assigned to %s: %w", id, t.assigned.to, protocol.ErrTaken)
		case !byOthers && r.Kind != protocol.ReportDone && t.stage == stageReview:
			return "", fmt.Errorf("task %s awaits review: %w", id, protocol.ErrEnded)
		case r.Kind == protocol.ReportDone && c.free(t) && c.waits(t) != "":
			return "", fmt.Errorf("task %s %s", id, c.waits(t))
		}
		return carryOut(&reporter{c, t, r})
	})
}

// impliedAgent is the agent of a report that names none: the author of the assignment for a verdict on the result, else its agent.
func impliedAgent(t *task, kind protocol.ReportKind) string {
	if result := t.done != nil && t.stage != stageAcknowledged; kind == protocol.ReportRejected && result || kind == protocol.ReportApproved || kind == protocol.ReportCancel {
		return cmp.Or(t.assigned.from, orchestrator)
	}
	return t.assigned.to
}

// reporter carries out one report about a task.
type reporter struct {
	*Client
	t *task
	r protocol.Report
}

// reply sends a message about a task.
func (c *reporter) reply(kind string, l *letter) (string, error) {
	if err := l.override(c.r.Document, c.r.Fields); err != nil {
		return "", err
	}
	return c.send(kind, l.set("from_agent", c.r.Agent), c.t.assigned.inLog())
}

// progress notes how far the work is. A claim stays as it is.
func (c *reporter) progress() (string, error) {
	if c.r.Percent != c.r.Percent || c.r.Percent < 0 || c.r.Percent > 100 {
		return "", folder.Refuse("%v percent is not between 0 and 100", c.r.Percent)
	}
	k := workRecord{Task: c.t.id, Since: c.p.Now}
	if c.t.work != nil {
		k = *c.t.work
	}
	k.Percent, k.Step, k.Stepped = c.r.Percent, folder.Line(c.r.Summary, maxText), c.p.Now
	return workFile(c.t.id), c.p.works.put(k)
}

// complete sends a TASK_COMPLETION, and ends the claim. Everything counts as met unless the report says otherwise: in
// Issues, or in Fields. A security review needs its verdict.
func (c *reporter) complete() (string, error) {
	l := newLetter("TASK_COMPLETION", c.t.id, c.r.Agent).set("status", "completed").set("timestamp", c.stamp(c.t))
	if k := c.t.work; k != nil && k.Agent != "" && c.t.stage == stageReview && k.Round == c.t.opener().sum {
		return c.t.done.file, c.p.works.remove(c.t.id) // a crash came before
	}
	passed := len(c.r.Issues) == 0 && c.r.Kind == protocol.ReportDone
	if c.r.Kind == protocol.ReportFailed {
		l.set("status", "failed")
	}
	met := make([]bool, max(c.t.assigned.assignment.criteria, 0))
	for i := range met {
		met[i] = passed
	}
	if isAuditor(c.t.assigned.to) && c.r.Kind == protocol.ReportDone {
		setVerdict(l, c.r)
	} else {
		l.set("output.files", slices.Concat([]string{}, c.r.Created, c.r.Modified)).set("output.summary", c.r.Summary).set("output.artifacts", []string{})
		l.set("validation.acceptance_criteria_met", met).set("validation.all_passed", passed).set("validation.issues", c.r.Issues)
	}
	if err := l.set("next_steps", c.r.Next).override(c.r.Document, c.r.Fields); err != nil {
		return "", err
	}
	o, _, err := l.set("from_agent", c.r.Agent).encode()
	if err != nil {
		return "", err
	}
	if err := folder.Invalid(decode(o, nil).contradictions(c.t.assigned)); err != nil {
		return "", err
	}
	file, err := c.send("completion", l, c.t.assigned.inLog())
	if err != nil {
		return "", err
	}
	return file, c.p.works.remove(c.t.id)
}

// contradictions lists where a completion contradicts itself. Such a completion counts neither as done nor as a failure.
func (m *message) contradictions(assigned *message) (problems []string) {
	out, v, criteria := m.output, m.output.verdict, assigned.assignment.criteria
	switch {
	case isAuditor(assigned.to) && !slices.Contains([]string{verdictApproved, verdictConditional, verdictRejected}, v.word):
		problems = append(problems, "approval_status must be APPROVED, CONDITIONAL or REJECTED")
	case v.word == verdictApproved && (v.denies() || v.high):
		problems = append(problems, "the review approves and contradicts itself: "+cmp.Or(v.contradiction, "it lists high issues, or blocks the deployment"))
	case v.word == "" && out.passed && out.lacks != "":
		problems = append(problems, "all_passed contradicts the rest: "+out.lacks)
	}
	if out.met >= 0 && criteria >= 0 && out.met != criteria {
		problems = append(problems, fmt.Sprintf("acceptance_criteria_met has %d entries for %d acceptance criteria", out.met, criteria))
	}
	return problems
}

// setVerdict fills in a security review (protocol 004, Security Response Format) as approval_status implies.
func setVerdict(l *letter, r protocol.Report) {
	status, _ := r.Fields["approval_status"].(string)
	if o, err := jsonfile.Parse(r.Document); err == nil && o.Has("approval_status") {
		status, _ = o.String("approval_status")
	}
	issues := map[string][]string{}
	switch fold(status) {
	case verdictConditional:
		issues["medium"] = r.Issues
	default:
		issues["critical"] = r.Issues
	}
	ok := fold(status) != verdictRejected
	l.set("approval_status", strings.ToUpper(status)).set("output.summary", r.Summary)
	for _, severity := range severities {
		l.set("output."+severity+"_issues", issues[severity])
	}
	l.set("output.recommendations", []string{}).set("output.blocking_deployment", !ok)
	for _, check := range []string{"security", "production_readiness", "scalability", "all"} {
		l.set("validation."+check+"_passed", ok)
	}
}

// fail reports that the task cannot be completed: as a completion if there are issues or files to show, else as a blocker.
func (c *reporter) fail() (string, error) {
	if f := c.r.Failure; f != nil {
		c.r.Summary = cmp.Or(c.r.Summary, f.Message)
	}
	if len(c.r.Issues)+len(c.r.Created)+len(c.r.Modified) == 0 || isAuditor(c.t.assigned.to) {
		return c.escalate("technical_blocker", protocol.High)
	}
	return c.complete()
}

func (c *reporter) block() (string, error) {
	return c.escalate("clarification_needed", protocol.Medium)
}

// escalate sends a BLOCKER_ESCALATION. A process that has the task keeps it while it lives; else the task is free once the
// blocker is resolved.
func (c *reporter) escalate(kind string, severity protocol.Severity) (file string, err error) {
	word := func(key, implied string) string {
		given, _ := c.r.Fields[key].(string)
		return cmp.Or(given, implied)
	}
	kind, level := word("blocker_type", kind), word("severity", string(severity))
	to := "ORCHESTRATOR"
	if fold(kind) == "SCOPE_CHANGE" || fold(level) == "CRITICAL" { // protocol 004, Escalation Targets
		to = "human"
	}
	l := newLetter("BLOCKER_ESCALATION", c.t.id, c.r.Agent).set("blocker_type", kind).set("severity", level).set("timestamp", c.stamp(c.t))
	l.set("description", c.r.Summary).set("options", c.r.Options).set("suggested_resolution", strings.Join(c.r.Next, "; "))
	l.set("context", strings.Join(c.r.Issues, "\n"))
	if f := c.r.Failure; f != nil {
		l.set(errorCode, f.Code).set(errorSeverity, cmp.Or(f.Severity, "error"))
	}
	l.set("escalate_to", cmp.Or(c.r.To, to))
	asked := slices.IndexFunc(c.t.blockers, func(m *message) bool { // before a crash
		return m.from == c.r.Agent && m.blocker.kind == kind && m.blocker.text == clean(c.r.Summary, maxText)
	})
	if asked < 0 {
		file, err = c.reply("blocker", l)
	} else {
		file = c.t.blockers[asked].file
	}
	if k := c.t.claim(); err == nil && k != nil {
		next := c.p.works.withdraw(c.t, 0)
		next.Agent, next.Worker, next.Round, next.Waiting = k.Agent, k.Worker, k.Round, true
		err = c.p.works.put(next)
	}
	return file, err
}

// reject sends the orchestrator's TASK_REJECTION of what was delivered. A rejection by the task's own agent refuses the
// assignment: the document has a blocker for that.
func (c *reporter) reject() (string, error) {
	switch {
	case c.t.assigned.isFor(c.r.Agent) && c.t.stage == stageReview:
		return "", fmt.Errorf("task %s awaits review: %w", c.t.id, protocol.ErrEnded)
	case c.t.assigned.isFor(c.r.Agent):
		return c.escalate("scope_change", protocol.Medium)
	case c.t.done == nil || c.t.stage != stageReview && c.t.stage != stageApproved:
		return "", fmt.Errorf("task %s has no completion to reject; cancel it instead: %w", c.t.id, protocol.ErrUnsupported)
	}
	issues := c.r.Issues
	if len(issues) == 0 && c.r.Summary != "" {
		issues = []string{c.r.Summary}
	}
	l := newLetter("TASK_REJECTION", c.t.id, c.r.Agent).set("to_agent", cmp.Or(c.r.To, c.t.done.from, c.t.assigned.to)).set("timestamp", c.stamp(c.t))
	l.set("reason", c.r.Summary).set("issues", issues).set("action_required", cmp.Or(strings.Join(c.r.Next, "; "), "Fix the issues listed"))
	l.set("next_review", "Re-validation will occur on resubmission")
	return c.reply("rejection", l)
}

// approve records that the orchestrator accepts what was delivered.
func (c *reporter) approve() (string, error) {
	switch {
	case c.t.assigned.isFor(c.r.Agent):
		return "", folder.Refuse("%s carried out the task, so another agent must approve it", c.r.Agent)
	case c.t.done == nil || c.t.stage != stageReview && c.t.stage != stageApproved:
		return "", fmt.Errorf("task %s has no completion to approve: %w", c.t.id, protocol.ErrUnsupported)
	case c.t.endorsed == c.t.done.sum:
		return approvedFile, nil
	}
	return approvedFile, c.p.works.approve(c.t, c.r.Agent, folder.Line(c.r.Summary, maxText))
}

// cancel sends a BLOCKER_RESOLUTION that ends the task.
func (c *reporter) cancel() (string, error) {
	l := newLetter("BLOCKER_RESOLUTION", c.t.id, c.r.Agent).set("to_agent", c.t.assigned.to).set("timestamp", c.stamp(c.t))
	l.set("decision", "The task is cancelled").set("rationale", c.r.Summary).set("modified_requirements", []string{}).set("resume_task", false)
	file, err := c.reply("cancellation", l.set(cancelledKey, true))
	if err != nil {
		return "", err
	}
	return file, c.p.works.remove(c.t.id)
}

// giveBack frees the task.
func (c *reporter) giveBack() (string, error) {
	if c.t.claim() == nil && c.t.stage != stageAcknowledged {
		return "", fmt.Errorf("task %s was not accepted: %w", c.t.id, protocol.ErrUnsupported)
	}
	return workFile(c.t.id), c.p.works.put(c.p.works.withdraw(c.t, 0))
}
