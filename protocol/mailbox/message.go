package mailbox

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// mailbox is one messages/to-<agent>.json: {messages[], lastRead}.
type mailbox struct {
	letters  []message
	lastRead jsonfile.Stated // zero if it is null
	issues   issues          // of the file itself
}

// message is one entry of messages[].
type message struct {
	index  int
	kind   string // task_assignment, completion_report, … or any other word
	task   string // its taskId, if that is a plain name
	from   string
	stated jsonfile.Stated // its timestamp
	at     time.Time       // what stated means
	agreed bool            // steward saw it appear at the time that it states
	read   bool            // read, whatever lastRead says
	raw    jsonfile.Sum
	build  *build // of a completion_report
	plea   *call
	sum    jsonfile.Sum // of a question alone, independent of white space and of other messages
	reply  reply
	issues issues
}

// build is a buildResult (protocol 003, Build Result Object).
type build struct {
	status, command, output, summary string
	errors                           int
}

// call is what a message asks of the user.
type call struct {
	text, detail string
	platform     string
	options      []string
	blocking     bool
	severity     protocol.Severity
}

// maxLetters limits how many messages of one file are read: the newest, which are at the end.
const maxLetters = 500

func decodeMailbox(o jsonfile.Object) mailbox {
	var m mailbox
	items, ok := o.Array("messages")
	if !ok.OK() {
		m.issues.schema("messages", "messages is "+o.Get("messages").Kind()+", not a list")
	}
	if v := o.Get("lastRead"); v.Kind() != "null" && v.Kind() != "missing" {
		at, ok := v.Stated()
		if m.lastRead = at; !ok.OK() {
			m.issues.add("schema", "lastRead", protocol.Low, "lastRead is not a time")
		}
	}
	first := max(0, len(items)-maxLetters)
	if first > 0 {
		m.issues.add("schema", "messages", protocol.Low, fmt.Sprintf("%d messages: only the last %d are looked at", len(items), maxLetters))
	}
	for i, v := range items[first:] {
		m.letters = append(m.letters, decodeLetter(first+i, v))
	}
	return m
}

func decodeLetter(index int, v jsonfile.Value) message {
	l := message{index: index, raw: jsonfile.SumOf(v.Raw())}
	o, ok := v.Object()
	if !ok.OK() {
		l.issues.schema(v.Path(), "the message is not an object")
		return l
	}
	l.kind = line(textOf(o, "type"), 60)
	l.from = line(textOf(o, "from", "agent", "sender"), 60)
	if id := textOf(o, "taskId"); plainID(id) {
		l.task = id
	}
	l.stated = o.FirstStated("timestamp")
	checkLetter(&l, o)
	switch {
	case l.kind == completionReport:
		l.build = decodeBuild(o)
	case pleaKinds[l.kind] != "":
		l.plea, l.sum = decodeCall(l.kind, o), meaning(v)
	case l.kind == answerKind:
		l.reply = decodeReply(o)
	}
	return l
}

func decodeBuild(o jsonfile.Object) *build {
	r, _ := o.Object("buildResult")
	b := &build{status: line(textOf(r, "status"), 40), command: line(textOf(r, "command"), 200), output: line(textOf(r, "output"), 300)}
	b.summary = line(textOf(o, "summary"), 300)
	if n, ok := r.Int("errors"); ok.OK() {
		b.errors = int(min(max(n, 0), 1<<20))
	}
	return b
}

// missesInstructions reports whether the developer could not find its instructions and says so in the document's way
// (protocol 003, Missing Instructions).
func (b *build) missesInstructions() bool {
	return b.status == buildNotVerified && strings.Contains(strings.ToLower(b.summary), "instruction")
}

// pleaKinds maps the message types that ask for a decision to their severity. The document defines none of these types,
// but agents write them.
var pleaKinds = map[string]protocol.Severity{
	"question": protocol.Medium, "clarification": protocol.Medium, "clarification_request": protocol.Medium,
	"blocker": protocol.High, "escalation": protocol.High,
}

// urgent reports whether a question goes to the user at once. The agents may settle the others among themselves first.
func (c *call) urgent() bool { return c.blocking || c.severity.Rank() >= protocol.High.Rank() }

func decodeCall(kind string, o jsonfile.Object) *call {
	c := &call{severity: pleaKinds[kind]}
	c.blocking, _ = o.Bool("blocking")
	c.blocking = c.blocking || kind == "blocker"
	c.text = line(textOf(o, "question", "text", "message", "summary", "title", "reason", "content", "description"), 300)
	if c.text == "" {
		c.text = strings.ReplaceAll(kind, "_", " ") + " without words"
	}
	c.detail = line(textOf(o, "details", "detail", "context"), 1000)
	if word := textOf(o, "platform"); slices.Contains(platforms, word) {
		c.platform = word
	}
	if options, ok := o.Strings("options"); ok != jsonfile.Missing {
		c.options = options[:min(len(options), 20)]
	}
	switch s := protocol.Severity(strings.ToLower(textOf(o, "severity"))); s {
	case protocol.Low, protocol.Medium, protocol.High, protocol.Critical:
		c.severity = s
	}
	return c
}

// isAnswer reports whether a message settles a question about the same task.
func (l *message) isAnswer() bool {
	return l.kind == "answer" || strings.HasSuffix(l.kind, "_response") || strings.HasSuffix(l.kind, "_answer")
}

// sender returns the agent that writes to a mailbox, according to the document or the program.
func sender(box string) string {
	switch box {
	case "to-developer.json":
		return "tech-lead"
	case "to-tech-lead.json", "to-team-lead.json":
		return developer
	case "to-designer.json":
		return "planner"
	}
	return orchestrator
}
