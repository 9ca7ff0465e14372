package envelope

import (
	"cmp"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// kind is a message's type. Messages with the same time are sorted in the order of these constants.
type kind uint8

// The six types (protocol 004, Message Types), an approval message that some orchestrators send, and any undefined
// type.
const (
	assigns kind = iota
	acknowledges
	escalates
	resolves
	completes
	rejects
	approves
	unknown
)

var kinds = map[string]kind{"TASK_ASSIGNMENT": assigns, "TASK_ACKNOWLEDGMENT": acknowledges, "TASK_ACKNOWLEDGEMENT": acknowledges,
	"BLOCKER_ESCALATION": escalates, "BLOCKER_RESOLUTION": resolves, "TASK_COMPLETION": completes, "TASK_REJECTION": rejects}

// kindOf parses message_type. Case and separators do not matter.
func kindOf(word string) kind {
	w := fold(word)
	if k, ok := kinds[w]; ok {
		return k
	}
	if strings.Contains(w, "APPROV") {
		return approves
	}
	return unknown
}

// message is the part of a message that tracking needs.
type message struct {
	kind           kind
	word           string // message_type as written
	task, from, to string
	also           []string // further recipients
	clock
	origin
	sum jsonfile.Sum // of its compact JSON
	// deploys is how certain it is that the assignment is a deployment. fromDeployer: the sender is a deployer.
	deploys      deploys
	fromDeployer bool
	history      bool // from before the observed period: not copied into the audit log

	unusable string   // why it cannot be tracked; "" if it can
	faults   []string // violations of the document's list of Required Fields
	findings []protocol.Finding

	assignment *assignment
	answer     *answer
	output     *output
	blocker    *blocker
}

// origin is where a message stands.
type origin struct {
	file         string
	offset, size int64        // the line, if the file is the log; size 0: a file of its own
	fileSum      jsonfile.Sum // of the message's own file
	appeared     time.Time    // when the message became visible to agents
	held         bool
}

// inLog reports whether the message is a line of the log instead of a file of its own.
func (o *origin) inLog() bool { return o.size > 0 }

// assignment holds the fields specific to TASK_ASSIGNMENT.
type assignment struct {
	title, project     string
	priority           protocol.Priority
	deadline           moment
	criteria           int // number of criteria; -1 if there is no list
	related, blockedBy []string
	files              []string // files_to_review
	production         bool     // the assignment names production
	lacks              string   // the missing required fields without which the work is undefined
}

// answer holds the fields specific to TASK_ACKNOWLEDGMENT, TASK_REJECTION and BLOCKER_RESOLUTION.
type answer struct {
	notUnderstood  bool // understood: false
	clarifications []string
	deadline       moment
	text           string // reason, decision
	stops          bool   // resume_task: false
	question, key  string // of an operator's answer: the question it settles, and the answer's key
}

// output holds the fields specific to TASK_COMPLETION.
type output struct {
	lacks          string // why the task is not done; "" if it is
	passed, judged bool   // validation.all_passed, and whether the field is present
	met            int    // length of acceptance_criteria_met; -1 if there is no list
	issues         []string
	summary        string
	files          []string        // output.files
	verdict        securityVerdict // of a security review
}

// blocker holds the fields specific to BLOCKER_ESCALATION.
type blocker struct {
	kind, text, detail string
	severity           protocol.Severity
	options            []string
	human              bool // escalate_to
}

// openName returns a file's path without the extension of a held file.
func openName(file string) string { return strings.TrimSuffix(file, ".held") }

// ref returns the message's location. The sum is the file's, or the message's own for a log line.
func (m *message) ref() protocol.Ref {
	return protocol.Ref{Path: m.file, Sum: string(cmp.Or(m.fileSum, m.sum))}
}

// project returns an assignment's context.project; "" without an assignment.
func (m *message) project() string {
	if m == nil {
		return ""
	}
	return m.assignment.project
}

// isDeployment reports whether the message is a certain deployment, which the gate holds.
func (m *message) isDeployment() bool { return m.deploys == deploysSure }

// place sets the message's file and time.
func (m *message) place(file string, written time.Time) {
	m.file = file
	m.setBy(written)
}

// compare orders messages by second. Within a second, an assignment comes first and its acknowledgement second,
// because whole-second timestamps occur next to the file system's finer times. Ties are broken by time, type, file
// and line.
func (m *message) compare(n *message) int {
	return cmp.Or(cmp.Compare(m.at.Unix(), n.at.Unix()), cmp.Compare(min(m.kind, escalates), min(n.kind, escalates)), m.at.Compare(n.at),
		cmp.Compare(m.kind, n.kind), cmp.Compare(m.file, n.file), cmp.Compare(m.offset, n.offset))
}

// fault returns which required fields the message lacks; "" if it lacks none.
func (m *message) fault() (problem, hint string) {
	switch {
	case m.unusable != "":
		return m.unusable + "; the message cannot be tracked", "see protocol 004, Message Types"
	case len(m.faults) == 0:
		return "", ""
	case m.kind == assigns && m.assignment.lacks != "":
		hint = "protocol 004 lists these fields as required; the assignment is held until they are there: " +
			"correct the file, or send it again under its name"
	default:
		hint = "protocol 004 lists these fields as required; the message is tracked all the same"
	}
	return strings.Join(m.faults, "; "), hint
}
