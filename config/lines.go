package config

import (
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// keyPath is where a value stands in a file: its keys joined by dots, quoted where TOML would have to, and the
// index of a list's entry, as in `retry[2].delay`.
type keyPath string

func (p keyPath) key(name string) keyPath {
	name = toml.Key{name}.String()
	if p == "" {
		return keyPath(name)
	}
	return p + "." + keyPath(name)
}

func (p keyPath) entry(n int) keyPath { return p + keyPath("["+strconv.Itoa(n)+"]") }

var entryIndex = lazily(`\[\d+\]`)

// String is the place as people write it: without the index, which the line says better.
func (p keyPath) String() string { return entryIndex().ReplaceAllString(string(p), "") }

// line is the place's line, or that of the nearest table or list around it; 0 if there is none.
func (p keyPath) line(lines map[keyPath]int) int {
	for {
		if n, ok := lines[p]; ok {
			return n
		}
		cut := strings.LastIndexAny(string(p), ".[")
		if cut < 0 {
			return 0
		}
		p = p[:cut]
	}
}

// maxDepth bounds how deep values and keys may nest. Nothing here needs a third of it, and the library's time
// grows with the square: a file of brackets alone would hold it for minutes.
const maxDepth = 16

// lineIndex gives the line of every key, table and entry in TOML text: the library keeps the lines to itself,
// except for the one at which it fails. deep is the line at which the text nests too deep, else 0.
func lineIndex(text string) (lines map[keyPath]int, deep int) {
	s := scanner{text: text, line: 1, rows: map[keyPath]int{}, lines: map[keyPath]int{}}
	var table keyPath
	for s.blank(); s.more(); s.blank() {
		at := s.at
		if s.text[s.at] == '[' {
			table = s.header()
		} else {
			s.pair(table)
		}
		if s.at == at { // never in valid TOML
			s.at++
		}
	}
	return s.lines, s.deep
}

// scanner walks through valid TOML. On anything else it finds nonsense, but ends.
type scanner struct {
	text    string
	at      int
	line    int // of counted
	counted int
	depth   int
	deep    int
	rows    map[keyPath]int // how many rows a list of tables has so far
	lines   map[keyPath]int
}

func (s *scanner) more() bool { return s.at < len(s.text) }

// count gives the present line.
func (s *scanner) count() int {
	s.line += strings.Count(s.text[s.counted:s.at], "\n")
	s.counted = s.at
	return s.line
}

// note gives the place the present line, unless it has one: a table may be named by its keys first.
func (s *scanner) note(p keyPath) {
	if _, ok := s.lines[p]; !ok {
		s.lines[p] = s.count()
	}
}

// tooDeep ends the walk if need be.
func (s *scanner) tooDeep(depth int) bool {
	if depth <= maxDepth {
		return false
	}
	s.deep = max(s.deep, s.count())
	s.at = len(s.text)
	return true
}

// skip passes any of the characters.
func (s *scanner) skip(chars string) {
	for s.more() && strings.IndexByte(chars, s.text[s.at]) >= 0 {
		s.at++
	}
}

// blank passes white space, line ends, commas between values, and comments.
func (s *scanner) blank() {
	for s.skip(" \t\r\n,"); s.more() && s.text[s.at] == '#'; s.skip(" \t\r\n,") {
		s.until("\n")
	}
}

// until stops at the first of the characters.
func (s *scanner) until(chars string) {
	if n := strings.IndexAny(s.text[s.at:], chars); n >= 0 {
		s.at += n
		return
	}
	s.at = len(s.text)
}

// header reads [a.b] or [[a.b]] and gives the place of the keys that follow it.
func (s *scanner) header() keyPath {
	row := strings.HasPrefix(s.text[s.at:], "[[")
	s.skip("[")
	var p keyPath
	keys := s.keys()
	for i, key := range keys {
		p = p.key(key)
		s.note(p)
		switch last := i == len(keys)-1; {
		case last && row:
			s.rows[p]++
			p = p.entry(s.rows[p] - 1)
			s.note(p)
		case !last && s.rows[p] > 0:
			p = p.entry(s.rows[p] - 1)
		}
	}
	s.skip(" \t]")
	return p
}

// pair reads `a.b = value`.
func (s *scanner) pair(table keyPath) {
	p := table
	for _, key := range s.keys() {
		p = p.key(key)
		s.note(p)
	}
	s.skip(" \t\r\n=")
	s.value(p)
}

// keys reads a dotted key.
func (s *scanner) keys() []string {
	var keys []string
	for {
		s.skip(" \t.")
		begin := s.at
		switch {
		case !s.more(), s.tooDeep(len(keys)):
			return keys
		case s.text[s.at] == '"' || s.text[s.at] == '\'':
			s.quoted()
			keys = append(keys, unquote(s.text[begin:s.at]))
		default:
			s.until(" \t.=]\r\n\"'")
			if s.at == begin {
				return keys
			}
			keys = append(keys, s.text[begin:s.at])
		}
	}
}

// value passes a value and notes what stands in it.
func (s *scanner) value(p keyPath) {
	if !s.more() {
		return
	}
	switch s.text[s.at] {
	case '"', '\'':
		s.quoted()
	case '[':
		s.inside(']', func(n int) {
			s.note(p.entry(n))
			s.value(p.entry(n))
		})
	case '{':
		s.inside('}', func(int) { s.pair(p) })
	default:
		s.until(",]}#\r\n")
	}
}

// inside walks through the entries of a list or an inline table.
func (s *scanner) inside(end byte, each func(n int)) {
	s.depth++
	defer func() { s.depth-- }()
	if s.tooDeep(s.depth) {
		return
	}
	s.at++
	s.blank()
	for n := 0; s.more() && s.text[s.at] != end; n++ {
		at := s.at
		each(n)
		if s.blank(); s.at == at {
			s.at++
		}
	}
	s.at = min(s.at+1, len(s.text))
}

// quoted passes a string of one of TOML's four kinds.
func (s *scanner) quoted() {
	quote := s.text[s.at : s.at+1]
	if long := strings.Repeat(quote, 3); strings.HasPrefix(s.text[s.at:], long) {
		quote = long
	}
	for s.at += len(quote); s.more(); s.at++ {
		switch {
		case quote[0] == '"' && s.text[s.at] == '\\':
			s.at++
		case strings.HasPrefix(s.text[s.at:], quote):
			s.at += len(quote)
			if len(quote) == 3 {
				s.skip(quote[:1]) // up to two more belong to the text
			}
			return
		}
	}
	s.at = len(s.text)
}

// newEscapes are those that TOML 1.1 has and Go has not, or reads as bytes. The first pair passes over an escaped backslash.
var newEscapes = strings.NewReplacer(`\\`, `\\`, `\e`, `\u001b`, `\x`, `\u00`)

// unquote reads a quoted key.
func unquote(s string) string {
	if s[0] == '"' {
		if plain, err := strconv.Unquote(newEscapes.Replace(s)); err == nil {
			return plain
		}
	}
	return strings.Trim(s, s[:1])
}
