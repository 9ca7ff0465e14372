package jsonfile

import (
	"bytes"
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Parse parses a document that is one JSON object. It refuses duplicate keys, invalid UTF-8, nesting beyond MaxDepth
// and anything after the object; it accepts a byte order mark. The error is an *Error with a Position: ErrTorn if the
// document only ends too early, else ErrBad. Neither is conclusive after one read. The Object refers to doc.
func Parse(doc []byte) (Object, error) {
	v, err := ParseValue(doc)
	if err != nil {
		return Object{}, err
	}
	o, p := v.Object()
	if p != Present {
		return Object{}, refuse(ErrBad, doc, v.n.start, "", "want an object, found "+v.Kind())
	}
	return o, nil
}

// ParseValue is Parse for a document of any kind.
func ParseValue(doc []byte) (Value, error) {
	n, err := scan(doc)
	if err != nil {
		return Value{}, err
	}
	return Value{doc: doc, n: &n}, nil
}

// Decode decodes a document that steward itself wrote into a Go value, under the rules of Parse; a wrong type is an
// error too (ErrBad, with the field's path). Keys are compared exactly; unknown keys are ignored.
func Decode(doc []byte, into any) error {
	if _, err := scan(doc); err != nil {
		return newError(opDecode, "", err)
	}
	body := bytes.TrimPrefix(doc, bom)
	err := json.Unmarshal(body, into)
	if err == nil {
		return nil
	}
	at, field, why := 0, "", err.Error()
	var se *json.SemanticError
	var te *jsontext.SyntacticError
	switch {
	case errors.As(err, &se):
		at, field = int(se.ByteOffset), dotted(se.JSONPointer)
		if se.GoType != nil && se.JSONKind != 0 {
			why = "found " + se.JSONKind.String() + ", want " + se.GoType.String()
		}
	case errors.As(err, &te):
		at, field = int(te.ByteOffset), dotted(te.JSONPointer)
	}
	return newError(opDecode, "", refuse(ErrBad, doc, at+len(doc)-len(body), field, why))
}
