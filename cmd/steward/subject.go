package main

import (
	"strings"

	"github.com/livhana/steward/status/terminal"

	"github.com/livhana/steward/protocol"
)

// subjectWords is a subject for a person to read: "sot:task/7c0e2f5a-…" is "task 7c0e2f5a".
func subjectWords(subject string) string {
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

// problemWords makes the text of a finding a sentence: one that begins with the name of a field says that it is one.
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
