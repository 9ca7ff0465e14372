package mailbox

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// mailbox is one messages/to-<agent>.json: {messages[], lastRead}.
type mailbox struct {
	messages []message
	lastRead jsonfile.Stated // zero if it is null
	issues   folder.Findings // of the file itself
}

// message is one entry of messages[].
type message struct {
	index    int
	kind     string // task_assignment, completion_report, … or any other word
	task     string // its taskId, if that is a plain name
	from     string
	stated   jsonfile.Stated // its timestamp
	at       time.Time       // what stated means
	agreed   bool            // steward saw it appear at the time that it states
	read     bool            // read, whatever lastRead says
	raw      jsonfile.Sum
	build    *build // of a completion_report
	question *question
	reply    reply
	issues   folder.Findings
}

// build is a buildResult (protocol 003, Build Result Object).
type build struct {
	status, command, output, summary string
	errors                           int
}

// maxMessages limits how many messages of one file are read: the newest, which are at the end.
const maxMessages = 500

func decodeMailbox(o jsonfile.Object) mailbox {
	var m mailbox
	items, ok := o.Array("messages")
	if !ok.OK() {
		m.issues.Schema(protocol.Medium, "messages", "is %s, not a list", o.Get("messages").Kind())
	}
	last, ok := o.Stated("lastRead")
	if m.lastRead = last; ok == jsonfile.Wrong {
		m.issues.Schema(protocol.Low, "lastRead", "is not a time")
	}
	first := max(0, len(items)-maxMessages)
	if first > 0 {
		m.issues.Add(folder.CodeSchema, "messages", protocol.Low, fmt.Sprintf("%d messages: only the last %d are read", len(items), maxMessages))
	}
	for i, v := range items[first:] {
		m.messages = append(m.messages, decodeMessage(first+i, v))
	}
	return m
}

func decodeMessage(index int, v jsonfile.Value) message {
	l := message{index: index, raw: jsonfile.SumOf(v.Raw())}
	o, ok := v.Object()
	if !ok.OK() {
		l.issues.Add(folder.CodeSchema, v.Path(), protocol.Medium, "the message is not an object")
		return l
	}
	l.kind = line(folder.FirstText(o, "type"), 60)
	l.from = line(folder.FirstText(o, "from", "agent", "sender"), 60)
	if id := folder.FirstText(o, "taskId"); plainID(id) {
		l.task = id
	}
	l.stated = o.FirstStated("timestamp")
	l.check(o)
	switch {
	case l.kind == completionReport:
		l.build = decodeBuild(o)
	case questionKinds[l.kind] != "":
		l.question = decodeQuestion(l.kind, o)
	case l.kind == answerKind:
		l.reply = decodeReply(o)
	}
	return l
}

func decodeBuild(o jsonfile.Object) *build {
	r, _ := o.Object("buildResult")
	return &build{status: line(folder.FirstText(r, "status"), 40), command: line(folder.FirstText(r, "command"), 200), output: line(folder.FirstText(r, "output"), 300),
		summary: line(folder.FirstText(o, "summary"), 300), errors: boundedInt(r, "errors", 1<<20)}
}

// finding judges a report's build (protocol 003, Build Failures and Missing Instructions). A failed build whose task was
// approved anyway is no longer of high severity.
func (b *build) finding(approved bool) (f protocol.Finding, ok bool) {
	f = protocol.Finding{Code: "build", Field: "buildResult.status", Severity: protocol.Medium}
	switch {
	case b.status == buildNotVerified && strings.Contains(strings.ToLower(b.summary), "instruction"):
		f.Code, f.Text = "instructions", "the developer could not find its instructions: "+b.summary
	case b.status == buildNotVerified:
		f.Text = "the build was not run: " + b.said(b.summary)
	case b.status == buildFailed:
		f.Text = fmt.Sprintf("the build failed with %d errors: %s", b.errors, b.said(b.output))
		if !approved {
			f.Severity = protocol.High
		}
	case b.status == buildSuccess && b.errors > 0:
		f.Text = fmt.Sprintf("the build is called a success with %d errors: %s", b.errors, b.said(b.output))
	default:
		return f, false
	}
	return f, true
}

// said returns the report's text, or else the command that the report names.
func (b *build) said(words string) string { return cmp.Or(words, b.command, "it does not say more") }

// plainID reports whether an id may become part of a file name.
func plainID(id string) bool {
	return jsonfile.PlainName(id) && !strings.HasPrefix(id, ".") && len(id) <= 120
}

// line turns a foreign text into one line for display, without repeated spaces.
func line(s string, n int) string {
	return folder.Line(strings.Join(strings.Fields(folder.Line(s, 4*n)), " "), n)
}

// boundedInt returns a number between 0 and most.
func boundedInt(o jsonfile.Object, key string, most int64) int {
	n, _ := o.Int(key)
	return int(min(max(n, 0), most))
}
