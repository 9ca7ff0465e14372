package mailbox

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// The document's two message types. Other types occur in practice.
const (
	taskAssignment   = "task_assignment"
	completionReport = "completion_report"
)

// The states of a build (protocol 003, Build Result Object).
const (
	buildSuccess       = "success"
	buildFailed        = "failed"
	buildNotApplicable = "not_applicable"
	buildNotVerified   = "not_verified"
)

var (
	platforms   = []string{"web", "android", "ios", "custom"}
	buildStates = []string{buildSuccess, buildFailed, buildNotApplicable, buildNotVerified}
)

func textField(key string, words ...string) folder.Field {
	return folder.Field{Key: key, Form: folder.Text, Words: words}
}

func listField(key string) folder.Field {
	return folder.Field{Key: key, Form: folder.List, Item: &folder.Field{Form: folder.String}}
}

func optional(f folder.Field) folder.Field { f.Need = folder.Optional; return f }

var plainName = folder.Format{Name: "a plain name", Fits: plainID, Schema: `"pattern": "^[^./\\\\][^/\\\\]*$", "maxLength": 120`}

// buildTable describes a build result. A build that was not run has no command.
var buildTable = folder.Table{Fields: []folder.Field{textField("status", buildStates...), {Key: "errors", Form: folder.Number}},
	Cases: []folder.Case{
		{Key: "status", Words: []string{buildNotApplicable, buildNotVerified}, Else: folder.Table{Fields: []folder.Field{textField("command")}}},
		{Key: "status", Words: []string{buildFailed}, Then: folder.Table{Fields: []folder.Field{textField("output")}}}}}

// messageFields lists the fields by type, in addition to those of every message (protocol 003, Message Types; the last five
// types are the program's own).
var messageFields = map[string][]folder.Field{
	taskAssignment: {textField("title"), textField("instructions"), listField("filesToCreate"), textField("architecture"), optional(listField("apiEndpoints"))},
	completionReport: {textField("status", awaitingReview), textField("summary"), listField("filesCreated"), listField("filesModified"),
		{Key: "buildResult", Form: folder.Object, Inside: buildTable}},
	"planning_document":    {textField("productVision"), {Key: "coreFeatures", Form: folder.List}, {Key: "userFlows", Form: folder.List}, {Key: "requirements", Form: folder.List}},
	"design_specification": {{Key: "designTokens", Form: folder.Object}, {Key: "componentSpecs", Form: folder.List}},
	"design_verification":  {{Key: "verified", Form: folder.Boolean}, {Key: "discrepancies", Form: folder.List}, textField("summary")},
	"review_result":        {},
	"discovery_result":     {},
}

// messageTable describes the messages of a type; without fields, one that the document does not define.
func messageTable(kind string) *folder.Table {
	fields, known := messageFields[kind]
	if !known { // an agent that asks, and its answer, have only what every message needs
		kinds := slices.Sorted(maps.Keys(messageFields))
		return &folder.Table{Fields: []folder.Field{textField("type", append(append(kinds, slices.Sorted(maps.Keys(questionKinds))...), answerKind)...),
			{Key: "timestamp", Form: folder.Time}}}
	}
	return &folder.Table{Fields: slices.Concat([]folder.Field{textField("type", kind),
		{Key: "taskId", Form: folder.Text, Format: plainName},
		textField("platform", platforms...), {Key: "timestamp", Form: folder.Time}}, fields)}
}

// queueTable describes the queue (protocol 003, Task State Transitions; the other fields are the program's own).
var queueTable = folder.Table{Fields: []folder.Field{{Key: "tasks", Form: folder.List, Item: &queued}, {Key: "completed", Form: folder.List, Need: folder.Optional, Item: &queued},
	optional(textField("current")), {Key: "lastUpdated", Form: folder.Time, Need: folder.Optional}}}

var queued = folder.Field{Form: folder.Object, Inside: folder.Table{Fields: []folder.Field{{Key: "id", Form: folder.Text, Format: plainName},
	textField("status", pending, inProgress, awaitingReview, completed, rejected), optional(textField("title")), optional(textField("rejectionReason")),
	{Key: "createdAt", Form: folder.Time, Need: folder.Optional}, {Key: "updatedAt", Form: folder.Time, Need: folder.Optional}}}}

// Messages lists the messages and files of protocol 003.
func Messages() []folder.Message {
	return []folder.Message{{Name: "mailbox/task_assignment", Title: "Protocol 003, Task Assignment", Table: *messageTable(taskAssignment)},
		{Name: "mailbox/completion_report", Title: "Protocol 003, Completion Report and Build Result Object", Table: *messageTable(completionReport)},
		{Name: "mailbox/queue", Title: "Protocol 003, Task State Transitions", Table: queueTable}}
}

// CheckMessage checks one entry of messages[] before it is written, more strictly than it is read (protocol 003, Message
// Types and Build Result Object). The error is an *protocol.InvalidError that lists every problem.
func CheckMessage(doc []byte) error {
	return folder.CheckMessage(doc, func(o jsonfile.Object) *folder.Table { return messageTable(folder.FirstText(o, "type")) })
}

// check records what a message lacks. It names fields like messages[0].architecture.
func (l *message) check(o jsonfile.Object) {
	at := o.Value().Path()
	if id := folder.FirstText(o, "taskId"); id != "" && l.task == "" {
		l.issues.Add(folder.CodeSchema, at+".taskId", protocol.Medium, "taskId is not a plain name")
	}
	_, known := messageFields[l.kind]
	switch {
	case l.kind == "":
		l.issues.Add(folder.CodeSchema, at+".type", protocol.Medium, "type is missing")
	case known:
		l.record(at, messageTable(l.kind).Check(o))
	case questionKinds[l.kind] == "" && !l.isAnswer():
		l.issues.Add("type", at+".type", protocol.Low, fmt.Sprintf("the protocol has no message of type %q", l.kind))
	}
}

// record turns defects into findings, unlisted words last, because they matter least. A defect in the build of a task has
// the same field name wherever the report stands.
func (l *message) record(at string, defects []folder.Defect) {
	slices.SortStableFunc(defects, func(a, b folder.Defect) int { return rank(a) - rank(b) })
	for _, d := range defects {
		key, inBuild := strings.CutPrefix(d.Key, "buildResult.")
		field, text, severity := at+"."+d.Key, key+" "+d.Problem, protocol.Medium
		if inBuild && l.task != "" {
			field = d.Key
		}
		switch {
		case d.Field.Need == folder.Optional, d.Trouble == folder.Malform, strings.HasSuffix(key, "]"):
			continue // a reader accepts it
		case inBuild && key == "output":
			text = "the build failed, but its output is missing"
		case d.Trouble == folder.Unlisted && len(d.Field.Words) > 1:
			severity = protocol.Low
		}
		l.issues.Add(folder.CodeSchema, field, severity, text)
	}
}

func rank(d folder.Defect) int {
	if d.Trouble == folder.Unlisted {
		return 1
	}
	return 0
}
