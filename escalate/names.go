package escalate

import (
	"slices"
	"strings"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/status/words"
)

// Headline is the title for a popup or a push message: it names the project and contains no paths.
func (n Notice) Headline() string { return titled(n.Project, n.Title) }

// titled prefixes text with the project's name and replaces paths by file names.
func titled(project, text string) string {
	text = words.FileNames(text)
	if project == "" || strings.HasPrefix(text, project+":") {
		return text
	}
	return rules.Shorten(project, words.NameLimit) + ": " + text
}

// Sentence is the text that is spoken: without paths, and with the project's name at the end unless it is already
// mentioned.
func (n Notice) Sentence() string {
	text := words.FileNames(n.Spoken)
	if n.Project == "" || slices.Contains(strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" .,:;?!", r) }), n.Project) {
		return text
	}
	if !strings.HasSuffix(text, ".") && !strings.HasSuffix(text, "?") && !strings.HasSuffix(text, "!") {
		text += "."
	}
	return text + " Project " + rules.Shorten(n.Project, words.NameLimit) + "."
}
