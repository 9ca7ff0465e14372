package envelope

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// moments is the form of a deadline.
var moments = folder.Form{Name: "a time or a span of time", Fits: func(v jsonfile.Value) bool { return momentOf(v).known() },
	Schema: `"type": "string", "pattern": "^(\\d{4}-\\d{2}-\\d{2}[Tt ]\\d{2}:\\d{2}.*|([Ii]n )?(\\d+(\\.\\d+)? ?[A-Za-z]+[ ,]*(and )?){1,4})$"`}

// The words of protocol 004, Message Types. Readers accept others.
var (
	kindWords    = [...]string{"TASK_ASSIGNMENT", "TASK_ACKNOWLEDGMENT", "BLOCKER_ESCALATION", "BLOCKER_RESOLUTION", "TASK_COMPLETION", "TASK_REJECTION"}
	blockerWords = []string{"clarification_needed", "technical_blocker", "dependency_missing", "scope_change"}
)

// tables are the fields by type (protocol 004, Message Types). The required ones are those of the document's list of
// Required Fields. The last is for messages of no known type.
var tables = [...]*folder.Table{
	assigns: tableOf(assigns, folder.Must("to_agent", folder.Text), folder.Must("task_name", folder.Text), folder.Must("requirements", folder.Filled),
		folder.Must("acceptance_criteria", folder.Filled), folder.May("priority", folder.Text, "high", "medium", "low"), folder.May("deadline", moments),
		folder.May("related_tasks", folder.Texts), folder.May("blocked_by", folder.Texts), folder.May("files_to_review", folder.Texts),
		folder.May("context", folder.Object)),
	acknowledges: tableOf(acknowledges, wanted("status", folder.Text, "acknowledged"), wanted("understood", folder.Boolean),
		folder.May("clarifications_needed", folder.Texts), folder.May("estimated_completion", moments)),
	escalates: tableOf(escalates, wanted("blocker_type", folder.Text, blockerWords...), wanted("description", folder.Text),
		folder.May("severity", folder.Text, "critical", "high", "medium", "low"), folder.May("options", folder.Texts),
		folder.May("escalate_to", folder.Text, "ORCHESTRATOR", "human")),
	resolves: tableOf(resolves, wanted("to_agent", folder.Text), wanted("decision", folder.Text), wanted("resume_task", folder.Boolean)),
	completes: tableOf(completes, wanted("status", folder.Text), inside("output", folder.May("summary", folder.Text)),
		inside("validation", wanted("all_passed", folder.Boolean), folder.May("issues", folder.Texts))),
	rejects: tableOf(rejects, wanted("to_agent", folder.Text), wanted("reason", folder.Text), folder.May("deadline", moments), wanted("issues", folder.Texts),
		wanted("action_required", folder.Any)),
	approves: tableOf(unknown),
	unknown:  tableOf(unknown, folder.May("to_agent", folder.Text)),
}

// securityTable describes the completion of a security review (protocol 004, Security Response Format).
var securityTable = tableOf(completes, wanted("status", folder.Text), wanted("approval_status", folder.Text, verdictApproved, verdictConditional, verdictRejected),
	inside("output", wanted("critical_issues", folder.List), wanted("high_issues", folder.List), wanted("medium_issues", folder.List),
		wanted("low_issues", folder.List), folder.May("recommendations", folder.List), wanted("blocking_deployment", folder.Boolean)),
	inside("validation", wanted("security_passed", folder.Boolean), wanted("production_readiness_passed", folder.Boolean),
		wanted("scalability_passed", folder.Boolean), wanted("all_passed", folder.Boolean)))

// Messages lists the messages of protocol 004.
func Messages() (list []folder.Message) {
	for k, word := range kindWords {
		list = append(list, folder.Message{Name: "envelope/" + strings.ToLower(word), Title: "Protocol 004, " + word, Table: *tables[k]})
	}
	return append(list, folder.Message{Name: "envelope/security_completion", Title: "Protocol 004, Security Response Format", Table: *securityTable})
}

// tableOf adds the fields that every message has. The document's own examples of errors have no task_id, so a reader
// accepts a blocker and its resolution without one; steward's answer to such a blocker has none.
func tableOf(k kind, fields ...folder.Field) *folder.Table {
	id := folder.Field{Key: "task_id", Form: folder.Text, Format: folder.Format{Name: "a name for a file", Fits: plain, Schema: `"pattern": "^[^./\\\\][^/\\\\]*$"`}}
	sender, words := wanted("from_agent", folder.Text), kindWords[:]
	if k == assigns {
		sender.Need = folder.Required
	}
	if k == escalates || k == resolves {
		id.Need = folder.Wanted
	}
	if int(k) < len(kindWords) {
		words = kindWords[k : k+1]
	}
	t := &folder.Table{Fields: []folder.Field{folder.Must("message_type", folder.Text, words...)}}
	if k == resolves {
		t.Cases = []folder.Case{{Key: answerKey, Else: folder.Table{Fields: []folder.Field{id}}}}
	} else {
		t.Fields = append(t.Fields, id)
	}
	t.Fields = append(append(t.Fields, sender, wanted("timestamp", folder.Time)), fields...)
	return t
}

func wanted(key string, form folder.Form, words ...string) folder.Field {
	return folder.Field{Key: key, Form: form, Words: words, Need: folder.Wanted}
}

// inside describes an object that is part of the message's structure.
func inside(key string, fields ...folder.Field) folder.Field {
	return folder.Field{Key: key, Form: folder.Object, Need: folder.Wanted, Inside: folder.Table{Fields: fields}}
}

// maxFindings bounds the findings of one message; the first ones show what is wrong with it.
const maxFindings = 30

func (m *message) note(code string, severity protocol.Severity, field, text string) {
	if len(m.findings) < maxFindings {
		m.findings = append(m.findings, protocol.Finding{Code: code, Field: field, Severity: severity, Text: cmp.Or(m.word, "message") + ": " + text})
	}
}

// check records how the message differs from its table. A required field is a fault, another one a finding. Readers accept
// words that the document does not list.
func (m *message) check(o jsonfile.Object) {
	for _, d := range tables[m.kind].Check(o) {
		switch {
		case d.Trouble == folder.Unlisted, d.Trouble == folder.Malform:
		case d.Field.Form.Name == moments.Name:
			m.note("time", protocol.Low, d.Key, d.Key+" is neither a time nor a span of time: "+folder.Short(string(d.Value.Raw()), 60))
		case d.Field.Need == folder.Required:
			m.faults = append(m.faults, d.Key+" "+d.Problem)
		case d.Field.Need == folder.Wanted:
			m.note("schema", protocol.Medium, d.Key, d.Key+" "+d.Problem)
		default:
			m.note("schema", protocol.Low, d.Key, d.Key+" "+d.Problem)
		}
	}
}

// CheckMessage checks a message before it is written, more strictly than messages are read: it has all the fields of its
// type's structure, and the document's words (protocol 004, Message Types and Security Response Format). The error is an
// *protocol.InvalidError that lists every problem.
func CheckMessage(doc []byte) error { return folder.CheckMessage(doc, tableFor) }

// tableFor returns the table by which a message is checked before it is written.
func tableFor(o jsonfile.Object) *folder.Table {
	word, _ := o.String("message_type")
	if k := kindOf(word); k != completes || !o.Has("approval_status") {
		return tables[k]
	}
	return securityTable
}

// text reads a one-line string.
func text(o jsonfile.Object, key string) string {
	s, _ := o.String(key)
	return clean(s, maxText)
}

// list reads an array of strings, or a single one.
func list(o jsonfile.Object, key string) []string {
	if s, _ := o.String(key); s != "" {
		return []string{s}
	}
	items, _ := o.Strings(key)
	return slices.Clip(items[:min(len(items), maxItems)])
}

// lines is list with every item on one line.
func lines(o jsonfile.Object, key string) []string {
	items := list(o, key)
	for i, s := range items {
		items[i] = clean(s, maxText)
	}
	return items
}

// Bounds of the parts of a message that are kept.
const (
	maxText  = 300  // a line
	maxLong  = 4000 // a paragraph, an option
	maxItems = 100
)

// clean converts text from a file to one trimmed line, shortened to limit.
func clean(s string, limit int) string { return folder.Clean(s, limit) }

var separators = strings.NewReplacer("-", "_", " ", "_")

// fold normalizes the spelling of an agent's name or a message type: "Security Auditor" becomes SECURITY_AUDITOR.
func fold(name string) string {
	return separators.Replace(strings.ToUpper(strings.TrimSpace(name)))
}

// plain reports whether an id may become part of a file name.
func plain(id string) bool { return jsonfile.PlainName(id) && !strings.HasPrefix(id, ".") }

// sortedKeys lists a map's keys in order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
