package jsonfile

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth is the maximum nesting of objects and arrays.
const MaxDepth = 64

var bom = []byte("\xef\xbb\xbf")

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
	if errors.As(err, &se) {
		at, field = int(se.ByteOffset), dotted(se.JSONPointer)
		if se.GoType != nil && se.JSONKind != 0 {
			why = "found " + se.JSONKind.String() + ", want " + se.GoType.String()
		}
	}
	return newError(opDecode, "", refuse(ErrBad, doc, at+len(doc)-len(body), field, why))
}

// scan checks a whole document and records the positions of its values. It returns ErrTorn for an unfinished document
// and ErrBad for one that breaks the rules.
func scan(doc []byte) (node, error) {
	body := bytes.TrimPrefix(doc, bom)
	shift := len(doc) - len(body)
	whole := bytes.TrimRight(body, "\x00")
	switch {
	case len(bytes.TrimLeft(whole, " \t\r\n\x00")) == 0 || bytes.HasPrefix(bom, whole):
		return node{}, refuse(ErrTorn, doc, 0, "", "empty")
	case body[0] == 0:
		return node{}, refuse(ErrTorn, doc, shift, "", "a writer left a hole of NUL bytes")
	case bytes.HasPrefix(body, []byte("\xff\xfe")) || bytes.HasPrefix(body, []byte("\xfe\xff")):
		return node{}, refuse(ErrBad, doc, 0, "", "UTF-16; write it as UTF-8")
	}
	s := tokenScanner{jsontext.NewDecoder(bytes.NewBuffer(whole)), shift}
	n, err := s.value(1)
	if err != nil {
		return node{}, unreadable(doc, shift, whole, err)
	}
	at := int(s.d.InputOffset())
	if _, err := s.d.ReadToken(); err != io.EOF {
		at += len(whole[at:]) - len(bytes.TrimLeft(whole[at:], " \t\r\n"))
		return node{}, refuse(ErrBad, doc, shift+at, "", "something follows the document")
	}
	if len(whole) < len(body) {
		return node{}, refuse(ErrTorn, doc, shift+len(whole), "", "NUL bytes follow the document")
	}
	return n, nil
}

// tokenScanner records positions while the library checks the syntax, UTF-8 and that no key stands twice.
type tokenScanner struct {
	d     *jsontext.Decoder
	shift int // of the decoder's offsets in the document
}

var errDeep = errors.New("nested deeper than " + strconv.Itoa(MaxDepth))

func (s tokenScanner) value(depth int) (n node, err error) {
	n.kind = byte(s.d.PeekKind())
	if n.kind != '{' && n.kind != '[' {
		raw, err := s.d.ReadValue()
		n.end = int(s.d.InputOffset()) + s.shift
		n.start = n.end - len(raw)
		return n, err
	}
	if _, err := s.d.ReadToken(); err != nil {
		return n, err
	}
	n.start = int(s.d.InputOffset()) + s.shift - 1
	if depth > MaxDepth {
		return n, &jsontext.SyntacticError{ByteOffset: int64(n.start - s.shift), Err: errDeep}
	}
	for end := jsontext.Kind(n.kind + 2); s.d.PeekKind() != end; { // '{' + 2 is '}', '[' + 2 is ']'
		if n.kind == '{' {
			m, err := s.member(depth)
			if err != nil {
				return n, err
			}
			n.members = append(n.members, m)
			continue
		}
		item, err := s.value(depth + 1)
		if err != nil {
			return n, err
		}
		n.items = append(n.items, item)
	}
	_, err = s.d.ReadToken()
	n.end = int(s.d.InputOffset()) + s.shift
	n.number()
	return n, err
}

func (s tokenScanner) member(depth int) (m member, err error) {
	key, err := s.d.ReadValue()
	if err != nil {
		return m, err
	}
	m.keyEnd = int(s.d.InputOffset()) + s.shift
	m.keyStart = m.keyEnd - len(key)
	m.name = unquote(key)
	m.value, err = s.value(depth + 1)
	return m, err
}

func unquote(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	s, _ := jsontext.AppendUnquote(nil, raw)
	return string(s)
}

// unreadable turns the decoder's error about whole, which begins at shift, into one about doc.
func unreadable(doc []byte, shift int, whole []byte, err error) error {
	at, field := len(whole), ""
	var se *jsontext.SyntacticError
	if errors.As(err, &se) {
		at, field, err = int(se.ByteOffset), dotted(se.JSONPointer), se.Err
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return refuse(ErrTorn, doc, shift+len(whole), field, "ends too early")
	}
	return refuse(ErrBad, doc, shift+at, field, err.Error())
}

func refuse(kind error, doc []byte, at int, field, why string) error {
	at = min(at, len(doc))
	line := bytes.LastIndexByte(doc[:at], '\n') + 1
	return &Error{
		Op:   opParse,
		Err:  kind,
		Hint: why,
		At:   Position{Offset: at, Line: bytes.Count(doc[:at], []byte("\n")) + 1, Column: at - line + 1, Field: field},
	}
}

// dotted formats a JSON pointer as messages show it: errors[0].severity.
func dotted(p jsontext.Pointer) string {
	path := ""
	for token := range p.Tokens() {
		if _, err := strconv.ParseUint(token, 10, 32); err == nil {
			path += "[" + token + "]"
		} else {
			path = join(path, token)
		}
	}
	return path
}

func join(path, key string) string {
	if key == "" || strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || strings.ContainsRune(`.[]"`, c) }) {
		key = strconv.Quote(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}
