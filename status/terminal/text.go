package terminal

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean returns untrusted text on one line, without characters that move the cursor, ring the bell, hide text or change
// its reading order.
func Clean(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.Is(unicode.Cf, r):
			return -1
		case r == utf8.RuneError, !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, s)
	return strings.Join(strings.Fields(s), " ")
}

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

// Cells is the number of terminal cells that a text takes.
func Cells(s string) int {
	n := 0
	for _, r := range s {
		n += runeCells(r)
	}
	return n
}

// runeCells is the width of a rune: combining marks take no cell, East Asian scripts and pictographs take two.
func runeCells(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3, r >= 0xf900 && r <= 0xfaff,
		r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60, r >= 0xffe0 && r <= 0xffe6, r >= 0x1f300 && r <= 0x1faff,
		r >= 0x20000 && r <= 0x3fffd:
		return 2
	}
	return 1
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
