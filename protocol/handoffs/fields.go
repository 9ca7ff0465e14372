package handoffs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// The codes of this adapter's findings.
const (
	codeRoute     = "route"     // a from→to pair that is not in the table of message types
	codeStatus    = "status"    // the status in a file differs from its folder
	codeRejected  = "rejected"  // rejected: the protocol has no folder for it
	codeUnclaimed = "unclaimed" // pending, with no agent to take it
	codeAbandoned = "abandoned" // accepted, by an agent whose status says that it does nothing
	codeDuplicate = "duplicate" // two files with one id
	codeWorkflow  = "workflow"  // the state file contradicts itself or the folders
	codeLock      = "lock"      // a lock whose holder the state file does not list
	codeLog       = "log"       // lines of the events log that are not JSON objects
)

// settles names how the operator settles a finding that the files alone cannot settle. The operator is told of these
// codes regardless of severity.
var settles = map[string]string{codeWorkflow: "Reviewed", codeRejected: "Taken care of"}

// finding returns a finding without its subject.
func finding(code string, severity protocol.Severity, field, format string, args ...any) protocol.Finding {
	settle, call := settles[code]
	return protocol.Finding{Code: code, Field: field, Severity: severity, Text: fmt.Sprintf(format, args...), Call: call, Settle: settle}
}

// The words of protocol 001, Message Format. Readers accept others.
var (
	messageTypes = []string{typeTask, typeReview, typeFix, typeRereview, typeCompletion, typeEscalation, typeAnswer}
	priorities   = []string{"critical", "high", "medium", "low"}
	statuses     = []string{"pending", "accepted", "completed", "rejected"}
)

var (
	timeText = folder.Format{Name: "a time", Fits: func(s string) bool { return !jsonfile.ParseStated(s).At.IsZero() }, Schema: `"format": "date-time"`}
	fileName = folder.Format{Name: "a name for a file", Fits: usable, Schema: `"pattern": "^[^/\\\\]+$", "maxLength": 200`}
)

// messageTable describes a message (protocol 001, Message Format and Escalation).
var messageTable = folder.Table{
	Fields: []folder.Field{folder.Must("schema_version", folder.Text), {Key: "message_id", Form: folder.Text, Format: fileName}, {Key: "timestamp", Form: folder.String, Format: timeText},
		folder.Must("from", folder.Text), folder.Must("to", folder.Text), folder.Must("type", folder.Text, messageTypes...), folder.Must("priority", folder.Text, priorities...),
		folder.Must("status", folder.Text, statuses...), folder.Must("payload", folder.Object), {Key: "context", Form: folder.Object, Inside: folder.Table{
			Fields: []folder.Field{folder.May("workflow", folder.Text, workflowKinds...), folder.May("spec", folder.Text), folder.May("iteration", folder.Number)}}}},
	Cases: []folder.Case{{Key: "type", Words: []string{typeEscalation}, Then: folder.Table{Fields: []folder.Field{
		{Key: "payload", Form: folder.Object, Inside: folder.Table{Fields: []folder.Field{folder.Must("reason", folder.Text), folder.May("details", folder.Text),
			folder.May("options", folder.List), folder.May("context", folder.Any), folder.May("blocking", folder.Boolean)}}}}}}}}

// stateTable describes the state file (protocol 001, Shared State File and Lock Protocol).
var stateTable = folder.Table{Fields: []folder.Field{folder.May("schema_version", folder.Text),
	{Key: "current_workflow", Form: folder.Object, Need: folder.Optional, Inside: folder.Table{Fields: []folder.Field{
		folder.May("id", folder.Text), folder.May("type", folder.Text), folder.May("started", folder.Time), folder.May("spec", folder.Text)}}},
	folder.May("current_agent", folder.Text), folder.May("last_handoff", folder.Text), folder.May("iteration", folder.Number),
	{Key: "locks", Form: folder.Object, Item: &folder.Field{Form: folder.Object, Need: folder.Optional, Inside: folder.Table{Fields: []folder.Field{
		folder.Must("agent", folder.Text), folder.Must("acquired", folder.Time), folder.Must("expires", folder.Time)}}}},
	{Key: "agents", Form: folder.Object, Item: &folder.Field{Form: folder.Object, Inside: folder.Table{Fields: []folder.Field{
		folder.Must("status", folder.Text), folder.May("last_active", folder.Time)}}}}}}

// Messages lists the messages and files of protocol 001.
func Messages() []folder.Message {
	return []folder.Message{{Name: "handoffs/message", Title: "Protocol 001, Message Format, Message Types and Escalation", Table: messageTable},
		{Name: "handoffs/state", Title: "Protocol 001, Shared State File and Lock Protocol", Table: stateTable}}
}

// CheckMessage checks a message before it is written, more strictly than it is read (protocol 001, Message Format, Message
// Types and Escalation). The error is an *protocol.InvalidError that lists every problem.
func CheckMessage(doc []byte) error {
	return folder.CheckMessage(doc, func(jsonfile.Object) *folder.Table { return &messageTable })
}

// findingsIn lists how a message differs from the document. Readers accept other words than the document's, empty texts,
// and any content of payload and context.
func findingsIn(o jsonfile.Object) (list folder.Findings) {
	for _, d := range messageTable.Check(o) {
		word, _ := d.Value.Text()
		_, known := protocol.ParsePriority(word)
		switch {
		case d.Key == "timestamp" && d.Trouble == folder.Malform:
			list.Schema(protocol.Low, d.Key, "is not a time")
		case strings.Contains(d.Key, "."), d.Trouble == folder.Empty, d.Trouble == folder.Malform:
		case d.Key == "message_id" && d.Trouble == folder.Absent && slices.ContainsFunc(idKeys, o.Has): // another key with the id occurs in practice
		case d.Trouble != folder.Unlisted:
			list.Defect(d)
		case d.Key == "priority" && !known:
			list.Schema(protocol.Low, d.Key, "is %q, none of %s", folder.Line(word, 40), strings.Join(priorities, ", "))
		}
	}
	return list
}

// text returns a field's text in one line, or "".
func text(o jsonfile.Object, key string, limit int) string {
	s, _ := o.String(key)
	return folder.Clean(s, limit)
}

// first returns the text of the first of some fields that has one.
func first(o jsonfile.Object, limit int, keys ...string) string {
	for _, key := range keys {
		if s := text(o, key, limit); s != "" {
			return s
		}
	}
	return ""
}

// plain reports whether a name can be shown and stored as it is: not empty, one line, at most 300 bytes.
func plain(name string) bool {
	return name != "" && len(name) <= 300 && folder.Line(name, 300) == name
}

// usable reports whether an id can be part of one of steward's file names, with room for a suffix.
func usable(id string) bool { return len(id) <= 200 && jsonfile.PlainName(id) }
