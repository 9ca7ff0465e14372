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

// issue is a finding that does not know its subject yet.
type issue struct {
	code, field, text string
	severity          protocol.Severity
	path              string // the file that shows it; "" is the assignment's
}

// maxIssues bounds the findings of one message: the first ones tell what is wrong with it.
const maxIssues = 30

// check collects what a message lacks. Faults are breaches of the document's own list of Required Fields; the others
// are findings: the message still counts.
type check struct {
	kind     string // the message's type, for the text
	faults   []string
	findings []issue
	deployers
}

func (c *check) note(severity protocol.Severity, code, field, text string) {
	if len(c.findings) < maxIssues {
		c.findings = append(c.findings, issue{code: code, field: field, text: c.kind + ": " + text, severity: severity})
	}
}

// need is how much a field matters.
type need int

const (
	optional need = iota // a wrong type is a trifle
	wanted               // what the structure needs: a finding
	required             // on the document's list of Required Fields: a Fault
)

// presence notes a field that is not as it should be, and reports whether it can be used.
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

// text reads a string in one line. One that is empty is as good as missing.
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

// filled reads a required list. An empty one says as little as a missing one.
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

// there notes a field that must be there, of whatever type.
func (c *check) there(o jsonfile.Object, key string) {
	if v := o.Get(key); v.Kind() == "missing" || v.Kind() == "null" {
		c.presence(v, jsonfile.Missing, "", wanted)
	}
}

// The bounds of what is kept of a message.
const (
	maxText  = 300  // a line
	maxLong  = 4000 // a paragraph, an option
	maxItems = 100
)

func bounded(list []string) []string { return slices.Clip(list[:min(len(list), maxItems)]) }

// clean makes text from a file fit for one line, without space around it.
func clean(s string, limit int) string { return strings.TrimSpace(folder.Line(s, limit)) }

// fold brings spellings of an agent's name or a message type together: SECURITY_AUDITOR, "Security Auditor".
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
