package push

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
)

// publication is a message as a server wants it ("publish as JSON").
type publication struct {
	Topic    string   `json:"topic"`
	Title    string   `json:"title,omitempty"`
	Message  string   `json:"message"`
	Priority int      `json:"priority"`
	Tags     []string `json:"tags,omitempty"`
	Actions  []action `json:"actions,omitempty"`
}

// action is a button: the phone itself posts Body to URL. It goes without the token, for everybody who may read the
// topic reads the whole message, buttons included, and can press them: who may read the topic may answer.
type action struct {
	Action string `json:"action"`
	Label  string `json:"label"`
	URL    string `json:"url"`
	Method string `json:"method"`
	Body   string `json:"body"`
	Clear  bool   `json:"clear"` // the message goes away once the press was taken
}

// shownActions is how many a server takes.
const shownActions = 3

// Send publishes and returns once the server has named the message that it keeps: from there on it is the server's to
// bring it to the phone. ctx bounds it. Error.After is the rest that the server asks for.
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
	var kept event
	if json.Unmarshal(body, &kept) != nil || kept.ID == "" || kept.Event != eventMessage || kept.Topic != n.topic {
		return &Error{Op: op + n.server.Host, Hint: hintURL, Err: errNoServer}
	}
	return nil
}

var errNoWords = errors.New("the message has no words")

// publication makes the document, at most maxDocument bytes of it.
func (n *Ntfy) publication(m Message) ([]byte, error) {
	p := publication{Topic: n.topic, Title: headline(m.Title, maxTitle), Message: clean(m.Text, maxText),
		Priority: priority(m), Tags: tags(m), Actions: n.actions(m)}
	if p.Message == "" { // a server would write "triggered" there
		p.Title, p.Message = "", cmp.Or(p.Title, oneLine(m.Key, maxTitle))
	}
	if p.Message == "" {
		return nil, errNoWords
	}
	doc, err := encode(p)
	if over := len(doc) - maxDocument; err == nil && over > 0 {
		p.Message = cut(p.Message, len(p.Message)-over) // in JSON no byte is shorter
		doc, err = encode(p)
	}
	return doc, err
}

func encode(p publication) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // a "<" would take six bytes of the few
	err := e.Encode(p)
	return b.Bytes(), err
}

// priority is ntfy's: 5 rings and stays, 3 is an ordinary message, 2 makes no sound.
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

// tags become emoji where a server knows the word, and are shown as words otherwise.
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
	for _, t := range m.Tags[:min(len(m.Tags), 8)] {
		if isTag(t) && !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	return all
}

// isTag keeps commas out, which would make two of one.
func isTag(t string) bool {
	for _, r := range t {
		if !(r == '_' || r == '-' || r == '+' || r >= '0' && r <= '9' || r|0x20 >= 'a' && r|0x20 <= 'z') {
			return false
		}
	}
	return t != "" && len(t) <= maxTag
}

// actions are the buttons. An option that no press could carry has none; the words of a message say how else to answer.
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
