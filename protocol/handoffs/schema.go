package handoffs

import (
	"fmt"
	"strings"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// The codes of this adapter's findings.
const (
	codeSchema    = "schema"    // a field is missing or of another type
	codeRoute     = "route"     // a from→to pair that the table of message types does not have
	codeStatus    = "status"    // the status in a file differs from its folder
	codeRejected  = "rejected"  // rejected, for which there is no folder
	codeUnclaimed = "unclaimed" // pending, and nobody there to take it
	codeAbandoned = "abandoned" // accepted, by somebody who says that it does nothing
	codeDuplicate = "duplicate" // two files with one id
	codeWorkflow  = "workflow"  // the state file contradicts itself or the folders
	codeLock      = "lock"      // a lock of somebody whom the state file does not list
	codeLog       = "log"       // lines of the events log that are no JSON objects
)

// issue is a finding that does not know its subject yet.
type issue struct {
	code, field, text string
	severity          protocol.Severity
}

// settles says how a human ends what the files alone cannot end. Of these codes he is told, however little they matter.
var settles = map[string]string{codeWorkflow: "Reviewed", codeRejected: "Taken care of"}

func (i issue) about(s protocol.Subject) protocol.Finding {
	settle, call := settles[i.code]
	return protocol.Finding{Subject: s, Code: i.code, Field: i.field, Severity: i.severity, Text: i.text, Call: call, Settle: settle}
}

// check collects what a document breaks of its schema. That is shown; the document still counts.
type check struct{ issues []issue }

// maxIssues bounds the findings of one document: the first ones tell what is wrong with it.
const maxIssues = 40

func (c *check) add(severity protocol.Severity, field, format string, args ...any) {
	if len(c.issues) < maxIssues {
		c.issues = append(c.issues, issue{codeSchema, field, folder.Line(field, 80) + " " + fmt.Sprintf(format, args...), severity})
	}
}

// need notes that a required field is not of the wanted kind.
func (c *check) need(v jsonfile.Value, field, kind string) {
	switch have := v.Kind(); have {
	case kind:
	case "missing", "null":
		c.add(protocol.Low, field, "is missing")
	default:
		c.add(protocol.Low, field, "must be %s, not %s", kind, have)
	}
}

// text is a field's text in one line, "" where it is none.
func text(o jsonfile.Object, key string, limit int) string {
	s, _ := o.String(key)
	return strings.TrimSpace(folder.Line(s, limit))
}

// first is the first of some fields that has a text.
func first(o jsonfile.Object, limit int, keys ...string) string {
	for _, key := range keys {
		if s := text(o, key, limit); s != "" {
			return s
		}
	}
	return ""
}

// plain reports whether a name can be shown and kept as it stands: not empty, not endless, one line.
func plain(name string) bool {
	return name != "" && len(name) <= 300 && folder.Line(name, 300) == name
}

// usable reports whether an id can be part of a file name of ours, with room for what is put behind it.
func usable(id string) bool { return len(id) <= 200 && jsonfile.PlainName(id) }
