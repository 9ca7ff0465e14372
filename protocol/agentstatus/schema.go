package agentstatus

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// check collects the schema violations of a document. They are findings: the task still runs.
type check struct {
	findings []issue
}

// issue is a finding without its subject.
type issue struct {
	code, field, text string
	severity          protocol.Severity
}

func (c *check) add(field, format string, args ...any) {
	c.note(protocol.Low, field, format, args...)
}

// maxIssues bounds the findings of one document: the first findings show what is wrong with it.
const maxIssues = 50

func (c *check) note(severity protocol.Severity, field, format string, args ...any) {
	if len(c.findings) < maxIssues {
		c.findings = append(c.findings, issue{code: "schema", field: field, severity: severity, text: field + " " + fmt.Sprintf(format, args...)})
	}
}

// presence adds a finding for a field that is missing or of the wrong type, and reports whether the field can be
// used.
func (c *check) presence(v jsonfile.Value, field string, p jsonfile.Presence, want string, required bool) bool {
	switch {
	case p == jsonfile.Present:
		return true
	case p == jsonfile.Wrong:
		c.add(field, "must be %s, not %s", want, v.Kind())
	case required && p == jsonfile.Null:
		c.add(field, "must be %s, not null", want)
	case required:
		c.add(field, "is missing")
	}
	return false
}

func join(parent, key string) string {
	if parent == "" {
		return key
	}
	return parent + "." + key
}

// text reads a string field.
func (c *check) text(o jsonfile.Object, key string, required bool) string {
	v := o.Get(key)
	s, p := v.Text()
	c.presence(v, join(o.Value().Path(), key), p, "a string", required)
	return s
}

// word reads a string that should be on the list of protocol 000. Most values in the field are not: they are kept,
// mean nothing to policies, and give only an info finding.
func (c *check) word(o jsonfile.Object, key string, required bool, set ...string) string {
	s := c.text(o, key, required)
	if s != "" && !slices.Contains(set, s) {
		c.note(protocol.Info, join(o.Value().Path(), key), "is %q, not one of %s", folder.Line(s, 40), strings.Join(set, ", "))
	}
	return s
}

// number reads a number and checks its limits; ok is false if there is no number.
func (c *check) number(o jsonfile.Object, key string, low, high float64, required bool) (v float64, ok bool) {
	value := o.Get(key)
	v, p := value.Number()
	field := join(o.Value().Path(), key)
	if !c.presence(value, field, p, "a number", required) {
		return 0, false
	}
	if v < low || v > high {
		c.add(field, "is %v, outside %v to %v", v, low, high)
	}
	return v, true
}

func (c *check) boolean(o jsonfile.Object, key string, required bool) (v, ok bool) {
	value := o.Get(key)
	v, p := value.Bool()
	return v, c.presence(value, join(o.Value().Path(), key), p, "true or false", required)
}

func (c *check) instant(o jsonfile.Object, key string, required bool) time.Time {
	value := o.Get(key)
	at, p := value.Time()
	if c.presence(value, join(o.Value().Path(), key), p, "a time (ISO 8601 UTC)", required) {
		return at
	}
	return time.Time{}
}

// stated is instant that also tells whether the time has a zone.
func (c *check) stated(o jsonfile.Object, key string, required bool) jsonfile.Stated {
	return jsonfile.Stated{At: c.instant(o, key, required), Zoneless: o.Get(key).Zoneless()}
}

// list reads an array of strings. It leaves out items of another type, which become findings.
func (c *check) list(o jsonfile.Object, key string, required bool) []string {
	value := o.Get(key)
	items, p := value.Array()
	if !c.presence(value, join(o.Value().Path(), key), p, "an array", required) {
		return nil
	}
	var list []string
	for _, item := range items {
		s, p := item.Text()
		if c.presence(item, item.Path(), p, "a string", true) {
			list = append(list, s)
		}
	}
	return list
}

// paths reads an array of absolute paths.
func (c *check) paths(o jsonfile.Object, key string, required bool) []string {
	list := c.list(o, key, required)
	for i, s := range list {
		if !strings.HasPrefix(s, "/") && !filepath.IsAbs(s) {
			c.add(fmt.Sprintf("%s[%d]", join(o.Value().Path(), key), i), "is %q, not an absolute path", folder.Line(s, 80))
		}
	}
	return list
}

// child reads an object; ok is false when there is none.
func (c *check) child(o jsonfile.Object, key string, required bool) (child jsonfile.Object, ok bool) {
	value := o.Get(key)
	child, p := value.Object()
	return child, c.presence(value, join(o.Value().Path(), key), p, "an object", required)
}

// isUUID4 reports whether s has the form of a UUID v4, such as 7d4c2f1e-8a60-4b1d-9c55-2f8f0a6b1e01.
func isUUID4(s string) bool {
	const form = "xxxxxxxx-xxxx-4xxx-vxxx-xxxxxxxxxxxx"
	if len(s) != len(form) {
		return false
	}
	for i := range len(form) {
		digits := form[i : i+1]
		switch form[i] {
		case 'x':
			digits = "0123456789abcdefABCDEF"
		case 'v':
			digits = "89abAB"
		}
		if strings.IndexByte(digits, s[i]) < 0 {
			return false
		}
	}
	return true
}

func (c *check) uuid(field, s string) {
	if s != "" && !isUUID4(s) {
		c.add(field, "is %q, not a UUID v4", folder.Line(s, 60))
	}
}
