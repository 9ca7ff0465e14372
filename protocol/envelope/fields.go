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
var moments = folder.Form{Name: "a time or a span of time", Fits: func(v jsonfile.Value) bool { return momentOf(v).known() }}

// fieldsOf are the fields by type (protocol 004, Message Types), in addition to those that every message has. The required
// ones are those of the document's list of Required Fields.
var fieldsOf = [...][]folder.Field{
	assigns: {{Key: "to_agent", Form: folder.Text}, {Key: "task_name", Form: folder.Text}, {Key: "requirements", Form: folder.Filled},
		{Key: "acceptance_criteria", Form: folder.Filled}, optional("priority", folder.Text), optional("deadline", moments),
		optional("related_tasks", folder.Texts), optional("blocked_by", folder.Texts), optional("files_to_review", folder.Texts),
		optional("context", folder.Object)},
	acknowledges: {wanted("status", folder.Text), wanted("understood", folder.Boolean), optional("clarifications_needed", folder.Texts),
		optional("estimated_completion", moments)},
	escalates: {wanted("blocker_type", folder.Text), wanted("description", folder.Text), optional("severity", folder.Text),
		optional("options", folder.Texts), optional("escalate_to", folder.Text)},
	resolves: {wanted("to_agent", folder.Text), wanted("decision", folder.Text), wanted("resume_task", folder.Boolean)},
	completes: {wanted("status", folder.Text), wanted("output", folder.Object), optional("output.summary", folder.Text),
		wanted("validation", folder.Object), wanted("validation.all_passed", folder.Boolean), optional("validation.issues", folder.Texts)},
	rejects: {wanted("to_agent", folder.Text), wanted("reason", folder.Text), optional("deadline", moments), wanted("issues", folder.Texts),
		wanted("action_required", folder.Any)},
	unknown: {optional("to_agent", folder.Text)},
}

func wanted(key string, form folder.Form) folder.Field {
	return folder.Field{Key: key, Form: form, Need: folder.Wanted}
}

func optional(key string, form folder.Form) folder.Field {
	return folder.Field{Key: key, Form: form, Need: folder.Optional}
}

// maxFindings bounds the findings of one message; the first ones show what is wrong with it.
const maxFindings = 30

func (m *message) note(code string, severity protocol.Severity, field, text string) {
	if len(m.findings) < maxFindings {
		m.findings = append(m.findings, protocol.Finding{Code: code, Field: field, Severity: severity, Text: cmp.Or(m.word, "message") + ": " + text})
	}
}

// check records how the fields of the message differ from a table. A required field is a fault, another one a finding.
func (m *message) check(o jsonfile.Object, table ...folder.Field) {
	for _, f := range table {
		switch v, problem := f.Problem(o); {
		case problem == "":
		case f.Form.Name == moments.Name:
			m.note("time", protocol.Low, f.Key, f.Key+" is neither a time nor a span of time: "+folder.Short(string(v.Raw()), 60))
		case f.Need == folder.Required:
			m.faults = append(m.faults, f.Key+" "+problem)
		case f.Need == folder.Wanted:
			m.note("schema", protocol.Medium, f.Key, f.Key+" "+problem)
		default:
			m.note("schema", protocol.Low, f.Key, f.Key+" "+problem)
		}
	}
}

// CheckMessage checks a message before it is written, more strictly than messages are read: it has all the fields of its
// type's structure (protocol 004, Message Types). The error is an *protocol.InvalidError that lists every problem.
func CheckMessage(doc []byte) error {
	o, err := jsonfile.Parse(doc)
	if err != nil {
		return folder.Invalid([]string{err.Error()})
	}
	m := decode(o, nil)
	problems := m.faults
	if len(problems) == 0 && m.unusable != "" {
		problems = append(problems, m.unusable)
	}
	for _, f := range m.findings {
		problems = append(problems, f.Text)
	}
	if m.kind == approves {
		problems = append(problems, m.word+": no such message type")
	}
	return folder.Invalid(problems)
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
