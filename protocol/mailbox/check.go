package mailbox

import (
	"strings"

	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// CheckMessage checks one entry of messages[] before it is written (protocol 003, Message Types and Build Result Object).
// The error is an *protocol.InvalidError that lists every problem.
func CheckMessage(doc []byte) error {
	o, err := jsonfile.Parse(doc)
	if err != nil {
		return folder.Invalid([]string{err.Error()})
	}
	var problems []string
	for _, i := range decodeMessage(0, o.Value()).issues {
		problems = append(problems, strings.TrimPrefix(i.Field, ".")+": "+i.Text)
	}
	return folder.Invalid(problems)
}
