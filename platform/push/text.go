package push

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The longest texts, in bytes. A server takes a message of 4096 for an attachment; one of 8192 as JSON is refused.
const (
	maxTitle    = 250
	maxText     = 4095
	maxLabel    = 80
	maxTag      = 64
	maxDocument = 8000
)

// clean makes foreign text fit to be shown: valid UTF-8, no control characters, nothing invisible that turns the
// reading direction, at most limit bytes. Line breaks survive as \n.
func clean(s string, limit int) string {
	if most := 16 * limit; len(s) > most {
		s = s[:most] // a text of megabytes costs nothing
	}
	var b strings.Builder
	last := '\n' // none at the beginning
	for _, r := range s {
		if r = visible(r, last); r >= 0 {
			b.WriteRune(r)
			last = r
		}
	}
	return cut(strings.TrimSpace(b.String()), limit)
}

// visible maps one rune to what may be shown in its place, or to -1.
func visible(r, last rune) rune {
	switch {
	case r == '\n', r == '\r', r == '\v', r == '\f', r == '\u0085', r == '\u2028', r == '\u2029':
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
	case r&0xfffe == 0xfffe, r >= 0xfdd0 && r <= 0xfdef: // noncharacters
		return -1
	}
	return r
}

// oneLine is clean for a title.
func oneLine(s string, limit int) string {
	return cut(strings.Join(strings.Fields(clean(s, 2*limit)), " "), limit)
}

// headline is oneLine for what a server carries in a header of its own: title and buttons. It decodes "=?UTF-8?…?=" there
// (RFC 2047), after the text was cleaned, and in the buttons before it reads their JSON: a label could end a string
// in it, and make a button of its own or the whole message invalid.
func headline(s string, limit int) string {
	return cut(strings.ReplaceAll(oneLine(s, limit), "=?", "= ?"), limit)
}

// cut shortens text to at most limit bytes, between two runes.
func cut(s string, limit int) string {
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
