package push

import (
	"strings"

	"github.com/livhana/steward/platform/text"
)

// Maximum lengths in bytes. A server turns a message of 4096 bytes into an attachment and rejects 8192 bytes of JSON.
const (
	maxTitle    = 250
	maxText     = 4095
	maxLabel    = 80
	maxDocument = 8000
)

// clean is text.Clean, limited to bytes.
func clean(s string, limit int) string { return text.Cut(text.Clean(s, limit), limit) }

// oneLine is text.Line, limited to bytes.
func oneLine(s string, limit int) string { return text.Cut(text.Line(s, limit), limit) }

// headline is oneLine for text that the server puts into a header of its own: title and buttons. The server decodes
// "=?UTF-8?…?=" there (RFC 2047) after this cleaning, and in the buttons before it parses their JSON: a label could
// then end a JSON string, and add a button or invalidate the whole message.
func headline(s string, limit int) string {
	return text.Cut(strings.ReplaceAll(oneLine(s, limit), "=?", "= ?"), limit)
}
