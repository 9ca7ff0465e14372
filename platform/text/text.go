// Package text makes text from any source safe to show to a person: on a desktop, in a push message, in an error.
package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean returns valid UTF-8 of at most limit characters without control characters, NUL and the invisible characters that
// change the reading direction. Line breaks remain as \n. A text that was cut ends with an ellipsis.
func Clean(s string, limit int) string {
	s = strings.TrimLeftFunc(bounded(s, limit), unicode.IsSpace)
	var b strings.Builder
	last, n := rune(0), 0
	for _, r := range s {
		if r = visible(r, last); r < 0 {
			continue
		}
		if n == limit {
			_, size := utf8.DecodeLastRuneInString(b.String())
			return b.String()[:b.Len()-size] + "…"
		}
		b.WriteRune(r)
		last = r
		n++
	}
	return strings.TrimSpace(b.String())
}

// Line is Clean for a single line such as a title.
func Line(s string, limit int) string {
	return Clean(strings.Join(strings.Fields(bounded(s, limit)), " "), limit)
}

// Cut shortens text to at most limit bytes without splitting a character.
func Cut(s string, limit int) string {
	const mark = "…"
	if len(s) <= limit {
		return s
	}
	end := max(0, limit-len(mark))
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return strings.TrimSpace(s[:end]) + mark
}

// bounded cuts very long text early, to limit the cost of a text of megabytes.
func bounded(s string, limit int) string { return s[:min(len(s), 16*limit)] }

// visible maps a rune to its visible replacement, or to -1 to drop it.
func visible(r, last rune) rune {
	switch {
	case r == '\r', r == '\v', r == '\f', r == '\u0085', r == '\u2028', r == '\u2029', r == '\n':
		if last == '\n' {
			return -1
		}
		return '\n'
	case r == '\t':
		return ' '
	case r == '\u200c', r == '\u200d': // joiners: scripts and emoji need them
		return r
	case unicode.Is(unicode.Cc, r), unicode.Is(unicode.Cf, r): // Cf holds the bidi overrides, marks and tags
		return -1
	case r&0xfffe == 0xfffe, r >= 0xfdd0 && r <= 0xfdef: // noncharacters: older D-Bus libraries reject the message
		return -1
	}
	return r
}
