package push

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Maximum lengths in bytes. A server turns a message of 4096 bytes into an attachment and rejects 8192 bytes of JSON.
const (
	maxTitle    = 250
	maxText     = 4095
	maxLabel    = 80
	maxDocument = 8000
)

// clean makes foreign text safe to show: valid UTF-8, no control characters, no invisible characters that change the
// reading direction, at most limit bytes. Line breaks remain as \n.
func clean(s string, limit int) string {
	if most := 16 * limit; len(s) > most {
		s = s[:most] // limit the cost of a text of megabytes
	}
	var b strings.Builder
	last := '\n' // no line break at the beginning
	for _, r := range s {
		if r = visible(r, last); r >= 0 {
			b.WriteRune(r)
			last = r
		}
	}
	return cut(strings.TrimSpace(b.String()), limit)
}

// visible maps a rune to its visible replacement, or to -1 to drop it.
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

// oneLine is clean for a single line such as a title.
func oneLine(s string, limit int) string {
	return cut(strings.Join(strings.Fields(clean(s, 2*limit)), " "), limit)
}

// headline is oneLine for text that the server puts into a header of its own: title and buttons. The server decodes
// "=?UTF-8?…?=" there (RFC 2047) after this cleaning, and in the buttons before it parses their JSON: a label could
// then end a JSON string, and add a button or invalidate the whole message.
func headline(s string, limit int) string {
	return cut(strings.ReplaceAll(oneLine(s, limit), "=?", "= ?"), limit)
}

// cut shortens text to at most limit bytes without splitting a rune.
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
