package folder

import (
	"fmt"
	"slices"
	"strings"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// CodeSchema is the code of a finding about a field that is missing or has the wrong form.
const CodeSchema = "schema"

// Issue is a defect of a document that can still be used. It is a finding without its subject.
type Issue struct {
	Code, Field, Text string
	Severity          protocol.Severity
}

// About returns the finding about a subject.
func (i Issue) About(s protocol.Subject) protocol.Finding {
	return protocol.Finding{Subject: s, Code: i.Code, Field: i.Field, Severity: i.Severity, Text: i.Text}
}

// MaxIssues limits the issues of one document: the first show what is wrong with it.
const MaxIssues = 40

// Issues are the defects of one document, at most MaxIssues and one that says that there are more.
type Issues []Issue

// Add records an issue.
func (l *Issues) Add(code, field string, severity protocol.Severity, text string) {
	switch {
	case len(*l) < MaxIssues:
		*l = append(*l, Issue{code, Line(field, 120), text, severity})
	case len(*l) == MaxIssues:
		*l = append(*l, Issue{CodeSchema, "", "more is wrong with this file than is listed", protocol.Low})
	}
}

// Schema records a field of the wrong form.
func (l *Issues) Schema(field, text string) { l.Add(CodeSchema, field, protocol.Medium, text) }

// Form is the form that a field must have.
type Form struct {
	name string
	fits func(jsonfile.Value) bool
}

// The forms.
var (
	Text    = Form{"a text", func(v jsonfile.Value) bool { _, ok := v.Text(); return ok.OK() }}
	List    = Form{"a list", func(v jsonfile.Value) bool { _, ok := v.Array(); return ok.OK() }}
	Object  = Form{"an object", func(v jsonfile.Value) bool { _, ok := v.Object(); return ok.OK() }}
	Time    = Form{"a time", func(v jsonfile.Value) bool { _, ok := v.Time(); return ok.OK() }}
	Number  = Form{"a number", func(v jsonfile.Value) bool { _, ok := v.Number(); return ok.OK() }}
	Boolean = Form{"true or false", func(v jsonfile.Value) bool { _, ok := v.Bool(); return ok.OK() }}
)

// Field is what a document says about one field of an object. One table of them describes an object.
type Field struct {
	Key      string
	Form     Form
	Optional bool     // it may be missing or null
	Words    []string // the values that a text may have; nil means any. Another value is a low issue
}

// Check records how the fields of an object differ from a table. It names a field by its key below at.
func (l *Issues) Check(o jsonfile.Object, at string, table []Field) {
	var unknown Issues
	for _, f := range table {
		v, name := o.Get(f.Key), f.Key
		if at != "" {
			name = at + "." + f.Key
		}
		word, _ := v.Text()
		switch kind := v.Kind(); {
		case kind == "missing" || kind == "null":
			if !f.Optional {
				l.Schema(name, f.Key+" is missing")
			}
		case !f.Form.fits(v):
			l.Schema(name, f.Key+" is not "+f.Form.name)
		case kind == "string" && strings.TrimSpace(word) == "":
			if !f.Optional {
				l.Schema(name, f.Key+" is empty")
			}
		case f.Words != nil && !slices.Contains(f.Words, word):
			unknown.Add(CodeSchema, name, protocol.Low, fmt.Sprintf("%s is %q, want one of %s", f.Key, Line(word, 40), strings.Join(f.Words, ", ")))
		}
	}
	for _, i := range unknown { // last, because they matter least
		l.Add(i.Code, i.Field, i.Severity, i.Text)
	}
}
