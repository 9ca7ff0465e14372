package handoffs

import (
	"fmt"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// The codes of this adapter's findings.
const (
	codeRoute     = "route"     // a from→to pair that is not in the table of message types
	codeStatus    = "status"    // the status in a file differs from its folder
	codeRejected  = "rejected"  // rejected: the protocol has no folder for it
	codeUnclaimed = "unclaimed" // pending, with no agent to take it
	codeAbandoned = "abandoned" // accepted, by an agent whose status says that it does nothing
	codeDuplicate = "duplicate" // two files with one id
	codeWorkflow  = "workflow"  // the state file contradicts itself or the folders
	codeLock      = "lock"      // a lock whose holder the state file does not list
	codeLog       = "log"       // lines of the events log that are not JSON objects
)

// settles names how the operator settles a finding that the files alone cannot settle. The operator is told of these
// codes regardless of severity.
var settles = map[string]string{codeWorkflow: "Reviewed", codeRejected: "Taken care of"}

// finding returns a finding without its subject.
func finding(code string, severity protocol.Severity, field, format string, args ...any) protocol.Finding {
	settle, call := settles[code]
	return protocol.Finding{Code: code, Field: field, Severity: severity, Text: fmt.Sprintf(format, args...), Call: call, Settle: settle}
}

// text returns a field's text in one line, or "".
func text(o jsonfile.Object, key string, limit int) string {
	s, _ := o.String(key)
	return folder.Clean(s, limit)
}

// first returns the text of the first of some fields that has one.
func first(o jsonfile.Object, limit int, keys ...string) string {
	for _, key := range keys {
		if s := text(o, key, limit); s != "" {
			return s
		}
	}
	return ""
}

// plain reports whether a name can be shown and stored as it is: not empty, one line, at most 300 bytes.
func plain(name string) bool {
	return name != "" && len(name) <= 300 && folder.Line(name, 300) == name
}

// usable reports whether an id can be part of one of steward's file names, with room for a suffix.
func usable(id string) bool { return len(id) <= 200 && jsonfile.PlainName(id) }
