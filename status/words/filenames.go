package words

import (
	"path"
	"strings"
	"unicode/utf8"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// FileNames replaces each path in a text by its file name, for titles and speech: a truncated path is useless, and a
// spoken path is noise.
func FileNames(text string) string {
	words := strings.Split(text, " ")
	for i, word := range words {
		const around = "\"'`“”‘’()[]<>,;"
		bare := strings.TrimRight(strings.Trim(word, around), ".:!?")
		if isPath(bare) {
			words[i] = strings.Replace(word, bare, path.Base(strings.ReplaceAll(bare, `\`, "/")), 1)
		}
	}
	return strings.Join(words, " ")
}

// isPath distinguishes a path from "and/or", "401/403" and a URL: a path is absolute or relative, or has an extension
// or more than three parts.
func isPath(word string) bool {
	word = strings.ReplaceAll(word, `\`, "/")
	slashes := strings.Count(word, "/")
	last := path.Base(word)
	if slashes == 0 || strings.Contains(word, "://") || last == "/" || last == "." || last == ".." {
		return false
	}
	rooted := slashes > 1 && (word[0] == '/' || len(word) > 2 && word[1] == ':')
	relative := strings.HasPrefix(word, "./") || strings.HasPrefix(word, "../") || strings.HasPrefix(word, "~/")
	dot := strings.LastIndexByte(last, '.')
	return rooted || relative || slashes > 2 || dot > 0 && dot < len(last)-1 && !strings.ContainsRune("0123456789", rune(last[dot+1]))
}

// leastOfName is the minimum space in a summary for the name of its task or file; the first group of a UUID fits.
const leastOfName = 11

// critical returns the sentence that protocol 000 prescribes (Test 4) to speak, and as summary the same sentence
// followed by the task and the file, so that such incidents can be told apart.
func critical(t *protocol.Task, f protocol.Failure, what string) (summary, spoken string) {
	const before, after = "Critical error: ", ". Your input needed."
	sentence := func(room int) string { return before + rules.Shorten(what, room-len(before)-len(after)) + after }
	spoken = sentence(summaryLimit)
	summary = sentence(summaryLimit - leastOfName)
	room := summaryLimit - utf8.RuneCountInString(summary)
	name, file := taskName(t), strings.Trim(place(protocol.Failure{File: path.Base(f.File), Line: f.Line}, lineLimit), " ()")
	if f.File == "" {
		file = ""
	}
	for _, words := range []string{join(name, file), name, file} {
		if shown := " (" + words + ")"; words != "" && utf8.RuneCountInString(shown) <= room {
			return summary + shown, spoken
		}
	}
	return summary + " (" + rules.Shorten(name, room-3) + ")", spoken
}

func join(name, file string) string {
	if name == "" || file == "" {
		return name + file
	}
	return name + ", " + file
}
