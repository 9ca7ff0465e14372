package handoffs

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// The types of protocol 001, Message Types, and the answer to an escalation. The enum is open.
const (
	typeTask       = "task_handoff"
	typeReview     = "review_request"
	typeFix        = "fix_request"
	typeRereview   = "rereview_request"
	typeCompletion = "completion"
	typeEscalation = "escalation"
	typeAnswer     = "escalation_response"
)

// handoffMessage is one file of a handoff folder (protocol 001, Message Format), as far as steward reads it.
type handoffMessage struct {
	id, from, to, kind, status string
	title, summary             string
	priority                   protocol.Priority
	created                    jsonfile.Stated
	work                       workRef
	about                      string   // the handoff that an escalation is about
	replies                    []string // the escalations to which an answer may refer
	reason                     string   // why its agent rejected it
	failed                     bool     // the message reports errors
	failure                    protocol.Failure
	call                       call
	acceptedAt, completedAt    jsonfile.Stated // not in the document, but some clients write them
	foreign                    bool            // the file has none of the envelope's keys
	findings                   folder.Findings
}

// workRef is what a message says about its workflow, and which message it follows.
type workRef struct {
	kind, id, spec string
	iteration      int64
	follows        string
}

// call is what an escalation tells the human (protocol 001, Escalation).
type call struct {
	reason       string // as its agent wrote it
	text, detail string
	options      []string
	blocking     bool
	critical     bool
}

// isWork reports whether a message of that type requires work.
func isWork(kind string) bool {
	return kind != typeCompletion && kind != typeEscalation && kind != typeAnswer
}

func (m *handoffMessage) isWork() bool { return isWork(m.kind) }

const maxText = 300

var idKeys = []string{"message_id", "id", "handoff_id"}

// decodeMessage reads a message. A message without an id gets its file's name as its id.
func decodeMessage(o jsonfile.Object, file string) handoffMessage {
	payload, _ := o.Object("payload")
	context, _ := o.Object("context")
	m := handoffMessage{id: idOf(o, file), created: o.FirstStated("timestamp"), from: text(o, "from", 100), to: text(o, "to", 100),
		kind: text(o, "type", 60), status: strings.ToLower(text(o, "status", 40)), findings: findingsIn(o)}
	word, _ := o.String("priority")
	m.priority, _ = protocol.ParsePriority(word)
	m.work = workRef{kind: text(context, "workflow", 100), id: text(context, "workflow_id", 100), spec: text(context, "spec", maxText),
		follows: text(payload, "in_reply_to", 200)}
	m.work.iteration, _ = context.Int("iteration")
	m.title = cmp.Or(first(payload, 120, "title", "summary", "task", "description", "spec"), folder.Line(m.kind+" "+m.from+"→"+m.to, 120))
	m.summary = first(payload, maxText, "summary", "result", "details")
	errors := []jsonfile.Value{payload.Get("error"), payload.Get("errors"), o.Get("error"), o.Get("errors")}
	m.failed = slices.ContainsFunc(errors, reports)
	m.reason = text(o, "reason", maxText)
	m.acceptedAt = o.FirstStated("accepted_at")
	m.completedAt = o.FirstStated("completed_at")
	m.failure = failureOf(errors...)
	m.failure.Code, m.failure.Message = cmp.Or(m.failure.Code, codeFailed), cmp.Or(m.failure.Message, m.summary)
	switch m.kind {
	case typeEscalation:
		keys := []string{"handoff", "handoff_id", "task_id"}
		m.about = cmp.Or(first(payload, 200, keys...), first(context, 200, keys...))
		m.call = decodeCall(payload, strings.EqualFold(word, "critical"))
	case typeAnswer:
		m.replies = repliesOf(o, payload, context)
		m.call = call{text: verbatim(payload.Get("decision")), detail: text(payload, "rationale", maxText)}
	}
	m.foreign = !slices.ContainsFunc([]string{"from", "to", "type", "message_id", "payload"}, o.Has)
	return m
}

func idOf(o jsonfile.Object, file string) string {
	for _, key := range idKeys {
		if id, _ := o.String(key); id != "" {
			return id
		}
	}
	return strings.TrimSuffix(path.Base(file), ".json")
}

// maxOptions bounds the options that an operator is offered.
const maxOptions = 20

func decodeCall(payload jsonfile.Object, critical bool) call {
	reason := strings.ReplaceAll(text(payload, "reason", maxText), "_", " ")
	details := first(payload, maxText, "details", "message", "question", "description")
	k := call{reason: text(payload, "reason", maxText), text: reason, critical: critical}
	switch {
	case reason == "":
		k.text = cmp.Or(details, "an agent asks for a human, and does not say why")
	case details != "":
		k.text = reason + ": " + details
	}
	k.detail = loose(payload.Get("context"))
	k.blocking, _ = payload.Bool("blocking")
	options, _ := payload.Array("options")
	for _, v := range options[:min(len(options), maxOptions)] {
		if s := verbatim(v); s != "" {
			k.options = append(k.options, s)
		}
	}
	return k
}

// verbatim returns an option as its agent wrote it, because the answer must be the same text. For an object, it returns
// the label.
func verbatim(v jsonfile.Value) string {
	if s, ok := v.Text(); ok.OK() {
		if len(s) > 1000 {
			return ""
		}
		return s
	}
	if o, ok := v.Object(); ok.OK() {
		if s := first(o, maxText, "label", "title", "name", "id"); s != "" {
			return s
		}
	}
	return loose(v)
}

// repliesOf lists the ids to which an answer may refer. The document defines no answer, so every likely key is read.
func repliesOf(all ...jsonfile.Object) []string {
	var ids []string
	for i, o := range all {
		keys := []string{"in_reply_to", "reply_to", "escalation_id", "escalation"}
		if i > 0 {
			keys = append(keys, "message_id") // at the top level it is the answer's own id
		}
		for _, key := range keys {
			if id, _ := o.String(key); id != "" && len(id) <= 255 && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// route is a row of the table of protocol 001, Message Types.
type route struct{ kind, from, to string }

// routes is the table; an empty name stands for any agent.
var routes = [...]route{
	{typeTask, "planner", "builder"},
	{typeReview, "builder", "reviewer"},
	{typeFix, "reviewer", "fixer"},
	{typeRereview, "fixer", "reviewer"},
	{typeCompletion, "", "orchestrator"},
	{typeEscalation, "", "orchestrator"},
}

// wrongRoute returns how the message's route departs from the table; "" if it does not, or cannot be judged.
func (m *handoffMessage) wrongRoute() string {
	if m.kind == typeTask && (strings.EqualFold(m.from, orchestrator) || strings.EqualFold(m.from, human)) {
		return "" // it activates an agent (protocol 001, Agent Lifecycle)
	}
	for _, r := range routes {
		if r.kind != m.kind || m.from == "" || m.to == "" {
			continue
		}
		if (r.from == "" || strings.EqualFold(r.from, m.from)) && strings.EqualFold(r.to, m.to) {
			return ""
		}
		return article(r.kind) + " goes from " + cmp.Or(r.from, "any agent") + " to " + r.to + ", not from " + m.from + " to " + m.to
	}
	return ""
}

// article puts "a" or "an" before a word.
func article(word string) string {
	if word != "" && strings.ContainsRune("aeiou", rune(word[0])) {
		return "an " + word
	}
	return "a " + word
}

// stopped reports whether the agent gave the handoff back unfinished.
func (m *handoffMessage) stopped() bool {
	return m.status == statusRejected || m.status == statusFailed
}
