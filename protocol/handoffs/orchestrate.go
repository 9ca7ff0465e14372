package handoffs

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// mostFixes bounds the fix rounds of a workflow. The document sets no bound: two agents might never agree.
const mostFixes = 3

// The options of the escalation about too many fix rounds.
const (
	optionFix    = "Fix once more"
	optionAccept = "Accept the work as it is"
	optionStop   = "Stop the workflow"
)

// needsFixes reports whether a completion's payload asks for fixes: by its status, else by its issues.
func needsFixes(payload jsonfile.Object) bool {
	switch strings.ToLower(text(payload, "status", 40)) {
	case "needs_fixes", "needs_changes", "changes_requested", "rejected":
		return true
	case "approved", "fixes_applied":
		return false
	}
	issues := payload.Get("issues")
	list, _ := issues.Array()
	n, _ := issues.Number()
	return len(list) > 0 || n > 0
}

// gaveUp reports whether a completion's payload says that the work is not done.
func gaveUp(payload jsonfile.Object) bool {
	return slices.Contains([]string{"failed", "error", "blocked", "cancelled"}, strings.ToLower(text(payload, "status", 40)))
}

// next makes the handoff that follows a completed one (protocol 001, Message Types and Example Flow), or the escalation when
// the fix rounds are used up. It returns nil if nothing follows or the agent has created it itself. to is the receiver; ""
// follows the table.
func (p composer) next(m *handoffMessage, done jsonfile.Object, to string) ([]byte, error) {
	payload, _ := done.Object("payload")
	fixes := needsFixes(payload)
	for _, r := range routes {
		if to == "" && r.from != "" && strings.EqualFold(r.from, m.to) && (r.kind != typeFix || fixes) {
			to = r.to
		}
	}
	kind := typeOf(m.to, to)
	switch v := p.view(); {
	case to == "" || kind == "" || gaveUp(payload) || strings.EqualFold(to, orchestrator), v.handedOn(m):
		return nil, nil
	case kind == typeFix && m.work.iteration > mostFixes:
		in := &intent{}
		_, err := p.ask(in, m, reasonLimit, protocol.Report{Options: []string{optionFix, optionAccept, optionStop},
			Summary: "the reviewer still finds issues after the last allowed fix round"})
		if err != nil {
			return nil, err
		}
		return in.Messages[0], nil
	}
	return p.follow(m, payload, to, kind)
}

// follow makes the handoff that follows another one, with what the completion says.
func (p composer) follow(m *handoffMessage, payload jsonfile.Object, to, kind string) ([]byte, error) {
	context := m.context()
	if spec := text(payload, "spec", maxText); spec != "" {
		context.Spec = spec
	}
	iteration := max(m.work.iteration, 1)
	if kind == typeRereview {
		iteration++
	}
	context.Iteration = iteration
	said := payload.Value().Raw()
	if said == nil {
		said = []byte("{}")
	}
	body, err := jsonfile.Edit(said, jsonfile.Set{Path: []string{"title"}, Value: m.title},
		jsonfile.Set{Path: []string{"in_reply_to"}, Value: m.id}, jsonfile.Remove("status"))
	if err != nil {
		return nil, err
	}
	return p.encode(outgoing{ID: idAfter("next", m.id), From: m.to, To: to, Type: kind, Priority: m.priority.String(), Context: context,
		Payload: json.RawMessage(body)}, nil)
}

// handedOn reports whether the agent of a handoff has created the next one. A message that names no predecessor counts if it
// is not older. See docs/decisions.md, "A handoff of protocol 001 names what it follows".
func (v *view) handedOn(m *handoffMessage) bool {
	return slices.ContainsFunc(v.handoffs, func(h *handoff) bool {
		o := &h.Value
		if !o.isWork() || o.id == m.id || !strings.EqualFold(o.from, m.to) {
			return false
		}
		if o.work.follows != "" {
			return o.work.follows == m.id
		}
		least := m.work.iteration
		if o.kind == typeRereview {
			least++
		}
		return (o.work.iteration == 0 || o.work.iteration >= least) && (m.created.At.IsZero() || o.created.CanFollow(m.created))
	})
}

// escalation returns the escalation that an answer names, or nil.
func (v *view) escalation(answer *handoffMessage) *handoff {
	for _, id := range answer.replies {
		if e := v.find(id); e != nil && e.Value.kind == typeEscalation {
			return e
		}
	}
	return nil
}

// due returns the oldest message that the orchestrator must act on, or nil.
func (v *view) due() *handoff {
	var oldest *handoff
	for _, h := range v.handoffs {
		if v.acts(h) && (oldest == nil || h.Value.created.At.Before(oldest.Value.created.At)) {
			oldest = h
		}
	}
	return oldest
}

// acts reports whether the orchestrator must act on a message: on a user's request when no workflow runs, on a request
// whose workflow has ended, on a completion, on an answer about fix rounds, and on an escalation that was answered.
func (v *view) acts(h *handoff) bool {
	m, at := &h.Value, h.where()
	ours := strings.EqualFold(m.to, orchestrator)
	switch {
	case m.stopped() || at == completed || !v.state.ours:
		return false
	case m.isWork():
		return ours && (at == pending && !v.state.workflow.running() || at == accepted && v.state.workflow.id == workflowOf(m.id) && !v.state.workflow.running())
	case m.kind == typeCompletion:
		return ours
	case m.kind == typeEscalation:
		return v.answered[m.id]
	}
	e := v.escalation(m)
	return e != nil && e.Value.call.reason == reasonLimit && slices.Contains([]string{optionFix, optionAccept, optionStop}, m.call.text)
}

// Orchestrate does what protocol 001, Example Flow, assigns to the orchestrator and needs no judgement: it begins the
// workflow of a user's request, hands on completed work, ends the workflow that a reviewer approves, and repairs the keys of
// the state file that contradict the folders (Workflow Conflicts: the orchestrator is arbiter).
func (c *Client) Orchestrate(ctx context.Context, now time.Time) (list []protocol.Receipt, err error) {
	err = c.guarded(ctx, now, func() error {
		for {
			c.read()
			v := c.p.view()
			h := v.due()
			if h == nil {
				note, err := c.arbitrate(v)
				if note != "" {
					list = append(list, protocol.Receipt{Path: folder.Absolute(c.p.Folder, stateFile), Note: note})
				}
				return err
			}
			k := claimRecord{Handoff: h.Value.id, Intent: &intent{At: now, Box: completed.String(), Status: completed.String()}}
			note, err := c.write.direct(k.Intent, v, h)
			if err != nil {
				return err
			}
			if err := c.act.carryOut(k); err != nil {
				return err
			}
			list = append(list, c.located(c.receipt(h.Value.id, protocol.TaskDone, note)))
		}
	})
	return list, err
}

// arbitrate repairs the keys of the state file that have contradicted the folders for a while (protocol 001, Workflow
// Conflicts). Two agents that are active at once are for the human.
func (c *Client) arbitrate(v *view) (note string, err error) {
	p := c.p
	if !v.state.ours || p.Now.Sub(p.state.Stamp.ModTime()) < contradictsFor {
		return "", nil
	}
	return note, p.state.edit(func(o jsonfile.Object) (sets []jsonfile.Set, err error) {
		s, newest := decodeState(o), v.newest(func(*handoff) bool { return true })
		set := func(key string, value any) {
			sets = append(sets, jsonfile.Set{Path: []string{key}, Value: value})
			note = strings.TrimPrefix(note+", "+key+" repaired", ", ")
		}
		if s.idleCurrent() {
			active := slices.DeleteFunc(slices.Clone(s.agents), func(a agentEntry) bool { return !a.working() })
			if len(active) == 1 {
				set("current_agent", active[0].name)
			} else {
				set("current_agent", nil)
			}
		}
		if s.lastHandoff != "" && !p.boxes.exists(s.lastHandoff) {
			set("last_handoff", none(newest.id))
		}
		if s.iteration < 0 {
			set("iteration", max(newest.work.iteration, 1))
		}
		return sets, nil
	})
}

// newest returns the newest request for work among those that match; without any it is empty.
func (v *view) newest(match func(*handoff) bool) (m *handoffMessage) {
	m = &handoffMessage{}
	for _, h := range v.handoffs {
		if o := &h.Value; o.isWork() && match(h) && (m.id == "" || o.created.At.After(m.created.At)) {
			m = o
		}
	}
	return m
}

// direct decides what follows from a message.
func (p composer) direct(in *intent, v *view, h *handoff) (note string, err error) {
	m := &h.Value
	o, _, err := p.Root.Load(h.file, maxFile)
	if err != nil {
		return "", err
	}
	switch {
	case m.isWork() && h.where() == pending:
		return p.begin(in, m, o)
	case m.isWork():
		in.Status = cmp.Or(v.state.workflow.status, in.Status)
		return "its workflow is " + in.Status, nil
	case m.kind == typeCompletion:
		return p.handOn(in, v, m, o)
	case m.kind == typeAnswer:
		return p.overrule(in, v, m)
	}
	return "it was answered", nil
}

// begin makes the user's request the current workflow, and activates the planner.
func (p composer) begin(in *intent, m *handoffMessage, o jsonfile.Object) (string, error) {
	payload, _ := o.Object("payload")
	asked := *m
	asked.to, asked.work.id, asked.work.kind, asked.work.iteration = orchestrator, workflowOf(m.id), cmp.Or(m.work.kind, workflowFeature), 1
	doc, err := p.follow(&asked, payload, documentRoles[0], typeTask)
	if err != nil {
		return "", err
	}
	in.Box, in.Status, in.Messages = accepted.String(), accepted.String(), rawList(doc)
	note := in.hand(doc)
	in.State.Begin = &workflowDoc{asked.work.id, asked.work.kind, jsonfile.FormatTime(p.Now), asked.work.spec}
	return note, nil
}

// handOn creates the handoff that follows a completion, if its agent has not, and ends the workflow that a reviewer
// approves. What an agent could not do goes to the human.
func (p composer) handOn(in *intent, v *view, done *handoffMessage, o jsonfile.Object) (string, error) {
	m := v.completedBy(done)
	payload, _ := o.Object("payload")
	if gaveUp(payload) {
		return p.ask(in, m, reasonPhase, protocol.Report{Summary: cmp.Or(done.summary, done.title)})
	}
	doc, err := p.next(m, o, "")
	if err != nil {
		return "", err
	}
	if doc != nil {
		in.Messages = rawList(doc)
		return in.hand(doc), nil
	}
	if w := &v.state.workflow; strings.EqualFold(done.from, "reviewer") && !needsFixes(payload) && w.running() && w.has(&summary{work: m.work, created: m.created}) {
		in.State.End, in.State.As = w.id, agentCompleted
		return "workflow " + w.id + " is complete", nil
	}
	return "nothing follows, or its agent has already created the next handoff", nil
}

// completedBy returns the handoff that a completion is about: the one that it names, else the agent's newest. Without
// either, it describes the work by the completion alone.
func (v *view) completedBy(done *handoffMessage) *handoffMessage {
	if h := v.find(done.work.follows); h != nil {
		return &h.Value
	}
	theirs := func(h *handoff) bool { return strings.EqualFold(h.Value.to, done.from) && h.where() != pending }
	if m := v.newest(theirs); m.id != "" {
		return m
	}
	m := *done
	m.to, m.from = done.from, orchestrator
	return &m
}

// overrule carries out the human's decision about further fix rounds.
func (p composer) overrule(in *intent, v *view, answer *handoffMessage) (string, error) {
	e := v.escalation(answer)
	w, review := &v.state.workflow, v.find(e.Value.about)
	if answer.call.text != optionFix || review == nil {
		in.State.End, in.State.As = w.id, agentCompleted
		if answer.call.text == optionStop {
			in.State.As = statusCancelled
		}
		return "workflow " + w.id + " is " + in.State.As, nil
	}
	payload := jsonfile.Object{}
	for _, h := range v.handoffs {
		if h.Value.kind == typeCompletion && h.Value.work.follows == review.Value.id {
			o, _, err := p.Root.Load(h.file, maxFile)
			if err != nil {
				return "", err
			}
			payload, _ = o.Object("payload")
		}
	}
	doc, err := p.follow(&review.Value, payload, "fixer", typeFix)
	if err != nil {
		return "", err
	}
	in.Messages = rawList(doc)
	return in.hand(doc), nil
}
