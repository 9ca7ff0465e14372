package jsonfile

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

var bom = []byte("\xef\xbb\xbf")

// check returns ErrTorn for an unfinished document and ErrBad for one that breaks the rules.
func check(doc []byte) error {
	body := bytes.TrimPrefix(doc, bom)
	shift := len(doc) - len(body)
	whole := bytes.TrimRight(body, "\x00")
	if len(bytes.TrimLeft(whole, " \t\r\n\x00")) == 0 || bytes.HasPrefix(bom, whole) {
		return refuse(ErrTorn, doc, 0, "", "empty")
	}
	if body[0] == 0 {
		return refuse(ErrTorn, doc, shift, "", "a writer left a hole of NUL bytes")
	}
	if bytes.HasPrefix(body, []byte("\xff\xfe")) || bytes.HasPrefix(body, []byte("\xfe\xff")) {
		return refuse(ErrBad, doc, 0, "", "UTF-16; write it as UTF-8")
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(whole))
	_, err := d.ReadValue()
	if err != nil {
		return syntax(doc, shift, whole, err)
	}
	at := int(d.InputOffset())
	if _, err := d.ReadToken(); err != io.EOF {
		at += len(whole[at:]) - len(bytes.TrimLeft(whole[at:], " \t\r\n"))
		return refuse(ErrBad, doc, shift+at, "", "something follows the document")
	}
	if len(whole) < len(body) {
		return refuse(ErrTorn, doc, shift+len(whole), "", "NUL bytes follow the document")
	}
	return nil
}

func syntax(doc []byte, shift int, whole []byte, err error) error {
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
