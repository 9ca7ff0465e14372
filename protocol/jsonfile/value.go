package jsonfile

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
)

// Presence says how a field was found. Only Present has a value; Wrong is an error of this field alone, not of the
// document.
type Presence uint8

// The ways in which a field can be found.
const (
	Missing Presence = iota
	Null
	Wrong // another type, an invalid time, or a number out of range
	Present
)

func (p Presence) String() string {
	return [...]string{"missing", "null", "of the wrong type", "present"}[p]
}

// OK reports whether there is a value.
func (p Presence) OK() bool { return p == Present }

// Value is one value of a parsed document. The zero Value is missing. It refers to the document's bytes, which must not
// be modified.
type Value struct {
	doc  []byte
	n    *node
	path string
}

// Path is the dotted path inside the document: context.session_id,
// errors[0].severity. The document itself has the path "".
func (v Value) Path() string { return v.path }

// Raw is the value's bytes in the document; nil if missing.
func (v Value) Raw() []byte {
	if v.n == nil {
		return nil
	}
	return v.doc[v.n.start:v.n.end]
}

// Meaning is the sum of a value's content, regardless of its formatting: a client that rewrites a whole file in its own
// style does not change the meaning of what it copies.
func (v Value) Meaning() Sum { return SumOf(canonical(v.Raw())) }

// Kind is missing, null, boolean, number, string, object or array.
func (v Value) Kind() string {
	if v.n == nil {
		return "missing"
	}
	switch v.n.kind {
	case 'n':
		return "null"
	case 't', 'f':
		return "boolean"
	case '0':
		return "number"
	case '"':
		return "string"
	case '{':
		return "object"
	}
	return "array"
}

func (v Value) is(kinds ...byte) Presence {
	switch {
	case v.n == nil:
		return Missing
	case v.n.kind == 'n':
		return Null
	case bytes.IndexByte(kinds, v.n.kind) < 0:
		return Wrong
	}
	return Present
}

// Text is a string. It may contain any character, including NUL.
func (v Value) Text() (string, Presence) {
	p := v.is('"')
	if p != Present {
		return "", p
	}
	return unquote(v.Raw()), p
}

// Bool is true or false.
func (v Value) Bool() (bool, Presence) {
	p := v.is('t', 'f')
	return p == Present && v.n.kind == 't', p
}

// Number is any number that a float64 can hold.
func (v Value) Number() (float64, Presence) {
	p := v.is('0')
	if p != Present {
		return 0, p
	}
	f, err := strconv.ParseFloat(string(v.Raw()), 64)
	if err != nil {
		return 0, Wrong
	}
	return f, p
}

// Int is a number without a fraction; 3.0 and 3e0 count.
func (v Value) Int() (int64, Presence) {
	f, p := v.Number()
	if p != Present {
		return 0, p
	}
	if i, err := strconv.ParseInt(string(v.Raw()), 10, 64); err == nil {
		return i, p
	}
	if f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, Wrong
	}
	return int64(f), p
}

// Object is an object's fields; the zero Object has none.
func (v Value) Object() (Object, Presence) {
	p := v.is('{')
	if p != Present {
		return Object{Value{path: v.path}}, p
	}
	return Object{v}, p
}

// Array is an array's items, with paths like errors[0].
func (v Value) Array() ([]Value, Presence) {
	p := v.is('[')
	if p != Present {
		return nil, p
	}
	items := make([]Value, len(v.n.items))
	for i := range items {
		items[i] = Value{v.doc, &v.n.items[i], v.path + "[" + strconv.Itoa(i) + "]"}
	}
	return items, p
}

// Strings is an array of strings. Items of other types are left out and make the whole Wrong; use Array to find out
// which.
func (v Value) Strings() ([]string, Presence) {
	items, p := v.Array()
	var out []string
	for _, item := range items {
		s, ok := item.Text()
		if ok != Present {
			p = Wrong
			continue
		}
		out = append(out, s)
	}
	return out, p
}

// Object reads the fields of a JSON object. Keys are case-sensitive. An absent field reads as Missing, so chained
// Objects need no check in between.
type Object struct{ v Value }

// Get is the field key.
func (o Object) Get(key string) Value {
	f := Value{path: join(o.v.path, key)}
	if o.v.n == nil {
		return f
	}
	if i := o.v.n.find(key); i >= 0 {
		f.doc, f.n = o.v.doc, &o.v.n.members[i].value
	}
	return f
}

// Has reports whether the key exists, even with a null value.
func (o Object) Has(key string) bool { return o.v.n != nil && o.v.n.find(key) >= 0 }

// Keys are the object's keys in the document's order.
func (o Object) Keys() []string {
	if o.v.n == nil {
		return nil
	}
	keys := make([]string, len(o.v.n.members))
	for i, m := range o.v.n.members {
		keys[i] = m.name
	}
	return keys
}

// Value is the object as a Value: its Path, Kind and Raw bytes.
func (o Object) Value() Value { return o.v }

// String is Get(key).Text().
func (o Object) String(key string) (string, Presence) { return o.Get(key).Text() }

// Number is Get(key).Number().
func (o Object) Number(key string) (float64, Presence) { return o.Get(key).Number() }

// Int is Get(key).Int().
func (o Object) Int(key string) (int64, Presence) { return o.Get(key).Int() }

// Newer returns an error if the file's "version" is above the known version; nil if it has no version.
func (o Object) Newer(known int64) error {
	if v, ok := o.Int("version"); ok.OK() && v > known {
		return fmt.Errorf("it was written by a newer steward (file version %d, this steward knows %d)", v, known)
	}
	return nil
}

// Bool is Get(key).Bool().
func (o Object) Bool(key string) (bool, Presence) { return o.Get(key).Bool() }

// Strings is Get(key).Strings().
func (o Object) Strings(key string) ([]string, Presence) { return o.Get(key).Strings() }

// Object is Get(key).Object().
func (o Object) Object(key string) (Object, Presence) { return o.Get(key).Object() }

// Array is Get(key).Array().
func (o Object) Array(key string) ([]Value, Presence) { return o.Get(key).Array() }
