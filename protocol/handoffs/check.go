package handoffs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// messageTypes are the types that a message may have when it is written.
var messageTypes = []string{typeTask, typeReview, typeFix, typeRereview, typeCompletion, typeEscalation, typeAnswer}

// CheckMessage checks a message before it is written, more strictly than messages are read (protocol 001, Message Format
// and Message Types). The error is an *protocol.InvalidError that lists every problem.
func CheckMessage(doc []byte) error {
	o, err := jsonfile.Parse(doc)
	if err != nil {
		return folder.Invalid([]string{err.Error()})
	}
	var problems []string
	for _, f := range decodeMessage(o, "").findings {
		problems = append(problems, f.Text)
	}
	for key, words := range map[string][]string{"type": messageTypes, "status": {"pending", "accepted", "completed", "rejected"}} {
		if word, p := o.String(key); p.OK() && !slices.Contains(words, word) {
			problems = append(problems, fmt.Sprintf("%s is %q, not one of %s", key, folder.Line(word, 40), strings.Join(words, ", ")))
		}
	}
	for _, key := range []string{"schema_version", "message_id", "from", "to"} {
		if word, p := o.String(key); p.OK() && strings.TrimSpace(word) == "" {
			problems = append(problems, key+" is empty")
		}
	}
	switch id, p := o.String("message_id"); {
	case p == jsonfile.Missing && slices.ContainsFunc(idKeys, o.Has): // a reader accepts the other keys
		problems = append(problems, "message_id is missing")
	case id != "" && !usable(id):
		problems = append(problems, "message_id cannot be used as a file name")
	}
	slices.Sort(problems)
	return folder.Invalid(problems)
}
