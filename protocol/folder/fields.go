package folder

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/livhana/steward/protocol/jsonfile"
)

// Table says what an object of a protocol's document consists of. The same table finds what is wrong with a message that
// is read, refuses to write a wrong message, and is printed as a JSON Schema.
type Table struct {
	Fields []Field
	Cases  []Case
}

// Case adds fields where the text Key of the object has one of the words, and other fields where it does not. Without
// words, it is the presence of Key that decides.
type Case struct {
	Key        string
	Words      []string
	Then, Else Table
}

// Field is what a document says about one field of an object.
type Field struct {
	Key    string
	Form   Form
	Need   Need
	Null   bool     // null is a value of a required field
	Words  []string // the values of a text; nil means any
	Format Format   // of a text
	Limits *Limits  // of a number
	Inside Table    // the fields of an object
	Item   *Field   // each item of an array, or each value of an object with arbitrary keys
}

// Must returns a required field; of a text, the words that it may be.
func Must(key string, form Form, words ...string) Field {
	return Field{Key: key, Form: form, Words: words}
}

// May returns an optional field.
func May(key string, form Form, words ...string) Field {
	return Field{Key: key, Form: form, Words: words, Need: Optional}
}

// Limits are the lowest and the highest value of a number.
type Limits struct{ Low, High float64 }

// Need is how important a field is.
type Need uint8

const (
	Required Need = iota // the document lists it as required
	Wanted               // part of the document's structure
	Optional             // it may be missing, null or empty
)

// Form is what a field must be. Fits accepts the values of this form. Empty accepts those that count as missing; nil: none
// do.
type Form struct {
	Name        string
	Fits, Empty func(jsonfile.Value) bool
	Schema      string // its JSON Schema, without the braces
}

// The forms.
var (
	String  = Form{"a string", isKind("string"), nil, `"type": "string"`} // any, also an empty one
	Text    = Form{String.Name, String.Fits, isBlank, String.Schema}
	List    = Form{"an array", isKind("array"), nil, `"type": "array"`}
	Object  = Form{"an object", isKind("object"), nil, `"type": "object"`}
	Time    = Form{"a time", func(v jsonfile.Value) bool { _, ok := v.Time(); return ok.OK() }, nil, `"type": "string", "format": "date-time"`}
	Number  = Form{"a number", func(v jsonfile.Value) bool { _, ok := v.Number(); return ok.OK() }, nil, `"type": "number"`}
	Boolean = Form{"true or false", isKind("boolean"), nil, `"type": "boolean"`}
	Any     = Form{"a value", func(v jsonfile.Value) bool { return v.Kind() != "null" }, nil, `"type": ["array", "boolean", "number", "object", "string"]`}
	// A single string counts as a list of one.
	Texts = Form{"an array of strings", func(v jsonfile.Value) bool { _, ok := v.Strings(); return ok.OK() || v.Kind() == "string" }, nil,
		`"type": ["array", "string"], "items": {"type": "string"}`}
	Filled = Form{Texts.Name, Texts.Fits, func(v jsonfile.Value) bool { items, _ := v.Array(); return len(items) == 0 && isBlank(v) },
		Texts.Schema + `, "minItems": 1`}
)

func isKind(kind string) func(jsonfile.Value) bool {
	return func(v jsonfile.Value) bool { return v.Kind() == kind }
}

func isBlank(v jsonfile.Value) bool {
	text, _ := v.Text()
	return strings.TrimSpace(text) == ""
}

// Format restricts a text.
type Format struct {
	Name   string
	Fits   func(string) bool
	Schema string // as in Form
}

// Trouble is the kind of a Defect.
type Trouble uint8

// The kinds of defects.
const (
	Absent   Trouble = iota // missing, or null where that is no value
	Misshape                // another form
	Outside                 // a number out of its limits
	Malform                 // a text that has not the format
	Unlisted                // a text that the words do not contain
	Empty                   // a value that counts as missing
)

// Defect is a difference between an object and a table.
type Defect struct {
	Field   *Field
	Key     string // of the field, from the object on: validation.all_passed, errors[0].code
	Value   jsonfile.Value
	Trouble Trouble
	Problem string // follows the key: "is missing"
}

// Check lists how an object differs from the table, in the table's order.
func (t *Table) Check(o jsonfile.Object) []Defect { return t.check(nil, o, "") }

func (t *Table) check(list []Defect, o jsonfile.Object, at string) []Defect {
	for i := range t.Fields {
		f := &t.Fields[i]
		list = f.check(list, o.Get(f.Key), at+f.Key)
	}
	for i := range t.Cases {
		c := &t.Cases[i]
		if c.applies(o) {
			list = c.Then.check(list, o, at)
		} else {
			list = c.Else.check(list, o, at)
		}
	}
	return list
}

func (c *Case) applies(o jsonfile.Object) bool {
	word, _ := o.String(c.Key)
	return slices.Contains(c.Words, word) || len(c.Words) == 0 && o.Has(c.Key)
}

func (f *Field) check(list []Defect, v jsonfile.Value, key string) []Defect {
	if trouble, problem := f.judge(v); problem != "" {
		return append(list, Defect{f, key, v, trouble, problem})
	}
	if o, p := v.Object(); p.OK() {
		list = f.Inside.check(list, o, key+".")
	}
	if f.Item == nil {
		return list
	}
	items, _ := v.Array()
	for i, item := range items {
		list = f.Item.check(list, item, key+"["+strconv.Itoa(i)+"]")
	}
	o, _ := v.Object()
	for _, name := range o.Keys() {
		list = f.Item.check(list, o.Get(name), key+"."+Line(name, 60))
	}
	return list
}

// judge says what is wrong with the value itself; "" if nothing is.
func (f *Field) judge(v jsonfile.Value) (Trouble, string) {
	kind := v.Kind()
	text, isText := v.Text()
	switch n, _ := v.Number(); {
	case kind == "missing" || kind == "null":
		switch {
		case f.Need == Optional || f.Null && kind == "null":
			return 0, ""
		case kind == "missing":
			return Absent, "is missing"
		}
		return Absent, "must be " + f.Form.Name + ", not null"
	case !f.Form.Fits(v):
		return Misshape, "must be " + f.Form.Name + ", not " + kind
	case f.Need != Optional && f.Form.Empty != nil && f.Form.Empty(v):
		return Empty, "is empty"
	case f.Limits != nil && (n < f.Limits.Low || n > f.Limits.High):
		return Outside, fmt.Sprintf("is %v, outside %v to %v", n, f.Limits.Low, f.Limits.High)
	case isText.OK() && f.Format.Fits != nil && !f.Format.Fits(text):
		return Malform, fmt.Sprintf("is %q, not %s", Line(text, 80), f.Format.Name)
	case text != "" && f.Words != nil && !slices.Contains(f.Words, text):
		want := "not one of "
		if len(f.Words) == 1 {
			want = "must be "
		}
		return Unlisted, fmt.Sprintf("is %q, %s%s", Line(text, 40), want, strings.Join(f.Words, ", "))
	}
	return 0, ""
}

// Problems lists the defects of a message before it is written, as sentences; nil means that the message may be written.
func (t *Table) Problems(o jsonfile.Object) (list []string) {
	for _, d := range t.Check(o) {
		list = append(list, d.Key+" "+d.Problem)
	}
	return list
}

// CheckMessage checks a message before it is written. The table is chosen by the message's content. Errors:
// *protocol.InvalidError with every problem.
func CheckMessage(doc []byte, tableOf func(jsonfile.Object) *Table) error {
	o, err := jsonfile.Parse(doc)
	if err != nil {
		return Invalid([]string{err.Error()})
	}
	return Invalid(tableOf(o).Problems(o))
}
