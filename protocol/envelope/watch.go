package envelope

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
)

// due reports whether a moment has come. If not, it requests a scan for that moment.
func (p *Project) due(at time.Time) bool {
	if at.After(p.Now) {
		p.Patience.RetryAt(at)
		return false
	}
	return true
}

// findings returns what is wrong with a task.
func (p *Project) findings(t *taskState) []issue {
	var list []issue
	if t.assigned == nil {
		list = t.strayFindings()
	} else {
		list = append(p.gateFindings(t), p.waitFindings(t)...)
		list = append(list, p.watchFindings(t)...)
		list = append(list, t.workFindings()...)
	}
	return append(list, t.issues...)
}

// strayFindings reports messages of a task without an assignment.
func (t *taskState) strayFindings() []issue {
	if t.id == "" || !slices.ContainsFunc(t.messages, func(m *message) bool { return m.kind == acknowledges || m.kind == completes || m.kind == rejects }) {
		return nil
	}
	return []issue{{code: "unassigned", severity: protocol.Low, text: "there are messages about it, but no TASK_ASSIGNMENT", path: t.messages[0].file}}
}

// codeUnacknowledged is the code of an overdue acknowledgement. The operator is told despite its medium severity.
const codeUnacknowledged = "unacknowledged"

// watchFindings reports missed time limits: no acknowledgement, deadline passed.
func (p *Project) watchFindings(t *taskState) []issue {
	var list []issue
	if t.stopped {
		return nil // nothing is expected of its agent
	}
	if since := t.openSince(); t.state == stateAssigned && !t.held() && !t.stuck && p.opts.Acknowledge > 0 && p.due(since.Add(p.opts.Acknowledge)) {
		list = append(list, issue{code: codeUnacknowledged, text: fmt.Sprintf("%s has not acknowledged it within %s", clean(t.assigned.to, maxText), minutes(p.opts.Acknowledge)), severity: protocol.Medium})
	}
	if at := t.deadline(); !at.IsZero() && !t.over() && p.due(at) {
		list = append(list, issue{code: "deadline", text: fmt.Sprintf("the deadline of %s was %s; it is %s", t.id, at.UTC().Format(time.RFC3339), cmp.Or(t.named(), string(t.state))), severity: protocol.High})
	}
	return list
}

// minutes formats a time limit for a finding.
func minutes(d time.Duration) string {
	if d%time.Minute == 0 {
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return d.String()
}

// openSince returns when the agent could first see the assignment, or proceed with it.
func (t *taskState) openSince() time.Time {
	return slices.MaxFunc([]time.Time{t.assigned.came(), t.shown, t.resumed}, time.Time.Compare)
}

// waitFindings reports on blocked_by (protocol 004, Track Dependencies).
func (p *Project) waitFindings(t *taskState) []issue {
	var list []issue
	if way := p.cycles[t.id]; way != "" {
		list = append(list, issue{code: "cycle", field: "blocked_by", text: "these tasks wait for each other, so none of them is held: " + way, severity: protocol.High})
	}
	if lacks := p.incomplete(t); lacks != "" {
		text := "the assignment is kept from its agent until it is complete: " + lacks
		if t.assigned.inLog() {
			text = "the assignment is incomplete, and cannot be held, because it stands in a log: " + lacks
		}
		list = append(list, issue{code: "incomplete", severity: protocol.Medium, text: text, path: t.assigned.file})
	}
	waits, notices := p.waits(t)
	for _, w := range waits {
		id := w.id
		if o := p.tasks[id]; o == nil || o.assigned == nil {
			list = append(list, issue{code: "dependency", field: "blocked_by", text: fmt.Sprintf("blocked_by names %q, which nobody has assigned", clean(id, 80)), severity: protocol.Medium})
		}
	}
	if t.state == stateAssigned {
		list = append(list, p.reviewFindings(t, waits, notices)...)
	}
	if t.assigned.inLog() && t.state == stateAssigned && len(t.deployments()) == 0 && p.block(t) != "" && p.incomplete(t) == "" {
		list = append(list, issue{code: "dependency", text: p.block(t) + "; the assignment cannot be held: it stands in a log", severity: protocol.Medium})
	}
	return list
}

// reviewFindings reports on security reviews in blocked_by: those that hold a deployment, and those that let the task
// pass on a condition. It does not repeat what the gate says about the same review.
func (p *Project) reviewFindings(t *taskState, waits []wait, notices []string) []issue {
	said := p.gateAll(t.deployments(), p.Now)
	var list []issue
	for _, w := range waits {
		if o := p.tasks[w.id]; len(t.deployments()) > 0 && o.judged() != nil && said.block == "" {
			list = append(list, issue{code: "security_gate", severity: protocol.Critical,
				text: fmt.Sprintf("deployment %s must wait: %s", t.id, waitText([]wait{w}))})
		}
	}
	for _, notice := range notices {
		if !strings.Contains(said.notice, notice) {
			list = append(list, issue{code: "security_conditional", severity: protocol.Low, text: notice})
		}
	}
	return list
}

// workFindings reports on delivered work (protocol 004, Validation Rules and TASK_REJECTION).
func (t *taskState) workFindings() []issue {
	var list []issue
	if d := t.done; d != nil {
		criteria := t.assigned.assignment.criteria
		if met := d.output.met; met >= 0 && criteria >= 0 && met != criteria {
			list = append(list, issue{code: "criteria_length", field: "validation.acceptance_criteria_met", path: d.file, severity: protocol.Medium,
				text: fmt.Sprintf("acceptance_criteria_met has %d entries for %d acceptance criteria", met, criteria)})
		}
		switch out := d.output; {
		case t.state != stateReview:
		case out.judged && !out.passed:
			text := "all_passed is false: the task will be rejected with feedback"
			if len(out.issues) > 0 {
				text += ": " + out.issues[0]
			}
			list = append(list, issue{code: "criteria", field: "validation.all_passed", text: text, severity: protocol.Medium, path: d.file})
		case out.passed:
			list = append(list, issue{code: "criteria", field: "validation", path: d.file, text: clean(fmt.Sprintf("the completion says all_passed and contradicts itself, so %s is not done: %s", t.id, out.lacks), maxText), severity: protocol.Medium})
		}
	}
	if r := t.refusal; r != nil {
		severity := protocol.Medium
		if t.rejections > 1 {
			severity = protocol.High
		}
		list = append(list, issue{code: "rejected", text: fmt.Sprintf("%s was rejected %s: %s", t.id, times(t.rejections), cmp.Or(r.answer.text, "no reason given")), severity: severity, path: r.file})
	}
	return list
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// uselessFindings reports deployments that cannot be tracked, so that none passes the gate unnoticed.
func (p *Project) uselessFindings() []protocol.Finding {
	var list []protocol.Finding
	for m := range p.useless {
		if (m.kind == assigns || m.kind == unknown) && m.deploys == deploysSure {
			list = append(list, protocol.Finding{Subject: p.place(), Code: "security_gate", Field: path.Base(m.file), Severity: protocol.Critical, Path: m.file,
				Text: fmt.Sprintf("a deployment that cannot be held back: %s", m.unusable)})
		}
	}
	slices.SortFunc(list, func(a, b protocol.Finding) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Text, b.Text))
	})
	return slices.CompactFunc(list, func(a, b protocol.Finding) bool { return a == b })
}

// maxAgents bounds the agents of a snapshot.
const maxAgents = 100

// agents returns the agents that open tasks name. The protocol has no heartbeat, so no sign of life is expected from
// them.
func agents(list []*taskState) []protocol.Agent {
	names := map[string]bool{}
	for _, t := range list {
		if t.over() {
			continue
		}
		for _, m := range t.messages {
			for _, name := range append([]string{m.from, m.to}, m.also...) {
				if f := fold(name); plain(name) && f != "ORCHESTRATOR" && f != "HUMAN" {
					names[name] = true
				}
			}
		}
	}
	var all []protocol.Agent
	for _, name := range sortedKeys(names)[:min(len(names), maxAgents)] {
		all = append(all, protocol.Agent{Name: name, Idle: true})
	}
	return all
}

func lowerName(name string) string { return strings.ToLower(clean(name, maxText)) }
