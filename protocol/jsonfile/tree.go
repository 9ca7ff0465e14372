package jsonfile

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth is the maximum nesting of objects and arrays.
const MaxDepth = 64

// indexFrom is the number of members from which an object gets an index.
const indexFrom = 16

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

// scan checks a whole document and records the positions of its values. The library validates it (duplicate keys,
// UTF-8, syntax), so the scanner can trust every byte.
func scan(doc []byte) (node, error) {
	if err := check(doc); err != nil {
		return node{}, err
	}
	s := scanner{doc: doc}
	if bytes.HasPrefix(doc, bom) {
		s.pos = len(bom)
	}
	n := s.value(1)
	if s.deep > 0 {
		return node{}, refuse(ErrBad, doc, s.deep, "", fmt.Sprintf("nested deeper than %d", MaxDepth))
	}
	return n, nil
}

// scanner records the positions in a document that is known to be valid.
type scanner struct {
	doc  []byte
	pos  int
	deep int // where nesting went too deep, else 0
}

func (s *scanner) space() byte {
	for s.pos < len(s.doc) {
		switch s.doc[s.pos] {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return s.doc[s.pos]
		}
	}
	return 0
}

func (s *scanner) value(depth int) node {
	c := s.space()
	n := node{kind: c, start: s.pos}
	switch c {
	case '{', '[':
		if depth > MaxDepth {
			s.deep, s.pos = s.pos, len(s.doc)
			break
		}
		s.pos++
		s.children(&n, depth)
	case '"':
		s.str()
	case 't', 'f', 'n':
		s.word()
	default:
		n.kind = '0'
		s.word()
	}
	n.end = s.pos
	return n
}

func (s *scanner) children(n *node, depth int) {
	for {
		switch s.space() {
		case 0:
			return // nested too deeply below
		case '}', ']':
			s.pos++
			n.number()
			return
		case ',':
			s.pos++
		default:
			if n.kind == '{' {
				n.members = append(n.members, s.member(depth))
			} else {
				n.items = append(n.items, s.value(depth+1))
			}
		}
	}
}

func (s *scanner) member(depth int) member {
	m := member{keyStart: s.pos}
	s.str()
	m.keyEnd = s.pos
	m.name = unquote(s.doc[m.keyStart:m.keyEnd])
	s.space()
	s.pos++ // the colon
	m.value = s.value(depth + 1)
	return m
}

func (s *scanner) str() {
	for s.pos++; s.doc[s.pos] != '"'; s.pos++ {
		if s.doc[s.pos] == '\\' {
			s.pos++
		}
	}
	s.pos++
}

func (s *scanner) word() {
	for s.pos < len(s.doc) && !bytes.ContainsRune([]byte(",]} \t\r\n"), rune(s.doc[s.pos])) {
		s.pos++
	}
}

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

func unquote(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	s, _ := jsontext.AppendUnquote(nil, raw)
	return string(s)
}
