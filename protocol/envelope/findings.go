package envelope

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/envelope/deploy"
	"github.com/livhana/steward/protocol/folder"
)

// finding returns a finding without its subject and file. A finding about a task without a file gets the file of its
// assignment.
func finding(code string, severity protocol.Severity, format string, args ...any) protocol.Finding {
	return protocol.Finding{Code: code, Severity: severity, Text: fmt.Sprintf(format, args...)}
}

// codeUnacknowledged is the code of an overdue acknowledgement. The operator is told despite its medium severity.
const codeUnacknowledged = "unacknowledged"

// taskFindings returns what is wrong with a task.
func (v *view) taskFindings(t *task) []protocol.Finding {
	if t.assigned == nil {
		return append(t.strayFindings(), t.findings...)
	}
	return slices.Concat(v.gateFindings(t), v.waitFindings(t), v.lateFindings(t), t.workFindings(), t.findings)
}

// strayFindings reports messages of a task without an assignment.
func (t *task) strayFindings() []protocol.Finding {
	work := []kind{acknowledges, completes, rejects}
	if t.id == "" || !slices.ContainsFunc(t.messages, func(m *message) bool { return slices.Contains(work, m.kind) }) {
		return nil
	}
	f := finding("unassigned", protocol.Low, "there are messages about it, but no TASK_ASSIGNMENT")
	f.Path = t.messages[0].file
	return []protocol.Finding{f}
}

// gateFindings reports on open deployments, and on a deployment that did not wait for the security gate.
func (v *view) gateFindings(t *task) []protocol.Finding {
	if list := t.deployments(); len(list) > 0 {
		return v.deploymentFindings(t, list)
	}
	if t.assigned.deploys == deploy.Maybe && !t.over() {
		return v.possibleDeployment(t)
	}
	if t.deployed == nil || t.taken.IsZero() && !t.over() {
		return nil
	}
	until, taken := v.Now, t.taken
	if t.over() {
		until = t.end
	}
	if taken.IsZero() {
		taken = until
	}
	d := decide(v.board, t.deployed, taken)
	if d.block == "" || decide(v.board, t.deployed, until).block == "" {
		return nil
	}
	return []protocol.Finding{finding("security_bypassed", protocol.Critical, "deployment %s went ahead although: %s", t.id, d.block)}
}

// possibleDeployment reports a task that may be a deployment. It is not held, because it may equally be other work.
func (v *view) possibleDeployment(t *task) []protocol.Finding {
	d := decide(v.board, t.assigned, v.Now)
	if d.block == "" {
		return nil
	}
	severity := protocol.Medium
	if t.assigned.assignment.production {
		severity = protocol.High
	}
	return []protocol.Finding{finding("security_gate", severity, "%s may be a deployment and is not held: %s; if it is one, begin its task_name "+
		"with \"Deploy\" or assign it to DEPLOYMENT", t.id, d.block)}
}

// deploymentFindings reports on deployments that no agent has taken in hand.
func (v *view) deploymentFindings(t *task, deployments []*message) (list []protocol.Finding) {
	switch d := decideAll(v.board, deployments, v.Now); {
	case d.block != "":
		f := finding("security_gate", protocol.Critical, "deployment %s must wait: %s", t.id, d.block)
		if slices.ContainsFunc(deployments, (*message).inLog) {
			f.Text += "; the assignment cannot be held: it stands in a log"
		}
		list = append(list, f)
	case d.notice != "":
		list = append(list, finding("security_conditional", protocol.Low, "%s", d.notice))
	}
	// An assignment of the same task to another agent: the newest or an open one.
	var a, b *message
	for _, m := range append(t.open[:len(t.open):len(t.open)], t.assigned) {
		if m.isDeployment() {
			a = m
		} else {
			b = m
		}
	}
	if b != nil {
		list = append(list, finding("reassigned", protocol.Medium, "it is assigned to %[1]s (%[2]s) and to %[3]s (%[4]s); "+
			"it stays a deployment until %[1]s answers", clean(a.to, 80), openName(path.Base(a.file)), clean(b.to, 80), openName(path.Base(b.file))))
	}
	return list
}

// lateFindings reports missed time limits: no acknowledgement, deadline passed.
func (v *view) lateFindings(t *task) (list []protocol.Finding) {
	if t.stopped {
		return nil // nothing is expected of its agent
	}
	// When the agent could first see the assignment, or proceed with it.
	since := slices.MaxFunc([]time.Time{t.assigned.came(), t.released, t.resumed, t.work.freed()}, time.Time.Compare)
	limit := v.opts.Acknowledge
	if t.stage == stageAssigned && !t.held() && !t.stuck && limit > 0 && !v.Wait(since.Add(limit)) {
		f := finding(codeUnacknowledged, protocol.Medium, "%s has not acknowledged it within %s", clean(t.assigned.to, maxText), folder.Minutes(limit))
		f.Call = true
		list = append(list, f)
	}
	if at := t.deadline(); !at.IsZero() && !t.over() && !v.Wait(at) {
		named, _ := t.inHand()
		list = append(list, finding("deadline", protocol.High, "the deadline of %s was %s; it is %s", t.id, at.UTC().Format(time.RFC3339),
			cmp.Or(named, string(t.stage))))
	}
	return list
}

// waitFindings reports on missing fields and on blocked_by (protocol 004, Track Dependencies).
func (v *view) waitFindings(t *task) (list []protocol.Finding) {
	if way := v.cycles[t.id]; way != "" {
		list = append(list, finding("cycle", protocol.High, "these tasks wait for each other, so none of them is held: %s", way))
	}
	lacks := v.incomplete(t)
	if lacks != "" {
		text := "the assignment is kept from its agent until it is complete: "
		if t.assigned.inLog() {
			text = "the assignment is incomplete, and cannot be held, because it stands in a log: "
		}
		list = append(list, finding("incomplete", protocol.Medium, "%s%s", text, lacks))
	}
	waits, notices := waitsOf(v.board, t)
	for _, w := range waits {
		if o := v.tasks[w.id]; o == nil || o.assigned == nil {
			list = append(list, finding("dependency", protocol.Medium, "blocked_by names %q, which has no TASK_ASSIGNMENT", clean(w.id, 80)))
		}
	}
	for i := range list {
		if list[i].Code != "incomplete" {
			list[i].Field = "blocked_by"
		}
	}
	if t.stage != stageAssigned {
		return list
	}
	list = append(list, v.reviewFindings(t, waits, notices)...)
	if block := v.block(t); t.assigned.inLog() && len(t.deployments()) == 0 && block != "" && lacks == "" {
		list = append(list, finding("dependency", protocol.Medium, "%s; the assignment cannot be held: it stands in a log", block))
	}
	return list
}

// reviewFindings reports on security reviews in blocked_by: those that hold a deployment, and those that let the task
// pass on a condition. It does not repeat what the gate says about the same review.
func (v *view) reviewFindings(t *task, waits []wait, notices []string) (list []protocol.Finding) {
	said := decideAll(v.board, t.deployments(), v.Now)
	for _, w := range waits {
		if len(t.deployments()) > 0 && v.tasks[w.id].judged() != nil && said.block == "" {
			list = append(list, finding("security_gate", protocol.Critical, "deployment %s must wait: %s", t.id, waitText(w)))
		}
	}
	for _, notice := range notices {
		if !strings.Contains(said.notice, notice) {
			list = append(list, finding("security_conditional", protocol.Low, "%s", notice))
		}
	}
	return list
}

// workFindings reports on delivered work (protocol 004, Validation Rules and TASK_REJECTION).
func (t *task) workFindings() (list []protocol.Finding) {
	add := func(m *message, field string, f protocol.Finding) {
		f.Field, f.Path = field, m.file
		list = append(list, f)
	}
	if d := t.done; d != nil {
		out, criteria := d.output, t.assigned.assignment.criteria
		if out.met >= 0 && criteria >= 0 && out.met != criteria {
			add(d, "validation.acceptance_criteria_met", finding("criteria_length", protocol.Medium,
				"acceptance_criteria_met has %d entries for %d acceptance criteria", out.met, criteria))
		}
		switch {
		case t.stage != stageReview || out.lacks == "":
		case out.judged && !out.passed:
			f := finding("criteria", protocol.Medium, "all_passed is false: the task will be rejected with feedback")
			if len(out.issues) > 0 {
				f.Text += ": " + out.issues[0]
			}
			add(d, "validation.all_passed", f)
		case out.passed:
			text := fmt.Sprintf("the completion says all_passed and contradicts itself, so %s is not done: %s", t.id, out.lacks)
			add(d, "validation", finding("criteria", protocol.Medium, "%s", clean(text, maxText)))
		}
	}
	if r := t.refusal; r != nil {
		severity, times := protocol.Medium, "once"
		if t.rejections > 1 {
			severity = protocol.High
		}
		if t.rejections != 1 {
			times = fmt.Sprintf("%d times", t.rejections)
		}
		add(r, "", finding("rejected", severity, "%s was rejected %s: %s", t.id, times, cmp.Or(r.answer.text, "no reason given")))
	}
	return list
}

// unusableFindings reports deployments that cannot be tracked, so that none passes the gate unnoticed.
func (v *view) unusableFindings() (list []protocol.Finding) {
	for m := range v.unusable {
		if (m.kind == assigns || m.kind == unknown) && m.isDeployment() {
			f := finding("security_gate", protocol.Critical, "a deployment that cannot be held back: %s", m.unusable)
			f.Field, f.Path = path.Base(m.file), m.file
			list = append(list, f)
		}
	}
	slices.SortFunc(list, func(a, b protocol.Finding) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Text, b.Text))
	})
	return slices.Compact(list)
}
