package desktop

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/livhana/steward/platform/text"
)

const (
	titleLimit  = 80   // characters
	textLimit   = 1000 // characters
	spokenLimit = 500  // characters: 40 s of speech; longer texts are not useful
	keyLimit    = 200  // characters of a key that is passed to a tool
)

// sentence is text.Clean for a voice. Lines become sentences. "[[" starts an instruction in espeak (phonemes) and in macOS
// (`[[volm 0]]` mutes the rest), so text that quotes shell code must not contain it.
func sentence(s string) string {
	var b strings.Builder
	for line := range strings.Lines(text.Clean(s, spokenLimit)) {
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
