package handoffs

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// human is the sender of an answer. It is not an agent.
const human = "human"

// response is the answer to an escalation, in the envelope of protocol 001, Message Format.
type response struct {
	Version   string          `json:"schema_version"`
	ID        string          `json:"message_id"`
	Timestamp time.Time       `json:"timestamp"`
	From      string          `json:"from"`
	To        string          `json:"to"`
	Type      string          `json:"type"`
	Priority  string          `json:"priority"`
	Payload   responsePayload `json:"payload"`
	Context   responseContext `json:"context"`
	Status    string          `json:"status"`
}

type responsePayload struct {
	InReplyTo string `json:"in_reply_to"` // the escalation's id
	Decision  string `json:"decision"`
	Rationale string `json:"rationale"`
	By        string `json:"answered_by,omitzero"`
}

// responseContext is the escalation's description of its workflow. The rest of its context is not copied: a key there may
// name other escalations.
type responseContext struct {
	Workflow   *jsonfile.Value `json:"workflow,omitzero"`
	WorkflowID *jsonfile.Value `json:"workflow_id,omitzero"`
	Spec       *jsonfile.Value `json:"spec,omitzero"`
	Iteration  *jsonfile.Value `json:"iteration,omitzero"`
}

// maxAnswer bounds an operator's text in runes. Even when escaped, the text stays below a reader's size limit.
const maxAnswer = 8000

// answer puts an operator's decision where the asking agent finds its messages: in pending/, or in handoffs/ itself if
// the escalation lies there. The message's id, and thus its file name, is derived from the answer's key, so it is not
// sent twice, even if the first copy was moved or changed meanwhile. The answer is a single file.
func (p *Project) answer(c protocol.Change) error {
	if c.Subject.Kind != protocol.KindQuestion {
		return fmt.Errorf("%s %s: %w", c.Verb, c.Subject, protocol.ErrUnsupported)
	}
	a := c.Answer
	if a == nil || a.Key == "" || strings.TrimSpace(folder.Line(a.Label, maxAnswer)) == "" {
		return fmt.Errorf("%s %s: the answer has no key or no words", c.Verb, c.Subject)
	}
	p.readState()
	p.readLog()
	p.readBoxes(true, map[string]bool{})
	id := uuidOf(jsonfile.SumOf([]byte(c.Subject.ID + "\x00" + a.Key)))
	if p.exists(id) {
		return p.closeAsked(c)
	}
	asked, err := p.asked(c)
	if err != nil {
		return err
	}
	r, err := p.responseTo(asked, c)
	if err != nil {
		return err
	}
	r.ID = id
	if err := p.post(asked.at, r); err != nil {
		return err
	}
	return p.closeAsked(c)
}

// closeAsked moves the escalation that was just answered to completed/, in one step. It leaves an escalation that was
// rewritten, or that an agent has moved.
func (p *Project) closeAsked(c protocol.Change) error {
	at, name, ok := placeOf(c.Ref.Path)
	blob, err := p.Root.Read(c.Ref.Path, maxFile)
	if !ok || err != nil || at == completed || string(blob.Sum) != c.Ref.Sum {
		return nil
	}
	p.dirty[name] = true
	if at == flat {
		_, err := p.restate(c.Ref.Path, blob, completed)
		return err
	}
	if p.Needs(completed.dir()) != nil {
		return nil
	}
	return p.Root.RenameIf(c.Ref.Path, path.Join(completed.dir(), name), blob.Sum)
}

// asked returns the open escalation that a change refers to.
func (p *Project) asked(c protocol.Change) (*note, error) {
	main, _ := p.sorted()
	n := main[c.Subject.ID]
	switch {
	case n == nil || n.Value.kind != typeEscalation:
		return nil, folder.Moved("the escalation is gone")
	case !slices.ContainsFunc(p.pleas(sortedKeys(main), main), func(k protocol.Question) bool { return k.ID == c.Subject.ID }):
		return nil, folder.Moved("somebody else has settled the escalation")
	}
	return n, nil
}

// responseTo composes the answer to an escalation, if the escalation still is the judged one.
func (p *Project) responseTo(n *note, c protocol.Change) (r response, err error) {
	o, blob, err := p.Root.Load(n.file, maxFile)
	switch {
	case err != nil:
		return r, err
	case string(blob.Sum) != c.Ref.Sum:
		return r, folder.Moved("the escalation was written anew")
	}
	m, a := &n.Value, c.Answer
	context, _ := o.Object("context")
	return response{Version: cmp.Or(text(o, "schema_version", 20), "1.0.0"), Timestamp: p.Now, From: human, To: cmp.Or(m.from, orchestrate), Type: typeAnswer,
		Priority: m.priority.String(), Status: pending.String(),
		Payload: responsePayload{InReplyTo: c.Subject.ID, Decision: short(a.Label), Rationale: short(a.Why), By: strings.TrimSpace(folder.Line(a.By, 100))},
		Context: responseContext{carried(context, "workflow"), carried(context, "workflow_id"), carried(context, "spec"), carried(context, "iteration")}}, nil
}

// carried returns a plain value that the answer copies from the question; nil if there is none.
func carried(o jsonfile.Object, key string) *jsonfile.Value {
	v := o.Get(key)
	if kind := v.Kind(); kind != "string" && kind != "number" || len(v.Raw()) > 1000 {
		return nil
	}
	return &v
}

// post creates the file of an answer. The next scan reads it, with or without a hint.
func (p *Project) post(asked box, r response) error {
	doc, err := jsonfile.Encode(r)
	if err != nil {
		return err
	}
	to := pending
	if asked == flat {
		to = flat
	}
	if err := p.Needs(to.dir()); err != nil {
		return err
	}
	name := "handoff-" + r.ID + ".json"
	p.dirty[name] = true
	return p.Root.Create(path.Join(to.dir(), name), doc, 0o644)
}

// short makes an operator's text fit for a message. Characters that JSON can escape stay as they are.
func short(s string) string { return folder.Short(strings.ToValidUTF8(s, "�"), maxAnswer) }

// uuidOf derives a UUID from a sum, in the form that the document requires.
func uuidOf(sum jsonfile.Sum) string {
	h := []byte(sum[:32])
	h[12], h[16] = '4', "89ab"[h[16]&3]
	return fmt.Sprintf("%s-%s-%s-%s-%s", h[:8], h[8:12], h[12:16], h[16:20], h[20:])
}
