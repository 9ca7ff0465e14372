package jsonfile

import (
	"bytes"
	"math"
	"strconv"
)

// same reports whether n already has the meaning of raw: 1.0 equals 1; escapes and key order do not matter.
func same(doc []byte, n *node, raw []byte) bool {
	if bytes.Equal(doc[n.start:n.end], raw) {
		return true
	}
	other, err := scan(raw)
	return err == nil && equal(Value{doc: doc, n: n}, Value{doc: raw, n: &other})
}

func equal(a, b Value) bool {
	if a.n.kind != b.n.kind {
		return false
	}
	switch a.n.kind {
	case '"':
		return unquote(a.Raw()) == unquote(b.Raw())
	case '0':
		return equalNumbers(a.Raw(), b.Raw())
	case '[':
		return equalArrays(a, b)
	case '{':
		return equalObjects(a, b)
	}
	return true
}

func equalArrays(a, b Value) bool {
	if len(a.n.items) != len(b.n.items) {
		return false
	}
	for i := range a.n.items {
		if !equal(Value{doc: a.doc, n: &a.n.items[i]}, Value{doc: b.doc, n: &b.n.items[i]}) {
			return false
		}
	}
	return true
}

func equalObjects(a, b Value) bool {
	if len(a.n.members) != len(b.n.members) {
		return false
	}
	for _, m := range a.n.members {
		i := b.n.find(m.name)
		if i < 0 || !equal(Value{doc: a.doc, n: &m.value}, Value{doc: b.doc, n: &b.n.members[i].value}) {
			return false
		}
	}
	return true
}

// equalNumbers relies on floats only where they are exact.
func equalNumbers(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, err1 := strconv.ParseFloat(string(a), 64)
	y, err2 := strconv.ParseFloat(string(b), 64)
	return err1 == nil && err2 == nil && x == y && math.Abs(x) < 1<<53
}
