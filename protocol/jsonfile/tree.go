package jsonfile

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// node is one value and its byte range in the document.
type node struct {
	kind       byte // { [ " 0 t f n, as in jsontext.Kind
	start, end int
	members    []member       // of an object
	items      []node         // of an array
	index      map[string]int // of a large object
}

// member's value ends where the member ends; keyStart..keyEnd includes the quotes.
type member struct {
	name             string
	keyStart, keyEnd int
	value            node
}

// indexFrom is the number of members from which an object gets an index.
const indexFrom = 16

func (n *node) number() {
	if len(n.members) < indexFrom {
		return
	}
	n.index = make(map[string]int, len(n.members))
	for i, m := range n.members {
		n.index[m.name] = i
	}
}

// find is the position of a member, or -1.
func (n *node) find(name string) int {
	if n.index != nil {
		if i, ok := n.index[name]; ok {
			return i
		}
		return -1
	}
	for i := range n.members {
		if n.members[i].name == name {
			return i
		}
	}
	return -1
}

func (n *node) len() int { return len(n.members) + len(n.items) }

// span is the byte range of the i-th member (with its key) or item.
func (n *node) span(i int) (start, end int) {
	if n.kind == '{' {
		return n.members[i].keyStart, n.members[i].value.end
	}
	return n.items[i].start, n.items[i].end
}

// same reports whether two values have the same meaning: 1.0 equals 1; escapes and key order do not matter.
func same(a, b []byte) bool {
	return bytes.Equal(a, b) || bytes.Equal(canonical(a), canonical(b))
}

// canonical is the canonical form of RFC 8785, but for integers, which a float64 may not hold.
func canonical(raw []byte) []byte {
	v := jsontext.Value(bytes.Clone(raw))
	if v.Canonicalize(jsontext.CanonicalizeRawInts(false)) != nil {
		return raw
	}
	return v
}
