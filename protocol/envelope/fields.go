package envelope

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// finding returns a finding without its subject and file. A finding about a task without a file gets the file of its
// assignment.
func finding(code string, severity protocol.Severity, format string, args ...any) protocol.Finding {
	return protocol.Finding{Code: code, Severity: severity, Text: fmt.Sprintf(format, args...)}
}

// maxFindings bounds the findings of one message; the first ones show what is wrong with it.
const maxFindings = 30

// fieldReader reads the fields of one message and collects their problems. Faults are violations of the document's list
// of Required Fields. All other problems are findings; the message still counts.
type fieldReader struct {
	kind      string // the message's type, for the findings' text
	faults    []string
	findings  []protocol.Finding
	deployers deployers
}

func (r *fieldReader) note(code string, severity protocol.Severity, field, text string) {
	if len(r.findings) < maxFindings {
		r.findings = append(r.findings, protocol.Finding{Code: code, Field: field, Severity: severity, Text: r.kind + ": " + text})
	}
}

// need is how important a field is.
type need int

const (
	optional need = iota // only a wrong type is reported, as a low finding
	wanted               // part of the message's structure: a finding
	required             // on the document's list of Required Fields: a Fault
)

// presence records a problem with a field, and reports whether the field can be used.
func (r *fieldReader) presence(v jsonfile.Value, p jsonfile.Presence, want string, n need) bool {
	var problem string
	switch {
	case p == jsonfile.Present:
		return true
	case p == jsonfile.Wrong && (v.Kind() == want || v.Kind() == "string" && want == "a time"):
		problem = " is not " + want
	case p == jsonfile.Wrong:
		problem = " must be " + want + ", not " + v.Kind()
	case n == optional:
		return false
	case p == jsonfile.Null:
		problem = " must be " + want + ", not null"
	default:
		problem = " is missing"
	}
	switch n {
	case required:
		r.faults = append(r.faults, v.Path()+problem)
	case wanted:
		r.note("schema", protocol.Medium, v.Path(), v.Path()+problem)
	default:
		r.note("schema", protocol.Low, v.Path(), v.Path()+problem)
	}
	return false
}

// text reads a one-line string. An empty string counts as missing.
func (r *fieldReader) text(o jsonfile.Object, key string, n need) string {
	v := o.Get(key)
	s, p := v.Text()
	if s = clean(s, maxText); p == jsonfile.Present && s == "" {
		p = jsonfile.Missing
	}
	r.presence(v, p, "a string", n)
	return s
}

// list reads an array of strings. A single string counts as a list of one.
func (r *fieldReader) list(o jsonfile.Object, key string, n need) []string {
	v := o.Get(key)
	if s, p := v.Text(); p == jsonfile.Present {
		if s == "" {
			return nil
		}
		return []string{s}
	}
	items, p := v.Strings()
	want := "an array"
	if p == jsonfile.Wrong && v.Kind() == "array" {
		want = "an array of strings"
	}
	r.presence(v, p, want, n)
	return bounded(items)
}

// filled reads a required list. An empty list is a fault, like a missing one.
func (r *fieldReader) filled(o jsonfile.Object, key string) []string {
	before := len(r.faults)
	list := r.list(o, key, required)
	if len(list) == 0 && len(r.faults) == before {
		r.faults = append(r.faults, o.Get(key).Path()+" is empty")
	}
	return list
}

func (r *fieldReader) boolean(o jsonfile.Object, key string, n need) (value, ok bool) {
	v := o.Get(key)
	value, p := v.Bool()
	return value, r.presence(v, p, "true or false", n)
}

func (r *fieldReader) child(o jsonfile.Object, key string, n need) jsonfile.Object {
	v := o.Get(key)
	child, p := v.Object()
	r.presence(v, p, "an object", n)
	return child
}

// Bounds of the parts of a message that are kept.
const (
	maxText  = 300  // a line
	maxLong  = 4000 // a paragraph, an option
	maxItems = 100
)

func bounded(list []string) []string { return slices.Clip(list[:min(len(list), maxItems)]) }

// lines converts every item to one line, in place.
func lines(list []string) []string {
	for i, s := range list {
		list[i] = clean(s, maxText)
	}
	return list
}

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
