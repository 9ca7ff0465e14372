package handoffs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Accept takes a handoff (protocol 001, Agent Lifecycle, Activation): one rename to accepted/ decides among all clients. The
// receipt's note has the answers to the agent's questions about it.
func (c *Client) Accept(ctx context.Context, id string, a protocol.Acceptance, now time.Time) (r protocol.Receipt, err error) {
	if a.Estimate != "" || len(a.Questions) > 0 || len(a.Fields) > 0 {
		return r, fmt.Errorf("%w: protocol 001 accepts a handoff without a message; report it as blocked to ask a question", protocol.ErrUnsupported)
	}
	err = c.guarded(ctx, now, func() error {
		h, err := c.find(id)
		if err != nil {
			return err
		}
		m, v := &h.Value, c.p.view()
		if a.Agent == "" {
			a.Agent = m.to
		}
		k := claimRecord{Handoff: id, Agent: a.Agent, At: now, Intent: &intent{At: now, Accept: true, Box: accepted.String(), Status: accepted.String(),
			State: stateChange{Agent: a.Agent, Status: agentActive}, Event: eventAccepted}}
		if a.Worker.Proves() {
			k.Worker = &a.Worker
		}
		old, known := c.p.claims.records[id]
		mine := known && old.Worker != nil && k.Worker != nil && *old.Worker == *k.Worker
		switch at := h.where(); {
		case m.to != "" && !strings.EqualFold(m.to, a.Agent):
			return folder.Refuse("handoff %s is for %s, not for %s", id, m.to, a.Agent)
		case m.stopped() || at == completed:
			return fmt.Errorf("handoff %s is %s: %w", id, cmp.Or(m.status, "completed"), protocol.ErrEnded)
		case at == accepted && mine:
			r = c.receipt(id, protocol.TaskRunning, "it was accepted before")
			return nil
		case at == accepted:
			return fmt.Errorf("handoff %s: %w", id, protocol.ErrTaken)
		case v.waits(h) != "":
			return fmt.Errorf("handoff %s waits for %s", id, v.waits(h))
		}
		answers, note := v.delivered(h)
		k.Intent.Close, r = answers, c.receipt(id, protocol.TaskRunning, note)
		err = c.act.carryOut(k)
		if errors.Is(err, protocol.ErrTaken) || errors.Is(folder.Conflict(err), protocol.ErrConflict) {
			_ = c.p.claims.remove(id)
			err = fmt.Errorf("handoff %s: %w", id, protocol.ErrTaken)
		}
		return err
	})
	return c.located(r), err
}

// Report says how a handoff goes on, or how it ended.
func (c *Client) Report(ctx context.Context, id string, r protocol.Report, now time.Time) (receipt protocol.Receipt, err error) {
	err = c.guarded(ctx, now, func() error {
		h, err := c.find(id)
		if err == nil {
			err = reportable(h, &r)
		}
		if err != nil {
			return err
		}
		if r.Kind == protocol.ReportProgress {
			receipt = c.receipt(id, protocol.TaskRunning, "")
			return c.progress(h, r)
		}
		receipt, err = c.end(h, r)
		return err
	})
	return c.located(receipt), err
}

// reportable refuses a report that does not fit the handoff's state or agent.
func reportable(h *handoff, r *protocol.Report) error {
	m, at := &h.Value, h.where()
	ofAnyone := r.Kind == protocol.ReportCancel || r.Kind == protocol.ReportApproved
	says := r.Kind == protocol.ReportDone || r.Kind == protocol.ReportApproved
	fielded := says || r.Kind == protocol.ReportFailed || r.Kind == protocol.ReportBlocked
	switch {
	case at == completed || m.stopped():
		return fmt.Errorf("handoff %s is %s: %w", m.id, cmp.Or(m.status, "completed"), protocol.ErrEnded)
	case r.Document != nil && !says:
		return fmt.Errorf("%w: in protocol 001 a document goes with the report that a handoff is done", protocol.ErrUnsupported)
	case len(r.Fields) > 0 && !fielded:
		return fmt.Errorf("%w: in protocol 001 the report %q has no message, so no field can be set", protocol.ErrUnsupported, r.Kind)
	case r.Agent != "" && !strings.EqualFold(r.Agent, m.to) && !ofAnyone:
		return folder.Refuse("handoff %s is for %s, not for %s", m.id, m.to, r.Agent)
	case r.Kind == protocol.ReportApproved && !strings.EqualFold(m.to, "reviewer"):
		return fmt.Errorf("%w: in protocol 001 a reviewer approves work, and handoff %s is for %s", protocol.ErrUnsupported, m.id, m.to)
	case at == pending && r.Kind != protocol.ReportCancel && r.Kind != protocol.ReportRejected && m.isWork():
		return fmt.Errorf("handoff %s is still pending: accept it first", m.id)
	}
	return nil
}

// progress records a step in steward's own file, and that the agent is active.
func (c *Client) progress(h *handoff, r protocol.Report) error {
	p, m := c.p, &h.Value
	k, ok := p.claims.records[m.id]
	if !ok {
		k = claimRecord{Handoff: m.id, Agent: m.to, At: h.accepted()}
	}
	k.Percent, k.Step, k.Stepped = min(max(r.Percent, 0), 100), folder.Clean(r.Summary, maxText), p.Now
	if err := p.claims.put(k); err != nil {
		return err
	}
	return c.act.writeState(&stateChange{Agent: m.to, Status: agentActive}, p.Now, false)
}

// end carries out a report that ends the work on a handoff.
// See docs/decisions.md, "A blocked handoff of protocol 001 is pending again".
// See docs/decisions.md, "A rejected handoff of protocol 001 lies in accepted/".
func (c *Client) end(h *handoff, r protocol.Report) (receipt protocol.Receipt, err error) {
	p, m := c.p, &h.Value
	in := &intent{At: p.Now, Box: completed.String(), Status: completed.String(), State: stateChange{Agent: m.to, Status: agentIdle}, Why: r.Summary}
	if c.act.busyElsewhere(m) || !m.isWork() {
		in.State.Status = ""
	}
	if !m.isWork() {
		in.State.Agent = ""
	}
	receipt = c.receipt(m.id, protocol.TaskDone, "")
	switch r.Kind {
	case protocol.ReportDone, protocol.ReportApproved:
		receipt.Note, err = c.write.finish(in, h, r)
	case protocol.ReportFailed:
		receipt.State, err = protocol.TaskFailed, c.write.fail(in, m, r)
	case protocol.ReportRejected:
		in.Box, in.Status, receipt.State = accepted.String(), statusRejected, protocol.TaskWaiting
	case protocol.ReportCancel:
		in.Status, receipt.State = statusCancelled, protocol.TaskFailed
		if h.where() == pending {
			in.State.Agent = ""
		}
	case protocol.ReportReturned:
		in.Box, in.Status, receipt.State = pending.String(), pending.String(), protocol.TaskPending
	case protocol.ReportBlocked:
		in.Box, in.Status, receipt.State = pending.String(), pending.String(), protocol.TaskWaiting
		receipt.Note, err = c.write.ask(in, m, "needs_decision", r)
	default:
		err = fmt.Errorf("%w: protocol 001 has no report %q", protocol.ErrUnsupported, r.Kind)
	}
	if err != nil {
		return receipt, err
	}
	if r.Kind == protocol.ReportRejected || r.Kind == protocol.ReportCancel || r.Kind == protocol.ReportReturned {
		if in.Set, err = reasons(r); err != nil {
			return receipt, err
		}
	}
	k := p.claims.records[m.id]
	k.Handoff, k.Agent, k.Intent = m.id, m.to, in
	return receipt, c.act.carryOut(k)
}

// reasons are the keys of a message that say why its agent did not do the work.
func reasons(r protocol.Report) (map[string]json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	for key, value := range map[string]any{"reason": none(r.Summary), "issues": r.Issues} {
		doc, err := jsonfile.EncodeLine(value)
		if err != nil {
			return nil, folder.Refuse("%v", err)
		}
		if text := string(doc); text != "null" && text != "[]" {
			all[key] = doc
		}
	}
	return all, nil
}

// busyElsewhere reports whether the agent has accepted another handoff.
func (p performer) busyElsewhere(m *handoffMessage) bool {
	for _, h := range p.view().handoffs {
		if o := &h.Value; o.id != m.id && o.isWork() && !o.stopped() && h.where() == accepted && strings.EqualFold(o.to, m.to) {
			return true
		}
	}
	return false
}

// finish is the report that a handoff is completed: a completion for the orchestrator, and the next handoff of the flow
// unless the agent has created it (protocol 001, Agent Lifecycle, Completion).
func (p composer) finish(in *intent, h *handoff, r protocol.Report) (note string, err error) {
	m := &h.Value
	if !m.isWork() || strings.EqualFold(m.to, orchestrator) {
		return "", nil
	}
	if in.State.Status != "" {
		in.State.Status = agentCompleted
	}
	in.Event = eventCompleted
	doc, err := p.completion(m, r)
	if err != nil {
		return "", err
	}
	done, _ := jsonfile.Parse(doc)
	in.Messages = rawList(doc)
	next, err := p.next(m, done, r.To)
	if err != nil || next == nil {
		return "", err
	}
	in.Messages = append(in.Messages, next)
	return in.hand(next), nil
}

// hand makes a message the newest handoff of the state file, and describes it.
func (in *intent) hand(doc []byte) string {
	o, _ := jsonfile.Parse(doc)
	m := decodeMessage(o, "")
	if m.isWork() {
		in.State.Last, in.State.Iteration = m.id, m.work.iteration
	}
	return m.kind + " " + m.id + " for " + m.to
}

// completion makes an agent's completion message.
func (p composer) completion(m *handoffMessage, r protocol.Report) ([]byte, error) {
	status := "completed"
	switch reviewer := strings.EqualFold(m.to, "reviewer"); {
	case r.Kind == protocol.ReportApproved, reviewer && len(r.Issues) == 0:
		status = "approved"
	case reviewer:
		status = "needs_fixes"
	case strings.EqualFold(m.to, "fixer"):
		status = "fixes_applied"
	}
	out := outgoing{ID: idAfter(typeCompletion, m.id, fmt.Sprint(len(p.attempts.Of(m.id)))), From: m.to, To: orchestrator, Type: typeCompletion,
		Priority: m.priority.String(), Context: m.context(), Payload: payloadDoc{Title: m.title, InReplyTo: m.id, Status: status,
			Summary: r.Summary, Created: r.Created, Modified: r.Modified, Issues: r.Issues, Next: r.Next}}
	fields := r.Fields
	if o, err := jsonfile.Parse(r.Document); r.Document != nil {
		switch {
		case err != nil:
			return nil, folder.Refuse("%v", err)
		case o.Has("payload") && o.Has("type"):
			return checked(r.Document, r.Fields)
		}
		body, err := jsonfile.Edit(r.Document, jsonfile.Set{Path: []string{"in_reply_to"}, Value: m.id})
		if err != nil {
			return nil, err
		}
		out.Payload = json.RawMessage(body)
	}
	return p.encode(out, fields)
}

// errorDoc is the error of a failed handoff, in keys that occur in practice.
type errorDoc struct {
	Code        string   `json:"code,omitzero"`
	Message     string   `json:"message"`
	Severity    string   `json:"severity,omitzero"`
	Recoverable bool     `json:"recoverable"`
	Issues      []string `json:"issues,omitzero"`
	Summary     string   `json:"summary,omitzero"`
	Created     []string `json:"created,omitzero"`
	Modified    []string `json:"modified,omitzero"`
	Next        []string `json:"next_steps,omitzero"`
}

// fail is the report that the work failed (protocol 001, Retry Protocol): the retry rules run it again if the error is
// recoverable; a fatal error is escalated to the human.
func (p composer) fail(in *intent, m *handoffMessage, r protocol.Report) error {
	f := protocol.Failure{Message: r.Summary}
	if r.Failure != nil {
		f = *r.Failure
		f.Message = cmp.Or(f.Message, r.Summary)
	}
	e := errorDoc{Code: f.Code, Message: f.Message, Severity: f.Severity, Recoverable: f.Code == codeRecoverable || f.Severity == "error" || f.Severity == "warning",
		Issues: r.Issues, Created: r.Created, Modified: r.Modified, Next: r.Next}
	if r.Summary != f.Message {
		e.Summary = r.Summary
	}
	if e.Recoverable && f.Code == codeFailed {
		e.Code = "" // it says nothing that recoverable does not say
	}
	doc, err := jsonfile.Encode(map[string]any{"error": e})
	if err != nil {
		return err
	}
	if doc, err = folder.SetFields(doc, r.Fields); err != nil {
		return err
	}
	o, _ := jsonfile.Parse(doc)
	if len(o.Keys()) != 1 || o.Get("error").Kind() != "object" {
		return folder.Refuse("a failed handoff has no message of its own; only error and the keys below it can be set")
	}
	in.Box, in.Status, in.Event = accepted.String(), statusFailed, eventError
	in.Set = map[string]json.RawMessage{"error": o.Get("error").Raw()}
	in.Why = f.Message
	if f.Severity == "fatal" {
		_, err = p.ask(in, m, reasonFatal, protocol.Report{Summary: f.Message})
	}
	return err
}

// The reasons of escalations that steward composes.
const (
	reasonFatal = "fatal_error"
	reasonLimit = "fix_limit"
	reasonPhase = "phase_failed"
)

// ask adds an escalation about a handoff (protocol 001, Escalation).
func (p composer) ask(in *intent, m *handoffMessage, reason string, r protocol.Report) (note string, err error) {
	id := idAfter(typeEscalation, m.id, reason)
	if reason != reasonLimit { // an agent may ask several times
		id = idAfter(typeEscalation, m.id, reason, p.Now.Format(time.RFC3339Nano))
	}
	options := r.Options
	if options == nil {
		options = []string{}
	}
	doc, err := p.encode(outgoing{ID: id, From: cmp.Or(m.to, orchestrator), To: orchestrator, Type: typeEscalation, Priority: "high", Context: m.context(),
		Payload: escalationDoc{Reason: reason, Details: r.Summary, Options: options, Context: m.title, Blocking: true, Handoff: m.id}}, r.Fields)
	if err != nil {
		return "", err
	}
	in.Messages = append(in.Messages, doc)
	return "escalation " + id + " asks the human", nil
}

// context is the context of a message about the same work.
func (m *handoffMessage) context() messageContext {
	c := messageContext{Workflow: none(m.work.kind), WorkflowID: none(m.work.id), Spec: none(m.work.spec)}
	if m.work.iteration > 0 {
		c.Iteration = m.work.iteration
	}
	return c
}

// Join enters an agent in the state file, or updates its last_active. An agent is active while it works on a handoff.
func (c *Client) Join(ctx context.Context, a protocol.AgentRun, now time.Time) error {
	s := stateChange{Agent: a.Agent}
	return c.present(ctx, &s, now, func() {
		if h := c.p.view().find(a.Task); h != nil && h.where() == accepted && !h.Value.stopped() {
			s.Status = agentActive
		}
	})
}

// Leave makes an active agent idle.
func (c *Client) Leave(ctx context.Context, a protocol.AgentRun, now time.Time) error {
	s := stateChange{Agent: a.Agent}
	return c.present(ctx, &s, now, func() {
		if c.act.active(s.Agent) { // a completed agent stays so
			s.Status = agentIdle
		}
	})
}

func (c *Client) present(ctx context.Context, s *stateChange, now time.Time, decide func()) error {
	if !usable(s.Agent) || !plain(s.Agent) {
		return folder.Refuse("%q is not a valid agent name", folder.Line(s.Agent, 100))
	}
	return c.guarded(ctx, now, func() error {
		decide()
		return c.act.writeState(s, now, false)
	})
}
