package folder

import (
	"fmt"
	"strings"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// MaxAnswer bounds an operator's text in runes. Even when escaped, the text stays far below a reader's size limit.
const MaxAnswer = 8000

// AnswerText makes an operator's text fit for a message. Characters that JSON can escape stay as they are.
func AnswerText(s string) string { return Short(strings.ToValidUTF8(s, "�"), MaxAnswer) }

// AnswerKey returns the key that marks an answer to a question, so that it is written only once. It returns an error unless
// the change answers a question, with a key and with words.
func AnswerKey(c protocol.Change) (string, error) {
	switch a := c.Answer; {
	case c.Subject.Kind != protocol.KindQuestion:
		return "", fmt.Errorf("%s %s: %w", c.Verb, c.Subject, protocol.ErrUnsupported)
	case a == nil || a.Key == "" || Clean(a.Label, MaxAnswer) == "":
		return "", fmt.Errorf("%s %s: the answer has no key or no text", c.Verb, c.Subject)
	}
	return string(jsonfile.SumOf([]byte(c.Subject.ID + "\x00" + c.Answer.Key))), nil
}
