package escalate

import (
	"slices"
	"strings"

	"github.com/livhana/steward/escalate/rules"
)

// Headline is the title as a popup or a push message shows it: beside those of other projects, and with no path in it.
func (n Notice) Headline() string { return titled(n.Project, n.Title) }

// titled puts the project's name before some words, and file names in the place of paths.
func titled(project, words string) string {
	words = rules.FileNames(words)
	if project == "" || strings.HasPrefix(words, project+":") {
		return words
	}
	return rules.ClipText(project, rules.NameLimit) + ": " + words
}

// Sentence is what a voice says: no path, and at its end the project.
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
