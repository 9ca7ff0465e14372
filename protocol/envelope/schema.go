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

// issue is a finding whose subject is not known yet.
type issue struct {
	code, field, text string
	severity          protocol.Severity
	path              string // the file with the problem; "" means the assignment's file
}

// maxIssues bounds the findings of one message; the first ones show what is wrong with it.
const maxIssues = 30

// check collects the problems of a message. Faults are violations of the document's list of Required Fields. All
// other problems are findings; the message still counts.
type check struct {
	kind     string // the message's type, for the findings' text
	faults   []string
	findings []issue
	deployers
}

func (c *check) note(severity protocol.Severity, code, field, text string) {
	if len(c.findings) < maxIssues {
		c.findings = append(c.findings, issue{code: code, field: field, text: c.kind + ": " + text, severity: severity})
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
func (c *check) presence(v jsonfile.Value, p jsonfile.Presence, want string, n need) bool {
	var problem string
	switch {
	case p == jsonfile.Present:
		return true
	case p == jsonfile.Wrong:
		problem = " must be " + want + ", not " + v.Kind()
		if v.Kind() == want || v.Kind() == "string" && want == "a time" {
			problem = " is not " + want
		}
	case n == optional:
		return false
	case p == jsonfile.Null:
		problem = " must be " + want + ", not null"
	default:
		problem = " is missing"
	}
	switch n {
	case required:
		c.faults = append(c.faults, v.Path()+problem)
	case wanted:
		c.note(protocol.Medium, "schema", v.Path(), v.Path()+problem)
	default:
		c.note(protocol.Low, "schema", v.Path(), v.Path()+problem)
	}
	return false
}

// text reads a one-line string. An empty string counts as missing.
func (c *check) text(o jsonfile.Object, key string, n need) string {
	v := o.Get(key)
	s, p := v.Text()
	if s = clean(s, maxText); p == jsonfile.Present && s == "" {
		p = jsonfile.Missing
	}
	c.presence(v, p, "a string", n)
	return s
}

// list reads an array of strings. A single string counts as a list of one.
func (c *check) list(o jsonfile.Object, key string, n need) []string {
	v := o.Get(key)
	if s, p := v.Text(); p == jsonfile.Present {
		if s == "" {
			return nil
		}
		return []string{s}
	}
	items, p := v.Strings()
	if p == jsonfile.Wrong && v.Kind() == "array" {
		c.presence(v, p, "an array of strings", n)
		return bounded(items)
	}
	c.presence(v, p, "an array", n)
	return bounded(items)
}

// filled reads a required list. An empty list is a fault, like a missing one.
func (c *check) filled(o jsonfile.Object, key string) []string {
	v, before := o.Get(key), len(c.faults)
	list := c.list(o, key, required)
	if len(list) == 0 && len(c.faults) == before {
		c.faults = append(c.faults, v.Path()+" is empty")
	}
	return list
}

func (c *check) boolean(o jsonfile.Object, key string, n need) (value, ok bool) {
	v := o.Get(key)
	value, p := v.Bool()
	return value, c.presence(v, p, "true or false", n)
}

func (c *check) child(o jsonfile.Object, key string, n need) jsonfile.Object {
	v := o.Get(key)
	child, p := v.Object()
	c.presence(v, p, "an object", n)
	return child
}

// there records a finding for a missing field of any type.
func (c *check) there(o jsonfile.Object, key string) {
	if v := o.Get(key); v.Kind() == "missing" || v.Kind() == "null" {
		c.presence(v, jsonfile.Missing, "", wanted)
	}
}

// Bounds of the parts of a message that are kept.
const (
	maxText  = 300  // a line
	maxLong  = 4000 // a paragraph, an option
	maxItems = 100
)

func bounded(list []string) []string { return slices.Clip(list[:min(len(list), maxItems)]) }

// clean converts text from a file to one trimmed line, shortened to limit.
func clean(s string, limit int) string { return strings.TrimSpace(folder.Line(s, limit)) }

// fold normalizes the spelling of an agent's name or a message type: "Security Auditor" becomes SECURITY_AUDITOR.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == ' ' {
			return '_'
		}
		return r
	}, strings.ToUpper(strings.TrimSpace(name)))
}

// plain reports whether an id may become part of a file name.
func plain(id string) bool { return jsonfile.PlainName(id) && !strings.HasPrefix(id, ".") }

// sortedKeys lists a map's keys in order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
