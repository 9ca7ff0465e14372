package terminal

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/livhana/steward/join/task"
)

// Clean makes text from a file safe for a terminal.
func Clean(s string) string { return task.Plain(s) }

// MaxWord is the maximum length of foreign text quoted in an error line, in screen cells.
const MaxWord = 300

// OneWord is Clean, cut to the length that fits into a message.
func OneWord(s string) string { return Fit(Clean(s), MaxWord) }

// MaxLine limits one line of an error, because typed input may be of any length. The end of the line is kept because it
// says what to do.
const (
	MaxLine = 1500 // characters, of which maxEnd are from its end
	maxEnd  = 300
)

// Harmless removes or replaces the characters that a terminal interprets. Spaces stay.
func Harmless(line string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.Is(unicode.Cf, r):
			return -1
		case r == '\t':
			return ' '
		case r == utf8.RuneError, !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, line)
}

// Bounded makes the final text of an error safe for a terminal: each line is Harmless and of limited length.
func Bounded(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		line = Harmless(line)
		if r := []rune(line); len(r) > MaxLine {
			line = string(r[:MaxLine-maxEnd]) + "…" + string(r[len(r)-maxEnd:])
		}
		lines[i] = line
	}
	return strings.Join(lines, "\n")
}

// ShellQuote quotes a word for a POSIX shell if necessary.
func ShellQuote(s string) string {
	plain := func(r rune) bool {
		return r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) || strings.ContainsRune("_-./:@%+=,", r)
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Guarded escapes characters that encoding/json leaves unescaped although terminals interpret them: DEL and the C1
// controls.
func Guarded(doc string) string {
	isLoose := func(r rune) bool { return r >= 0x7f && r <= 0x9f }
	if !strings.ContainsFunc(doc, isLoose) {
		return doc
	}
	var b strings.Builder
	for _, r := range doc {
		if isLoose(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w any) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&fs.ModeCharDevice != 0
}
