package jsonfile

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// style is the layout of a document.
type style struct {
	lines        bool   // objects stand on separate lines
	unit, eol    string // one step of indentation; the end of a line
	colon, comma bool   // a space follows, if on one line
}

// detect derives the style from the first places that show it. An empty document gets steward's style: lines and two
// spaces.
func detect(doc []byte, root *node) style {
	s := style{unit: "  ", eol: "\n", lines: root.len() == 0 || bytes.IndexByte(doc[root.start:firstOf(root)], '\n') >= 0}
	d := detector{doc: doc, s: &s}
	d.walk(root)
	if i := bytes.IndexByte(doc, '\n'); i > 0 && doc[i-1] == '\r' {
		s.eol = "\r\n"
	}
	if !d.colon {
		s.colon = true
	}
	if !d.comma {
		s.comma = s.colon
	}
	return s
}

func firstOf(n *node) int {
	start, _ := n.span(0)
	return start
}

type detector struct {
	doc                []byte
	s                  *style
	unit, colon, comma bool // already known
}

func (d *detector) walk(n *node) {
	for i := range n.len() {
		if d.unit && d.colon && d.comma {
			return
		}
		start, _ := n.span(i)
		if i == 0 {
			d.indent(n, start)
		} else if _, end := n.span(i - 1); !d.comma {
			gap := d.doc[end:start]
			if bytes.IndexByte(gap, '\n') < 0 {
				d.s.comma, d.comma = gap[len(gap)-1] == ' ', true
			}
		}
		if n.kind == '{' {
			m := &n.members[i]
			if !d.colon {
				d.s.colon, d.colon = d.doc[m.value.start-1] != ':', true
			}
			d.walk(&m.value)
		} else {
			d.walk(&n.items[i])
		}
	}
}

func (d *detector) indent(n *node, first int) {
	if d.unit || bytes.IndexByte(d.doc[n.start:first], '\n') < 0 {
		return
	}
	own, child := indentAt(d.doc, n.start), indentAt(d.doc, first)
	if unit, ok := bytes.CutPrefix(child, own); ok {
		d.s.unit, d.unit = string(unit), true
	}
}

// indentAt is the white space at the start of the line that contains pos.
func indentAt(doc []byte, pos int) []byte {
	line := doc[bytes.LastIndexByte(doc[:pos], '\n')+1 : pos]
	return line[:len(line)-len(bytes.TrimLeft(line, " \t"))]
}

// text is a document being edited, with its style.
type text struct {
	doc []byte
	style
}

// replace replaces n by raw, laid out like the old value if that was an object or array, else like its surroundings.
func (t text) replace(n, within *node, raw []byte, verbatim bool) []byte {
	if !verbatim {
		lines := t.lines
		switch {
		case n.len() > 0:
			lines = t.onLines(n)
		case within != nil:
			lines = t.onLines(within)
		}
		raw = t.layout(raw, lines, indentAt(t.doc, n.start))
	}
	return slices.Concat(t.doc[:n.start], raw, t.doc[n.end:])
}

func (t text) onLines(n *node) bool {
	return bytes.IndexByte(t.doc[n.start:firstOf(n)], '\n') >= 0
}

// insert adds a member (or an item: key is ignored) at the end of n.
func (t text) insert(n *node, key string, raw []byte, verbatim bool) []byte {
	if n.len() == 0 {
		return t.fill(n, key, raw, verbatim)
	}
	start, end := n.span(n.len() - 1)
	gap, lines := t.gap(n, start), false
	indent := indentAt(t.doc, n.start)
	if i := bytes.LastIndexByte(gap, '\n'); i >= 0 {
		lines, indent = true, gap[i+1:]
	}
	if !verbatim {
		raw = t.layout(raw, lines, indent)
	}
	if n.kind == '[' {
		return slices.Concat(t.doc[:end], []byte(","), gap, raw, t.doc[end:])
	}
	m := n.members[len(n.members)-1]
	colon := t.doc[m.keyEnd:m.value.start]
	if bytes.IndexByte(colon, '\n') >= 0 {
		colon = []byte(": ")
	}
	return slices.Concat(t.doc[:end], []byte(","), gap, quote(key), colon, raw, t.doc[end:])
}

// gap is the white space before the last child of n; the next child copies it.
func (t text) gap(n *node, start int) []byte {
	from := n.start + 1
	if n.len() > 1 {
		_, from = n.span(n.len() - 2)
		from += bytes.IndexByte(t.doc[from:], ',') + 1
	}
	gap := t.doc[from:start]
	if n.len() == 1 && bytes.IndexByte(gap, '\n') < 0 {
		return []byte(t.spaceIf(t.comma))
	}
	return gap
}

// fill writes the first member or item into an empty n.
func (t text) fill(n *node, key string, raw []byte, verbatim bool) []byte {
	own := indentAt(t.doc, n.start)
	child := slices.Concat(own, []byte(t.unit))
	if !verbatim {
		raw = t.layout(raw, t.lines, child)
	}
	if n.kind == '{' {
		raw = slices.Concat(quote(key), []byte(":"+t.spaceIf(t.colon)), raw)
	}
	if t.lines {
		raw = slices.Concat([]byte(t.eol), child, raw, []byte(t.eol), own)
	}
	return slices.Concat(t.doc[:n.start+1], raw, t.doc[n.end-1:])
}

func (t text) spaceIf(yes bool) string {
	if yes {
		return " "
	}
	return ""
}

// layout writes compact JSON in the document's style; indent is that of the line on which it begins.
func (t text) layout(raw []byte, lines bool, indent []byte) []byte {
	if raw[0] != '{' && raw[0] != '[' {
		return raw
	}
	opts := []jsontext.Options{jsontext.PreserveRawStrings(true), jsontext.SpaceAfterColon(t.colon)}
	if lines {
		opts = append(opts, jsontext.WithIndent(t.unit), jsontext.WithIndentPrefix(blank(indent)))
	} else {
		opts = append(opts, jsontext.SpaceAfterComma(t.comma))
	}
	out, err := jsontext.AppendFormat(nil, raw, opts...)
	if err != nil {
		return raw
	}
	if lines && t.eol != "\n" {
		out = bytes.ReplaceAll(out, []byte("\n"), []byte(t.eol))
	}
	return out
}

// blank drops everything that is no indentation: a stray carriage return.
func blank(indent []byte) string {
	return string(bytes.ReplaceAll(indent, []byte("\r"), nil))
}
