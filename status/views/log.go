package views

import (
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
)

// Deeds are the words for completed changes, by verb; attempts are those for failed changes.
var Deeds = map[protocol.Verb]string{
	protocol.VerbHold: "held it", protocol.VerbRelease: "released it", protocol.VerbRenew: "held it for longer",
	protocol.VerbRetry: "issued it again", protocol.VerbBury: "wrote a dead letter", protocol.VerbConclude: "wrote the result that its agent could not write",
	protocol.VerbCancel: "cancelled it", protocol.VerbFile: "put a late result on record", protocol.VerbRecord: "kept its result on record", protocol.VerbMark: "marked it in the registry",
	protocol.VerbLog: "entered it in the shared log", protocol.VerbUnlock: "released the lock", protocol.VerbRequeue: "put it back in its place", protocol.VerbReap: "ended what was left of it", protocol.VerbPause: "held the agent", protocol.VerbResume: "let the agent go on", "restart": "restarted it",
}

var attempts = map[protocol.Verb]string{
	protocol.VerbHold: "hold it", protocol.VerbRelease: "release it", protocol.VerbRenew: "hold it for longer",
	protocol.VerbRetry: "issue it again", protocol.VerbBury: "write a dead letter", protocol.VerbConclude: "write the result that its agent could not write",
	protocol.VerbCancel: "cancel it", protocol.VerbFile: "put a late result on record", protocol.VerbRecord: "keep its result on record", protocol.VerbMark: "mark it in the registry",
	protocol.VerbLog: "enter it in the shared log", protocol.VerbUnlock: "release the lock", protocol.VerbRequeue: "put it back in its place", protocol.VerbReap: "end what was left of it", protocol.VerbPause: "hold the agent", protocol.VerbResume: "let the agent go on", "restart": "restart it",
}

// told describes a journal entry: a line, and further lines of detail. Only a delivery with proof counts as having told
// the operator.
func told(e status.Entry, now time.Time) (what string, details []string) {
	headline, rest, _ := strings.Cut(strings.TrimSpace(terminal.LocalTimes(e.Text, now)), "\n")
	e.Text = headline
	for line := range strings.Lines(rest) {
		if line = terminal.Clean(line); line != "" {
			details = append(details, line)
		}
	}
	return happened(e), details
}

func happened(e status.Entry) string {
	what := e.Verb
	switch {
	case e.Kind == "verdict":
		what = "became " + e.State
	case e.Kind == "alert":
		what = "raised an alert"
	case e.Kind == "resolve":
		what = "closed the incident"
	case e.Kind == "delivery" && e.Error != "":
		return terminal.Clean("could not tell the human through " + e.Verb + " (" + e.Error + ")")
	case e.Kind == "delivery":
		what = "told the human through " + e.Verb
	case e.Kind == "change" && e.Error != "" && attempts[protocol.Verb(e.Verb)] != "":
		return terminal.Clean("tried to " + attempts[protocol.Verb(e.Verb)] + asWhat(e) + ", but " + obstacle(e) + reasonAfter(e.Text))
	case e.Kind == "change" && Deeds[protocol.Verb(e.Verb)] != "":
		what = Deeds[protocol.Verb(e.Verb)]
	case what == "":
		what = e.Kind
	}
	what += asWhat(e)
	if e.Error != "" {
		what += ", but it failed: " + e.Error
	}
	return terminal.Clean(what + reasonAfter(e.Text))
}

func asWhat(e status.Entry) string {
	if c := e.Change; c != nil && (c.Status != "" || c.Event != "") {
		return " as " + c.Status + c.Event
	}
	return ""
}

// obstacle is why a change was not made.
func obstacle(e status.Entry) string {
	if strings.Contains(e.Error, protocol.AgentFirst) {
		return protocol.AgentFirst
	}
	return "it failed: " + e.Error
}

func reasonAfter(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}

// journal is the document of GET /v1/log.
type journal struct {
	Log []status.Entry `json:"log"`
}

func Log(p *terminal.Page, doc journal) {
	for _, e := range doc.Log {
		LogEntry(p, e)
	}
}

func LogEntry(p *terminal.Page, e status.Entry) {
	about := e.Subject
	if e.Incident != "" {
		about += " [" + e.Incident[:min(len(e.Incident), 8)] + "]"
	}
	what, details := told(e, p.Now)
	p.Line("%s  %s  %s", p.Clock(e.At), terminal.Clean(about), what)
	for _, line := range details {
		p.Line("            %s", line)
	}
}
