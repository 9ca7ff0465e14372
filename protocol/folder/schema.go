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

// Form is what a field must be. Fits accepts the values of this form. Empty accepts those that count as missing; nil: none do.
type Form struct {
	Name        string
	Fits, Empty func(jsonfile.Value) bool
}

// The forms.
var (
	Text    = Form{"a string", isKind("string"), isBlank}
	List    = Form{"an array", isKind("array"), nil}
	Object  = Form{"an object", isKind("object"), nil}
	Time    = Form{"a time", func(v jsonfile.Value) bool { _, ok := v.Time(); return ok.OK() }, nil}
	Number  = Form{"a number", isKind("number"), nil}
	Boolean = Form{"true or false", isKind("boolean"), nil}
	Any     = Form{"a value", func(v jsonfile.Value) bool { return v.Kind() != "null" }, nil}
	// A single string counts as a list of one.
	Texts  = Form{"an array of strings", func(v jsonfile.Value) bool { _, ok := v.Strings(); return ok.OK() || v.Kind() == "string" }, nil}
	Filled = Form{Texts.Name, Texts.Fits, func(v jsonfile.Value) bool { items, _ := v.Array(); return len(items) == 0 && isBlank(v) }}
)

func isKind(kind string) func(jsonfile.Value) bool {
	return func(v jsonfile.Value) bool { return v.Kind() == kind }
}

func isBlank(v jsonfile.Value) bool {
	text, _ := v.Text()
	return strings.TrimSpace(text) == ""
}

// Need is how important a field is.
type Need uint8

const (
	Required Need = iota // the document lists it as required
	Wanted               // part of the document's structure
	Optional             // it may be missing, null or empty
)

// Field is what a document says about one field of an object. One table of them describes an object.
type Field struct {
	Key   string // its key, or the keys of an object and its field with a dot in between
	Form  Form
	Need  Need
	Words []string // the values that a text may have; nil means any. Another value is a low issue
}

// Problem returns the field's value in an object, and what is wrong with it; "" if nothing is.
func (f Field) Problem(o jsonfile.Object) (v jsonfile.Value, problem string) {
	parent, key, nested := strings.Cut(f.Key, ".")
	if v = o.Get(parent); nested {
		inner, _ := v.Object()
		v = inner.Get(key)
	}
	switch kind := v.Kind(); {
	case f.Need == Optional && (kind == "missing" || kind == "null"):
	case kind == "missing":
		problem = "is missing"
	case !f.Form.Fits(v):
		problem = "must be " + f.Form.Name + ", not " + kind
	case f.Need != Optional && f.Form.Empty != nil && f.Form.Empty(v):
		problem = "is empty"
	}
	return v, problem
}

// Check records how the fields of an object differ from a table. It names a field by its key below at.
func (l *Issues) Check(o jsonfile.Object, at string, table []Field) {
	var unknown Issues
	for _, f := range table {
		v, problem := f.Problem(o)
		name := strings.TrimPrefix(at+"."+f.Key, ".")
		if word, isText := v.Text(); problem != "" {
			l.Schema(name, f.Key+" "+problem)
		} else if isText.OK() && f.Words != nil && !slices.Contains(f.Words, word) {
			unknown.Add(CodeSchema, name, protocol.Low, fmt.Sprintf("%s is %q, want one of %s", f.Key, Line(word, 40), strings.Join(f.Words, ", ")))
		}
	}
	for _, i := range unknown { // last, because they matter least
		l.Add(i.Code, i.Field, i.Severity, i.Text)
	}
}
