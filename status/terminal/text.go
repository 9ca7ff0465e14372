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

// Clean makes text from a file fit for a terminal.
func Clean(s string) string { return task.Plain(s) }

// MaxWord is how much of a foreign text an error line quotes, in screen cells.
const MaxWord = 300

// OneWord is clean, cut to what fits into a line of a message.
func OneWord(s string) string { return Fit(Clean(s), MaxWord) }

// MaxLine bounds a line of an error: what was typed may be as long as it likes. Its end says what to do.
const (
	MaxLine = 1500 // characters, with maxEnd of them from its end
	maxEnd  = 300
)

// Harmless is one line without the characters that a terminal obeys. Spaces stay.
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

// Bounded makes an error in its final words fit for a terminal: it obeys nothing in it, and has lines of a bearable length.
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

// ShellQuote quotes a word for a POSIX shell where it needs that.
func ShellQuote(s string) string {
	plain := func(r rune) bool {
		return r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) || strings.ContainsRune("_-./:@%+=,", r)
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Guarded escapes what encoding/json leaves as it is although terminals obey it: DEL and the C1 controls.
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
