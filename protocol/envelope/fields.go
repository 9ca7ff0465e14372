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

// need is how important a field is.
type need int

const (
	optional need = iota // only a wrong type is reported, as a low finding
	wanted               // part of the message's structure: a finding
	required             // on the document's list of Required Fields: a Fault
)

// form is what a field must be.
type form struct {
	name string
	fits func(jsonfile.Value) bool
}

var (
	aText   = form{"a string", func(v jsonfile.Value) bool { return v.Kind() == "string" }}
	aFlag   = form{"true or false", func(v jsonfile.Value) bool { return v.Kind() == "boolean" }}
	aValue  = form{"a value", func(jsonfile.Value) bool { return true }}
	aTime   = form{"a time", func(v jsonfile.Value) bool { _, p := v.Stated(); return p.OK() }}
	aMoment = form{"a time or a span of time", func(v jsonfile.Value) bool { return momentOf(v).known() }}
	anObj   = form{"an object", func(v jsonfile.Value) bool { return v.Kind() == "object" }}
	// A single string counts as a list of one.
	aList = form{"an array", func(v jsonfile.Value) bool { _, p := v.Strings(); return p.OK() || v.Kind() == "string" }}
)

// field is what the document says about one field of a message.
type field struct {
	path string // its key, or two keys with a dot in between
	form form
	need need
}

// fieldsOf are the fields by type (protocol 004, Message Types), in addition to those that every message has.
var fieldsOf = [...][]field{
	assigns: {{"to_agent", aText, required}, {"task_name", aText, required}, {"requirements", aList, required},
		{"acceptance_criteria", aList, required}, {"priority", aText, optional}, {"deadline", aMoment, optional},
		{"related_tasks", aList, optional}, {"blocked_by", aList, optional}, {"files_to_review", aList, optional}, {"context", anObj, optional}},
	acknowledges: {{"status", aText, wanted}, {"understood", aFlag, wanted}, {"clarifications_needed", aList, optional},
		{"estimated_completion", aMoment, optional}},
	escalates: {{"blocker_type", aText, wanted}, {"description", aText, wanted}, {"severity", aText, optional}, {"options", aList, optional},
		{"escalate_to", aText, optional}},
	resolves: {{"to_agent", aText, wanted}, {"decision", aText, wanted}, {"resume_task", aFlag, wanted}},
	completes: {{"status", aText, wanted}, {"output", anObj, wanted}, {"output.summary", aText, optional}, {"validation", anObj, wanted},
		{"validation.all_passed", aFlag, wanted}, {"validation.issues", aList, optional}},
	rejects: {{"to_agent", aText, wanted}, {"reason", aText, wanted}, {"deadline", aMoment, optional}, {"issues", aList, wanted},
		{"action_required", aValue, wanted}},
	unknown: {{"to_agent", aText, optional}},
}

// maxFindings bounds the findings of one message; the first ones show what is wrong with it.
const maxFindings = 30

func (m *message) note(code string, severity protocol.Severity, field, text string) {
	if len(m.findings) < maxFindings {
		m.findings = append(m.findings, protocol.Finding{Code: code, Field: field, Severity: severity, Text: cmp.Or(m.word, "message") + ": " + text})
	}
}

// check records how the fields of the message differ from a table. Violations of the document's list of Required Fields
// are faults. All other problems are findings; the message still counts.
func (m *message) check(o jsonfile.Object, table ...field) {
	for _, f := range table {
		parent, key, nested := strings.Cut(f.path, ".")
		v := o.Get(parent)
		if nested {
			inner, _ := v.Object()
			v = inner.Get(key)
		}
		switch problem := f.problem(v); {
		case problem == "":
		case f.form.name == aMoment.name:
			m.note("time", protocol.Low, f.path, f.path+" is neither a time nor a span of time: "+folder.Short(string(v.Raw()), 60))
		case f.need == required:
			m.faults = append(m.faults, f.path+problem)
		case f.need == wanted:
			m.note("schema", protocol.Medium, f.path, f.path+problem)
		default:
			m.note("schema", protocol.Low, f.path, f.path+problem)
		}
	}
}

// problem says how a value differs from its field, or "".
func (f field) problem(v jsonfile.Value) string {
	text, _ := v.Text()
	items, _ := v.Array()
	empty := clean(text, maxText) == "" && len(items) == 0
	switch kind := v.Kind(); {
	case f.need == optional && (kind == "missing" || kind == "null"):
	case kind == "missing", kind == "string" && empty && f.form.name == aText.name && f.need != optional:
		return " is missing"
	case kind == "string" && !f.form.fits(v) && f.form.name == aTime.name:
		return " is not a time"
	case kind == "array" && !f.form.fits(v) && f.form.name == aList.name:
		return " must be an array of strings, not array"
	case kind == "null" || !f.form.fits(v):
		return " must be " + f.form.name + ", not " + kind
	case f.form.name == aList.name && f.need == required && empty:
		return " is empty"
	}
	return ""
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
