package escalate

import (
	"slices"
	"strings"

	"github.com/livhana/steward/escalate/rules"
)

// Headline is the title for a popup or a push message: it names the project and contains no paths.
func (n Notice) Headline() string { return titled(n.Project, n.Title) }

// titled prefixes text with the project's name and replaces paths by file names.
func titled(project, words string) string {
	words = rules.FileNames(words)
	if project == "" || strings.HasPrefix(words, project+":") {
		return words
	}
	return rules.ClipText(project, rules.NameLimit) + ": " + words
}

// Sentence is the text that is spoken: without paths, and with the project's name at the end unless it is already
// mentioned.
func (n Notice) Sentence() string {
	words := rules.FileNames(n.Spoken)
	if n.Project == "" || slices.Contains(strings.FieldsFunc(words, func(r rune) bool { return strings.ContainsRune(" .,:;?!", r) }), n.Project) {
		return words
	}
	if !strings.HasSuffix(words, ".") && !strings.HasSuffix(words, "?") && !strings.HasSuffix(words, "!") {
		words += "."
	}
	return words + " Project " + rules.ClipText(n.Project, rules.NameLimit) + "."
}
