package push

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/livhana/steward/platform/text"
)

// publication is a message in the server's format ("publish as JSON").
type publication struct {
	Topic    string   `json:"topic"`
	Title    string   `json:"title,omitempty"`
	Message  string   `json:"message"`
	Priority int      `json:"priority"`
	Tags     []string `json:"tags,omitempty"`
	Actions  []action `json:"actions,omitempty"`
}

// action is a button: the phone itself posts Body to URL, without the token. Every reader of the topic gets the whole
// message with its buttons and can therefore press them.
type action struct {
	Action string `json:"action"`
	Label  string `json:"label"`
	URL    string `json:"url"`
	Method string `json:"method"`
	Body   string `json:"body"`
	Clear  bool   `json:"clear"` // the phone removes the message once the press was accepted
}

// shownActions is the maximum number of buttons that a server accepts.
const shownActions = 3

// Send publishes a message and returns once the server has confirmed it with an id; from then on the server is
// responsible for the delivery to the phone. ctx limits it. Error.After is the pause that the server requests.
func (n *Ntfy) Send(ctx context.Context, m Message) error {
	const op = "send to "
	doc, err := n.publication(m)
	if err != nil {
		return &Error{Op: op + n.server.Host, Err: err}
	}
	resp, err := n.call(ctx, http.MethodPost, "/", doc, n.token)
	if err != nil {
		return n.failure(op, err)
	}
	defer resp.Body.Close()
	body, err := answer(resp)
	if resp.StatusCode != http.StatusOK {
		return n.refusal(op, resp, body)
	}
	if err != nil {
		return n.failure(op, err)
	}
	var kept streamEvent
	if json.Unmarshal(body, &kept) != nil || kept.ID == "" || kept.Event != eventMessage || kept.Topic != n.topic {
		return &Error{Op: op + n.server.Host, Hint: hintURL, Err: errNoServer}
	}
	return nil
}

var errNoWords = errors.New("the message has no words")

// publication renders the document, at most maxDocument bytes.
func (n *Ntfy) publication(m Message) ([]byte, error) {
	p := publication{Topic: n.topic, Title: headline(m.Title, maxTitle), Message: clean(m.Text, maxText),
		Priority: priority(m), Tags: tags(m), Actions: n.actions(m)}
	if p.Message == "" { // for an empty message a server shows "triggered"
		p.Title, p.Message = "", cmp.Or(p.Title, oneLine(m.Key, maxTitle))
	}
	if p.Message == "" {
		return nil, errNoWords
	}
	doc, err := encode(p)
	if over := len(doc) - maxDocument; err == nil && over > 0 {
		p.Message = text.Cut(p.Message, len(p.Message)-over) // every byte takes at least one byte in JSON
		doc, err = encode(p)
	}
	return doc, err
}

func encode(p publication) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // an escaped "<" would take six bytes of the limit
	err := e.Encode(p)
	return b.Bytes(), err
}

// priority returns ntfy's priority: 5 rings and stays, 3 is an ordinary message, 2 is silent.
func priority(m Message) int {
	if m.Over {
		return 2
	}
	switch m.Severity {
	case "critical":
		return 5
	case "high":
		return 4
	case "low", "info":
		return 2
	}
	return 3
}

// tags returns the tags. A server shows a known tag as an emoji and others as words.
func tags(m Message) []string {
	var all []string
	switch {
	case m.Over:
		all = append(all, "white_check_mark")
	case m.Severity == "critical":
		all = append(all, "rotating_light")
	case m.Severity == "high":
		all = append(all, "warning")
	}
	if m.Blocking && !m.Over {
		all = append(all, "blocking")
	}
	return all
}

// actions returns the buttons. It skips an option that does not fit into a press; the text of a message names the
// other ways to answer.
func (n *Ntfy) actions(m Message) []action {
	var all []action
	if n.reply == "" || m.Over {
		return nil
	}
	for _, o := range m.Options[:min(len(m.Options), shownActions)] {
		body, ok := n.seal(Press{Key: m.Key, Rev: m.Rev, Option: o.ID})
		if !ok {
			continue
		}
		label := cmp.Or(headline(o.Label, maxLabel), headline(o.ID, maxLabel))
		all = append(all, action{Action: "http", Label: cmp.Or(label, "?"), URL: n.server.String() + "/" + n.reply,
			Method: http.MethodPost, Body: body, Clear: true})
	}
	return all
}
