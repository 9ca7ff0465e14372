package desktop

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	titleLimit  = 80   // characters
	textLimit   = 1000 // characters
	spokenLimit = 500  // characters: 40 s of speech; longer texts are not useful
	keyLimit    = 200  // characters of a key that is passed to a tool
)

// clean makes foreign text safe to show: valid UTF-8, no NUL (it makes the send fail), no control characters, no
// invisible characters that change the reading direction, at most limit characters. Line breaks remain as \n.
func clean(s string, limit int) string {
	var b strings.Builder
	s = strings.TrimLeftFunc(s, unicode.IsSpace)
	last, n := rune(0), 0
	for _, r := range s {
		if r = visible(r, last); r < 0 {
			continue
		}
		if n == limit {
			return cut(b.String())
		}
		b.WriteRune(r)
		last = r
		n++
	}
	return strings.TrimSpace(b.String())
}

// cut replaces the last character with an ellipsis.
func cut(s string) string {
	_, size := utf8.DecodeLastRuneInString(s)
	return s[:len(s)-size] + "…"
}

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

// oneLine is clean for a single line such as a title.
func oneLine(s string, limit int) string {
	return clean(strings.Join(strings.Fields(bounded(s, limit)), " "), limit)
}

// bounded cuts very long text early, to limit the cost of a text of megabytes.
func bounded(s string, limit int) string {
	if most := 16 * limit; len(s) > most {
		return s[:most]
	}
	return s
}

// sentence is clean for a voice. Lines become sentences. "[[" starts an instruction in espeak (phonemes) and in macOS
// (`[[volm 0]]` mutes the rest), so text that quotes shell code must not contain it.
func sentence(s string) string {
	var b strings.Builder
	for line := range strings.Lines(clean(s, spokenLimit)) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if b.Len() > 0 {
			last, _ := utf8.DecodeLastRuneInString(b.String())
			if unicode.IsLetter(last) || unicode.IsDigit(last) {
				b.WriteByte('.')
			}
			b.WriteByte(' ')
		}
		b.WriteString(line)
	}
	apart := strings.ReplaceAll(b.String(), "[[", "[ [")
	return strings.ReplaceAll(apart, "[[", "[ [") // twice, because "[[[" contains "[[" again after the first pass
}

// escape escapes text for a server with body-markup, which would parse "<" as a tag and drop the text after it.
func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}
