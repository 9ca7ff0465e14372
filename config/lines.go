package config

import (
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"
)

// keyPath is the place of a value in a file: its keys joined by dots, quoted where TOML requires it, with the index of
// a list entry, as in `retry[2].delay`.
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

// String returns the place without list indexes, because the line number identifies the entry.
func (p keyPath) String() string { return entryIndex().ReplaceAllString(string(p), "") }

// line returns the line of the place, or of the nearest enclosing table or list; 0 if none exists.
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

// maxDepth limits the nesting of values and keys. No setting needs a third of it, and the library's time grows with the
// square of the depth: a file of brackets alone would take it minutes.
const maxDepth = 16

// lineIndex returns the line of every key, table and entry in TOML text, because the library exposes only the line at
// which it fails. deep is the line at which the text nests too deeply, else 0.
func lineIndex(text string) (lines map[keyPath]int, deep int) {
	s := lineScanner{text: text, line: 1, rows: map[keyPath]int{}, lines: map[keyPath]int{}}
	var table keyPath
	for s.blank(); s.more(); s.blank() {
		at := s.at
		if s.text[s.at] == '[' {
			table = s.header()
		} else {
			s.pair(table)
		}
		if s.at == at { // never happens in valid TOML
			s.at++
		}
	}
	return s.lines, s.deep
}

// lineScanner scans valid TOML. On invalid text its result is meaningless, but it terminates.
type lineScanner struct {
	text    string
	at      int
	line    int // the line at offset counted
	counted int
	depth   int
	deep    int
	rows    map[keyPath]int // rows seen so far per list of tables
	lines   map[keyPath]int
}

func (s *lineScanner) more() bool { return s.at < len(s.text) }

// count returns the current line.
func (s *lineScanner) count() int {
	s.line += strings.Count(s.text[s.counted:s.at], "\n")
	s.counted = s.at
	return s.line
}

// note records the current line for the place, unless it has one: a dotted key may name a table first.
func (s *lineScanner) note(p keyPath) {
	if _, ok := s.lines[p]; !ok {
		s.lines[p] = s.count()
	}
}

// tooDeep reports whether the depth exceeds maxDepth, and then ends the scan.
func (s *lineScanner) tooDeep(depth int) bool {
	if depth <= maxDepth {
		return false
	}
	s.deep = max(s.deep, s.count())
	s.at = len(s.text)
	return true
}

// skip advances over any of the characters.
func (s *lineScanner) skip(chars string) {
	for s.more() && strings.IndexByte(chars, s.text[s.at]) >= 0 {
		s.at++
	}
}

// blank advances over white space, line ends, commas between values, and comments.
func (s *lineScanner) blank() {
	for s.skip(" \t\r\n,"); s.more() && s.text[s.at] == '#'; s.skip(" \t\r\n,") {
		s.until("\n")
	}
}

// until advances to the first of the characters.
func (s *lineScanner) until(chars string) {
	if n := strings.IndexAny(s.text[s.at:], chars); n >= 0 {
		s.at += n
		return
	}
	s.at = len(s.text)
}

// header reads [a.b] or [[a.b]] and returns the table of the keys that follow.
func (s *lineScanner) header() keyPath {
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
func (s *lineScanner) pair(table keyPath) {
	p := table
	for _, key := range s.keys() {
		p = p.key(key)
		s.note(p)
	}
	s.skip(" \t\r\n=")
	s.value(p)
}

// keys reads a dotted key.
func (s *lineScanner) keys() []string {
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

// value advances over a value and records the places inside it.
func (s *lineScanner) value(p keyPath) {
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

// inside scans the entries of a list or an inline table.
func (s *lineScanner) inside(end byte, each func(n int)) {
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

// quoted advances over a string of any of TOML's four kinds.
func (s *lineScanner) quoted() {
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
				s.skip(quote[:1]) // up to two more quotes belong to the text
			}
			return
		}
	}
	s.at = len(s.text)
}

// newEscapes translates the escapes of TOML 1.1 that Go lacks or reads as bytes. The first pair skips an escaped
// backslash.
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

// lazily compiles an expression on first use; otherwise every start of the program would pay for it.
func lazily(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}
