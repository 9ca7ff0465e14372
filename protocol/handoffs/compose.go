package handoffs

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// workflowFeature is the kind of a workflow whose author names none (protocol 001, Message Format).
const workflowFeature = "feature"

var workflowKinds = []string{workflowFeature, "bugfix", "refactor"}

// documentRoles are the agents that the table of message types names, in the order of the flow.
var documentRoles = []string{"planner", "builder", "reviewer", "fixer", orchestrator}

func isRole(name string) bool { return slices.Contains(documentRoles, strings.ToLower(name)) }

// typeOf returns the type of a message between two agents (protocol 001, Message Types), or "" if the table has none.
func typeOf(from, to string) string {
	for _, r := range routes {
		if r.from != "" && strings.EqualFold(r.from, from) && strings.EqualFold(r.to, to) {
			return r.kind
		}
	}
	activates := strings.EqualFold(from, human) || strings.EqualFold(from, orchestrator)
	if activates || !isRole(from) || !isRole(to) {
		return typeTask
	}
	return ""
}

// payloadDoc is the payload of the messages that steward composes.
type payloadDoc struct {
	Title       string   `json:"title,omitzero"`
	Description string   `json:"description,omitzero"`
	InReplyTo   string   `json:"in_reply_to,omitzero"` // the handoff that a completion is about, or that this one follows
	Status      string   `json:"status,omitzero"`
	Summary     string   `json:"summary,omitzero"`
	Created     []string `json:"created,omitzero"`
	Modified    []string `json:"modified,omitzero"`
	Issues      []string `json:"issues,omitzero"`
	Next        []string `json:"next_steps,omitzero"`
}

// escalationDoc is the payload of an escalation (protocol 001, Escalation).
type escalationDoc struct {
	Reason   string   `json:"reason"`
	Details  string   `json:"details"`
	Options  []string `json:"options"`
	Context  string   `json:"context,omitzero"`
	Blocking bool     `json:"blocking"`
	Handoff  string   `json:"handoff"`
}

// composer makes messages for a project.
type composer struct{ *Project }

// compose makes the message of an order, and checks it.
func (p composer) compose(o protocol.Order) ([]byte, error) {
	from, to := sides(o.From, o.To)
	if o.Document != nil {
		var sets []jsonfile.Set
		for key, name := range map[string]string{"from": o.From, "to": o.To} {
			if name != "" {
				sets = append(sets, jsonfile.Set{Path: []string{key}, Value: name})
			}
		}
		doc, err := jsonfile.Edit(o.Document, sets...)
		if err != nil {
			return nil, folder.Refuse("%v", err)
		}
		return checked(doc, o.Fields)
	}
	id := cmp.Or(o.ID, uuidOf(jsonfile.SumOf([]byte(rand.Text()))))
	s := p.state.current()
	context := messageContext{Workflow: workflowFeature, Iteration: 1}
	switch w := &s.workflow; {
	case strings.EqualFold(to, orchestrator): // the orchestrator begins its workflow
	case w.running():
		context = messageContext{Workflow: cmp.Or(w.kind, workflowFeature), WorkflowID: none(w.id), Spec: none(w.spec), Iteration: max(s.iteration, 1)}
	default:
		context.WorkflowID = workflowOf(id)
	}
	title, kind := cmp.Or(o.Title, folder.Line(o.Text, 120)), cmp.Or(o.Type, typeOf(from, to))
	if kind == typeRereview && s.workflow.running() {
		context.Iteration = max(s.iteration, 1) + 1
	}
	return p.encode(outgoing{ID: id, From: from, To: to, Type: kind, Priority: cmp.Or(o.Priority, "medium"),
		Payload: payloadDoc{Title: title, Description: o.Text}, Context: context}, o.Fields)
}

// sides completes the sender and the receiver of an order as the table of message types implies.
func sides(from, to string) (string, string) {
	for _, r := range routes {
		switch {
		case r.from == "":
		case to == "" && strings.EqualFold(r.from, from):
			to = r.to
		case from == "" && strings.EqualFold(r.to, to):
			from = r.from
		}
	}
	return cmp.Or(from, human), cmp.Or(to, orchestrator)
}

// encode completes a message, sets further fields, and checks it.
func (p composer) encode(m outgoing, fields map[string]any) ([]byte, error) {
	m.Version, m.Timestamp, m.Status = "1.0.0", p.Now, pending.String()
	doc, err := jsonfile.Encode(m)
	if err != nil {
		return nil, err
	}
	return checked(doc, fields)
}

// checked sets fields of a message and checks it against the document.
func checked(doc []byte, fields map[string]any) ([]byte, error) {
	doc, err := folder.SetFields(doc, fields)
	if err != nil {
		return nil, err
	}
	o, err := jsonfile.Parse(doc)
	if err != nil {
		return nil, folder.Refuse("%v", err)
	}
	return doc, folder.Invalid(append(messageTable.Problems(o), unsent(o)...))
}

// unsent lists why steward does not send a message of correct form: a route between two of the document's agents that the
// table of message types does not have, a status other than pending, a name that no agent can have.
func unsent(o jsonfile.Object) (problems []string) {
	m := decodeMessage(o, "")
	if m.kind == "" && m.from != "" && m.to != "" {
		problems = append(problems, fmt.Sprintf("protocol 001 has no type of message from %s to %s", m.from, m.to))
	}
	if why := m.wrongRoute(); why != "" && isRole(m.from) && isRole(m.to) {
		problems = append(problems, why)
	}
	if m.status != "" && m.status != pending.String() {
		problems = append(problems, "status must be pending in a new message")
	}
	for key, name := range map[string]string{"from": m.from, "to": m.to} {
		if name != "" && (!usable(name) || !plain(name)) {
			problems = append(problems, fmt.Sprintf("%s is %q, which is not a valid agent name", key, name))
		}
	}
	slices.Sort(problems)
	return problems
}

// workflowOf is the id of the workflow that a message begins.
func workflowOf(id string) string { return "workflow-" + id }

// idAfter derives the id of a message from what it follows, so that it is written once.
func idAfter(what string, ids ...string) string {
	return uuidOf(jsonfile.SumOf([]byte(what + "\x00" + strings.Join(ids, "\x00"))))
}

func rawList(docs ...[]byte) (list []json.RawMessage) {
	for _, doc := range docs {
		if doc != nil {
			list = append(list, json.RawMessage(doc))
		}
	}
	return list
}

// none returns nil for an empty text.
func none(s string) any {
	if s == "" {
		return nil
	}
	return s
}
