package views

import (
	"slices"
	"strings"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status/terminal"
)

// shortLength is the minimum length of a shortened id.
const shortLength = 8

// shortIDs returns the shortening of ids for a list: a UUID is cut to a prefix that is unique in the list; any other id
// stays whole.
func shortIDs(ids []string) func(string) string {
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !isUUID(id) })
	n := distinctLength(ids)
	return func(id string) string {
		if isUUID(id) {
			return id[:n]
		}
		return id
	}
}

func isUUID(id string) bool {
	return len(id) == 36 && strings.Count(id, "-") == 4 && !strings.ContainsFunc(id, func(r rune) bool {
		return r != '-' && !strings.ContainsRune("0123456789abcdefABCDEF", r)
	})
}

// distinctLength is the prefix length that distinguishes the ids, at least 8. Equal ids count as the same thing.
func distinctLength(ids []string) int {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	n := shortLength
	for i := 1; i < len(ids); i++ {
		common := 0
		for common < min(len(ids[i-1]), len(ids[i])) && ids[i-1][common] == ids[i][common] {
			common++
		}
		n = max(n, common+1)
	}
	return n
}

// SubjectWords formats a subject for the user: "sot:task/7c0e2f5a-…" is "task 7c0e2f5a".
func SubjectWords(subject string) string {
	q := protocol.ParseQuery(terminal.Clean(subject))
	switch {
	case q.Kind == "" || q.ID == "":
		return q.ID
	case q.Kind == protocol.KindProject:
		return q.ID // a file of the project
	case isUUID(q.ID):
		return string(q.Kind) + " " + q.ID[:shortLength]
	}
	return string(q.Kind) + " " + q.ID
}

// problemWords makes the text of a finding a sentence: if it begins with a field's name, the result says that this is a
// field.
func problemWords(field, text string) string {
	text = terminal.Clean(text)
	if field == "" {
		return text
	}
	for _, name := range []string{terminal.Clean(field), terminal.Clean(field[strings.LastIndexByte(field, '.')+1:])} {
		if rest, ok := strings.CutPrefix(text, name); ok && name != "" && strings.HasPrefix(strings.TrimPrefix(rest, ":"), " ") {
			return "the field " + name + rest
		}
	}
	return text
}
