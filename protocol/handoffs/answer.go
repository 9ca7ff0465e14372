package handoffs

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// human is the sender of an answer. It is not an agent.
const human = "human"

// outgoing is a message that steward writes (protocol 001, Message Format).
type outgoing struct {
	Version   string         `json:"schema_version"`
	ID        string         `json:"message_id"`
	Timestamp time.Time      `json:"timestamp"`
	From      string         `json:"from"`
	To        string         `json:"to"`
	Type      string         `json:"type"`
	Priority  string         `json:"priority"`
	Payload   any            `json:"payload"`
	Context   messageContext `json:"context"`
	Status    string         `json:"status"`
}

type responsePayload struct {
	InReplyTo string `json:"in_reply_to"` // the escalation's id
	Decision  string `json:"decision"`
	Rationale string `json:"rationale"`
	By        string `json:"answered_by,omitzero"`
}

// messageContext is what a message says about its workflow. The rest of an escalation's context is not copied into its
// answer: a key there may name other escalations.
type messageContext struct {
	Workflow   any `json:"workflow,omitzero"`
	WorkflowID any `json:"workflow_id,omitzero"`
	Spec       any `json:"spec,omitzero"`
	Iteration  any `json:"iteration,omitzero"`
}

// contextOf copies the context of a message.
func contextOf(o jsonfile.Object) messageContext {
	context, _ := o.Object("context")
	return messageContext{copied(context, "workflow"), copied(context, "workflow_id"), copied(context, "spec"), copied(context, "iteration")}
}

// answer puts an operator's decision where the asking agent finds its messages: in pending/, or in handoffs/ itself if
// the escalation lies there. The message's id, and thus its file name, is derived from the answer's key, so it is not
// sent twice, even if the first copy was moved or changed meanwhile. The answer is a single file.
func (p *Project) answer(c protocol.Change) error {
	key, err := folder.AnswerKey(c)
	if err != nil {
		return err
	}
	p.state.read()
	p.log.read()
	p.boxes.read(nil)
	id := uuidOf(jsonfile.Sum(key))
	if !p.boxes.exists(id) {
		if err := p.send(id, c); err != nil {
			return err
		}
	}
	return p.closeEscalation(c)
}

// send creates the file of an answer, if the escalation is still open and the judged one. The next scan reads the file,
// with or without a hint.
func (p *Project) send(id string, c protocol.Change) error {
	v := p.view()
	h := v.find(c.Subject.ID)
	switch {
	case h == nil || h.Value.kind != typeEscalation:
		return folder.Moved("the escalation is gone")
	case !slices.ContainsFunc(v.questions(), func(q protocol.Question) bool { return q.ID == c.Subject.ID }):
		return folder.Moved("the escalation has already been settled")
	}
	o, blob, err := p.Root.Load(h.file, maxFile)
	switch {
	case err != nil:
		return err
	case string(blob.Sum) != c.Ref.Sum:
		return folder.Moved("the escalation was rewritten")
	}
	doc, err := jsonfile.Encode(responseTo(o, &h.Value, id, c, p.Now))
	if err != nil {
		return err
	}
	to := pending
	if h.box == flat {
		to = flat
	}
	if err := p.Needs(to.dir()); err != nil {
		return err
	}
	return p.Root.Create(path.Join(to.dir(), "handoff-"+id+".json"), doc, 0o644)
}

// responseTo composes the answer to an escalation.
func responseTo(o jsonfile.Object, m *handoffMessage, id string, c protocol.Change, now time.Time) outgoing {
	a := c.Answer
	return outgoing{Version: cmp.Or(text(o, "schema_version", 20), "1.0.0"), ID: id, Timestamp: now, From: human, To: cmp.Or(m.from, orchestrator),
		Type: typeAnswer, Priority: m.priority.String(), Status: pending.String(),
		Payload: responsePayload{c.Subject.ID, folder.AnswerText(a.Label), folder.AnswerText(a.Why), folder.Clean(a.By, 100)},
		Context: contextOf(o)}
}

// copied returns a plain value of another message's context; nil if none exists.
func copied(o jsonfile.Object, key string) any {
	v := o.Get(key)
	if kind := v.Kind(); kind != "string" && kind != "number" || len(v.Raw()) > 1000 {
		return nil
	}
	return v
}

// closeEscalation moves the escalation that was just answered to completed/, in one step. It leaves an escalation that was
// rewritten, or that an agent has moved.
func (p *Project) closeEscalation(c protocol.Change) error {
	at, name, ok := placeOf(c.Ref.Path)
	blob, err := p.Root.Read(c.Ref.Path, maxFile)
	if !ok || err != nil || at == completed || string(blob.Sum) != c.Ref.Sum {
		return nil
	}
	if at == flat {
		_, err := p.setStatus(c.Ref.Path, blob, completed.String())
		return err
	}
	if p.Needs(completed.dir()) != nil {
		return nil
	}
	return p.Root.RenameIf(c.Ref.Path, path.Join(completed.dir(), name), blob.Sum)
}

// uuidOf derives a UUID from a sum, in the form that the document requires.
func uuidOf(sum jsonfile.Sum) string {
	h := []byte(sum[:32])
	h[12], h[16] = '4', "89ab"[h[16]&3]
	return fmt.Sprintf("%s-%s-%s-%s-%s", h[:8], h[8:12], h[12:16], h[16:20], h[20:])
}
