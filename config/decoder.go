package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/BurntSushi/toml"
)

// decoder is the state of decoding a file into a Config.
type decoder struct {
	name  string
	tree  map[string]any
	lines map[keyPath]int
	found []Problem
	bad   map[keyPath]bool // the places known to be wrong; they keep their default
	gone  []Problem
}

// read parses the TOML; it returns syntax errors only.
func read(name string, data []byte) (*decoder, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // Windows editors add a BOM; files are UTF-8 anyway
	if p, ok := notText(data); !ok {
		p.File = name
		return nil, p
	}
	s := &decoder{name: name, bad: map[keyPath]bool{}}
	lines, deep := lineIndex(string(data))
	if s.lines = lines; deep > 0 {
		return nil, Problem{File: name, Line: deep, Text: "nested deeper than any setting"}
	}
	if _, err := toml.Decode(string(data), &s.tree); err != nil {
		p := Problem{File: name, Text: oneLine(err.Error())}
		if parse, ok := errors.AsType[toml.ParseError](err); ok {
			p.Line, p.Text = parse.Position.Line, oneLine(parse.Message)
			if strings.HasSuffix(parse.Message, `to end table name, but got '\n' instead`) {
				p.Line-- // the parser has consumed the newline and counts the next line
			}
		}
		return nil, p
	}
	return s, nil
}

// notText finds the first byte that is invalid in UTF-8 text. The TOML library would read a file that holds only the
// UTF-16 byte order mark as empty.
func notText(data []byte) (p Problem, ok bool) {
	const advice = "; save it as UTF-8"
	if bytes.HasPrefix(data, []byte{0xff, 0xfe}) || bytes.HasPrefix(data, []byte{0xfe, 0xff}) {
		return Problem{Line: 1, Text: fmt.Sprintf("the file begins with %x %x, so it is UTF-16 and not UTF-8%s", data[0], data[1], advice)}, false
	}
	line, start := 1, 0
	for at := 0; at < len(data); {
		r, size := utf8.DecodeRune(data[at:])
		switch {
		case r == 0:
			return Problem{Line: line, Text: fmt.Sprintf("byte %d of the line is NUL, so this is not a text file in UTF-8", at-start+1)}, false
		case r == utf8.RuneError && size == 1:
			return Problem{Line: line, Text: fmt.Sprintf("byte %d of the line is %#x, which is not UTF-8%s", at-start+1, data[at], advice)}, false
		case r == '\n':
			line, start = line+1, at+size
		}
		at += size
	}
	return p, true
}

// oneLine keeps an error on one line, even if it quotes line breaks from the file.
func oneLine(s string) string {
	return strings.NewReplacer("\n", `\n`, "\r", `\r`).Replace(s)
}

// blame records a flaw at the first of its places that the file contains. If any of the places is already known to be
// wrong, the flaw may be a consequence (a value compared with a default), so it is dropped.
func (s *decoder) blame(f flaw) {
	if slices.ContainsFunc(f.at, func(at keyPath) bool { return s.bad[at] }) {
		return
	}
	for _, at := range f.at {
		if _, ok := s.lines[at]; ok {
			s.problem(at, "%s", f.text)
			return
		}
	}
	s.found = append(s.found, Problem{File: s.name, Text: oneLine(f.text)})
}

// problem records an error at a place.
func (s *decoder) problem(at keyPath, format string, args ...any) {
	s.bad[at] = true
	s.found = append(s.found, Problem{File: s.name, Line: at.line(s.lines), Text: oneLine(fmt.Sprintf(format, args...))})
}

// blamed reports whether the place, or anything in it, is known to be wrong.
func (s *decoder) blamed(at keyPath) bool {
	for known := range s.bad {
		if known == at || strings.HasPrefix(string(known), string(at)+".") {
			return true
		}
	}
	return false
}

// err joins the problems, sorted by line.
func (s *decoder) err() error {
	var errs []error
	for _, p := range sorted(s.found) {
		errs = append(errs, p)
	}
	return errors.Join(errs...)
}

func sorted(problems []Problem) []Problem {
	slices.SortFunc(problems, func(a, b Problem) int { return cmp.Or(a.Line-b.Line, strings.Compare(a.Text, b.Text)) })
	return slices.Compact(problems)
}
