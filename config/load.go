package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/livhana/steward/escalate/rules"

	"github.com/BurntSushi/toml"
)

// maxFile is the maximum size of a configuration file in bytes; the defaults with all their comments are a fraction of
// it.
const maxFile = 256 << 10

// maxRounds limits how many invalid values are searched for in a policy that reports only its first one.
const maxRounds = 50

// Problem is one error in a configuration file. Line is 0 if it concerns no single line.
type Problem struct {
	File string
	Line int
	Text string
}

// Problems splits the joined error of Load. An error of another type becomes a Problem without a line.
func Problems(err error) []Problem {
	list := []Problem{}
	var one Problem
	joined, several := err.(interface{ Unwrap() []error })
	switch {
	case err == nil:
	case several:
		for _, e := range joined.Unwrap() {
			list = append(list, Problems(e)...)
		}
	case errors.As(err, &one):
		list = append(list, one)
	default:
		list = append(list, Problem{Text: err.Error()})
	}
	return list
}

func (p Problem) Error() string {
	if p.Line == 0 {
		return fmt.Sprintf("%s: %s", p.File, p.Text)
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text)
}

// Check validates what this package cannot know, such as the servers and programs that a configuration names. Each line
// of its error begins with the complete key concerned.
type Check func(Config) error

// Load reads the file and merges it over the defaults. It reports all errors at once: the error joins one Problem per
// line of text, sorted by line. A missing file is an error.
func Load(path string, checks ...Check) (Config, error) {
	data, err := readFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("read configuration: %w", err)
	}
	return Parse(path, data, checks...)
}

// LoadOptional is Load for the default path: if the file is missing, the defaults apply. A dangling symlink is still an
// error, because the user meant to have a file there.
func LoadOptional(path string, checks ...Check) (Config, error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return Defaults(), nil
	}
	return Load(path, checks...)
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s: larger than %d KiB", path, maxFile>>10)
	}
	return data, err
}

// Parse merges a user's file over the defaults. name is used in the errors, which are like Load's. Scalars override,
// lists replace, tables keyed by name ([heartbeat.agents]) are merged by name. [[retry]] rows inherit nothing: they
// come before the built-in ones (see rules.Merge).
func Parse(name string, data []byte, checks ...Check) (Config, error) {
	s, err := read(name, data)
	if err != nil {
		return Config{}, err
	}
	s.checks = checks
	c := s.settle()
	builtin, own := Defaults().Retry, []rules.Rule(nil)
	if _, ok := s.tree["retry"]; ok {
		own = c.Retry
	}
	for _, f := range rowFlaws(own) {
		if !s.blamed(f.at[len(f.at)-1]) {
			s.blame(f)
		}
	}
	if len(s.found) > 0 {
		return Config{}, s.err()
	}
	c.Retry, c.Gone = rules.Merge(own, builtin), sorted(s.gone)
	return c, nil
}

// decoder is the state of decoding a file into a Config.
type decoder struct {
	name  string
	tree  map[string]any
	lines map[keyPath]int
	// found is a set, because the tree is merged several times; skip holds the places known to be wrong.
	found map[Problem]bool
	skip  map[keyPath]bool
	gone  map[Problem]bool
	// checks are the caller's own.
	checks []Check
}

// read parses the TOML; it returns syntax errors only.
func read(name string, data []byte) (*decoder, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // Windows editors add a BOM; files are UTF-8 anyway
	if p, ok := notText(data); !ok {
		p.File = name
		return nil, p
	}
	s := &decoder{name: name, found: map[Problem]bool{}, skip: map[keyPath]bool{}, gone: map[Problem]bool{}}
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

// settle merges the file over the defaults and collects the flaws. A rejected value falls back to its default, and the
// policies run again, because some report only their first flaw.
func (s *decoder) settle() Config {
	for range maxRounds {
		c, known := Defaults(), len(s.skip)
		s.lay(&c)
		for _, f := range c.flaws() {
			s.blame(f)
		}
		for _, check := range s.checks {
			for _, f := range policyFlaws("", "", check(c)) {
				s.blame(f)
			}
		}
		if len(s.skip) == known {
			return c
		}
	}
	return Config{}
}

// blame records a flaw at the first of its places that the file contains. If any of the places is already known to be
// wrong, the flaw may be a consequence (a value compared with a default), so it is dropped.
func (s *decoder) blame(f flaw) {
	if slices.ContainsFunc(f.at, func(at keyPath) bool { return s.skip[at] }) {
		return
	}
	for _, at := range f.at {
		if _, ok := s.lines[at]; ok {
			s.problem(at, "%s", f.text)
			return
		}
	}
	s.found[Problem{File: s.name, Text: oneLine(f.text)}] = true
}

// problem records an error at a place, which counts as absent from then on.
func (s *decoder) problem(at keyPath, format string, args ...any) {
	s.skip[at] = true
	s.found[Problem{File: s.name, Line: at.line(s.lines), Text: oneLine(fmt.Sprintf(format, args...))}] = true
}

// blamed reports whether the place, or anything in it, is known to be wrong.
func (s *decoder) blamed(at keyPath) bool {
	for known := range s.skip {
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

func sorted(problems map[Problem]bool) []Problem {
	return slices.SortedFunc(maps.Keys(problems), func(a, b Problem) int {
		return cmp.Or(a.Line-b.Line, strings.Compare(a.Text, b.Text))
	})
}
