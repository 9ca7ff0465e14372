package jsonfile

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Set sets the value at Path to Value. A path component is an object key, or the number of an array item ("-" means
// after the last item). Value is anything that Encode accepts; a jsontext.Value or a Value is inserted verbatim.
type Set struct {
	Path  []string
	Value any
}

type removal struct{}

// Remove is an edit that removes the key or item at path, if it exists.
func Remove(path ...string) Set { return Set{path, removal{}} }

// Edit applies edits in order and leaves every other byte of doc as it is: key order, white space, the spelling of
// numbers and strings, the end of the file. A value that is already equal keeps its bytes. A missing key is added at
// the end of its object, in the document's own indentation; missing parent objects (and arrays, for "-") are created,
// and null counts as missing. doc itself is not changed.
//
// Errors: those of Parse, and ErrShape if the path leads through a string, a number, or past the end of an array.
func Edit(doc []byte, edits ...Set) ([]byte, error) {
	for _, e := range edits {
		next, err := edit(doc, e)
		if err != nil {
			return nil, newError(opEdit, "", err)
		}
		doc = next
	}
	return doc, nil
}

func edit(doc []byte, e Set) ([]byte, error) {
	root, err := scan(doc)
	if err != nil {
		return nil, err
	}
	if !utf8.ValidString(strings.Join(e.Path, "")) {
		return nil, fmt.Errorf("%w: the path is not UTF-8", ErrShape)
	}
	if _, ok := e.Value.(removal); ok {
		return remove(doc, root, e.Path), nil
	}
	raw, verbatim, err := rawValue(e.Value)
	if err != nil {
		return nil, err
	}
	out, err := put(text{doc, detect(doc, &root)}, root, e.Path, raw, verbatim)
	if err != nil {
		return nil, err
	}
	// The inserted value may be nested too deeply or have duplicate keys: never write that.
	if _, err := scan(out); err != nil {
		return nil, fmt.Errorf("the result would not be valid: %w", err)
	}
	return out, nil
}

// rawValue is the value as JSON; verbatim: the spelling is the caller's own.
func rawValue(v any) (raw []byte, verbatim bool, err error) {
	switch v := v.(type) {
	case jsontext.Value:
		if _, err := scan(v); err != nil {
			return nil, false, fmt.Errorf("%w: the new value: %v", ErrShape, err)
		}
		return bytes.TrimSpace(v), true, nil
	case Value:
		raw, verbatim = v.Raw(), true
	case Object:
		raw, verbatim = v.v.Raw(), true
	}
	if raw != nil {
		return raw, verbatim, nil
	}
	raw, err = marshal(v)
	return raw, false, err
}

// put walks down path as far as the document goes and inserts what is missing.
func put(t text, root node, path []string, raw []byte, verbatim bool) ([]byte, error) {
	n, within := &root, (*node)(nil)
	for i, key := range path {
		rest := path[i+1:]
		child, last, err := n.child(key)
		switch {
		case n.kind == 'n':
			return t.replace(n, within, nest(path[i:], raw), false), nil
		case err != nil:
			return nil, fmt.Errorf("%w: %s", err, strings.Join(path[:i+1], "."))
		case child == nil && last:
			return t.insert(n, key, nest(rest, raw), verbatim && len(rest) == 0), nil
		}
		n, within = child, n
	}
	if same(t.doc[n.start:n.end], raw) {
		return t.doc, nil
	}
	return t.replace(n, within, raw, verbatim), nil
}

// child finds a member or an item. If c is nil and end is set, it can be inserted.
func (n *node) child(key string) (c *node, end bool, err error) {
	switch n.kind {
	case '{':
		if i := n.find(key); i >= 0 {
			return &n.members[i].value, false, nil
		}
		return nil, true, nil
	case '[':
		i, err := strconv.Atoi(key)
		if key == "-" {
			i, err = len(n.items), nil
		}
		if err != nil || i < 0 || i > len(n.items) {
			return nil, false, fmt.Errorf("%w: no such item in an array of %d", ErrShape, len(n.items))
		}
		if i == len(n.items) {
			return nil, true, nil
		}
		return &n.items[i], false, nil
	}
	return nil, false, fmt.Errorf("%w: not in an object", ErrShape)
}

// nest wraps raw in the objects (and for "-" the arrays) that are missing on path.
func nest(path []string, raw []byte) []byte {
	for _, key := range slices.Backward(path) {
		if key == "-" {
			raw = slices.Concat([]byte("["), raw, []byte("]"))
			continue
		}
		raw = slices.Concat([]byte("{"), quote(key), []byte(":"), raw, []byte("}"))
	}
	return raw
}

func quote(s string) []byte {
	b, _ := jsontext.AppendQuote(nil, s)
	return b
}

// remove cuts out a member or item with the comma before it, or with the comma after it if it is the first: the inverse
// of an insertion at the end.
func remove(doc []byte, root node, path []string) []byte {
	n := &root
	for i, key := range path {
		child, _, err := n.child(key)
		if err != nil || child == nil {
			return doc
		}
		if i == len(path)-1 {
			from, to := n.cut(child)
			return slices.Concat(doc[:from], doc[to:])
		}
		n = child
	}
	return doc
}

func (n *node) cut(child *node) (from, to int) {
	i := 0
	for ; i < n.len(); i++ {
		if _, end := n.span(i); end == child.end {
			break
		}
	}
	start, end := n.span(i)
	switch {
	case i > 0:
		_, from = n.span(i - 1)
		return from, end
	case n.len() > 1:
		to, _ = n.span(1)
		return start, to
	}
	return n.start + 1, n.end - 1
}
