package envelope

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
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

// kindOf parses message_type. Case and separators do not matter.
func kindOf(word string) kind {
	switch w := fold(word); w {
	case "TASK_ASSIGNMENT":
		return assigns
	case "TASK_ACKNOWLEDGMENT", "TASK_ACKNOWLEDGEMENT":
		return acknowledges
	case "BLOCKER_ESCALATION":
		return escalates
	case "BLOCKER_RESOLUTION":
		return resolves
	case "TASK_COMPLETION":
		return completes
	case "TASK_REJECTION":
		return rejects
	default:
		if strings.Contains(w, "APPROV") {
			return approves
		}
		return unknown
	}
}

// message is the part of a message that tracking needs.
type message struct {
	kind           kind
	task, from, to string
	also           []string // further recipients
	// at is the message's timestamp, or the time its file was written if the timestamp is missing, in the future or
	// without a zone. seen is when steward saw the message arrive; zero means that it was there before the first
	// scan. stated is the timestamp verbatim.
	at, seen time.Time
	stated   jsonfile.Stated
	stamped  bool
	// file is the message's file. If that is the log, offset and size locate the line (size 0: a file of its own).
	file         string
	offset, size int64
	sum          jsonfile.Sum // of its compact JSON
	held         bool
	// deploys is how certain it is that the assignment is a deployment. fromDeployer: the sender is a deployer.
	deploys      deploys
	fromDeployer bool
	history      bool // from before the observed period: not copied into the audit log

	unusable string   // why it cannot be tracked; "" if it can
	faults   []string // violations of the document's list of Required Fields
	issues   []issue

	assignment *assignment
	answer     *answer
	output     *output
	blocker    *blocker
}

// assignment holds the fields specific to TASK_ASSIGNMENT.
type assignment struct {
	title, project     string
	priority           protocol.Priority
	deadline           when
	criteria           int // number of criteria; -1 if there is no list
	related, blockedBy []string
	files              []string // files_to_review
	production         bool     // the assignment names production
	lacks              string   // the missing required fields without which the work is undefined
}

// answer holds the fields specific to TASK_ACKNOWLEDGMENT, TASK_REJECTION and BLOCKER_RESOLUTION.
type answer struct {
	doubts         bool // understood: false
	clarifications []string
	deadline       when
	text           string // reason, decision
	stops          bool   // resume_task: false
	call, key      string // of an operator's answer: the question it settles, and the answer's key
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
	addressed          bool // escalate_to is present
}

// decode reads a message. It never fails: unusable records why a message cannot be tracked.
func decode(o jsonfile.Object, d deployers) *message {
	word, _ := o.String("message_type")
	word = clean(word, 60)
	m := &message{kind: kindOf(word), sum: compactSum(o.Value().Raw())}
	c := &check{kind: cmp.Or(word, "message"), deployers: d}
	strict := wanted
	if m.kind == assigns {
		strict = required
	}
	c.text(o, "message_type", required)
	m.task, _ = o.String("task_id")
	c.text(o, "task_id", m.needsTask(o))
	m.from = c.text(o, "from_agent", strict)
	m.fromDeployer = d.has(m.from)
	m.stampedAt(c, o)
	switch m.kind {
	case assigns:
		m.decodeAssignment(c, o)
	case acknowledges:
		m.decodeAcknowledgment(c, o)
	case completes:
		m.decodeCompletion(c, o)
	case rejects:
		m.decodeRejection(c, o)
	case escalates:
		m.decodeBlocker(c, o)
	case resolves:
		m.decodeResolution(c, o)
	case unknown:
		if word != "" {
			c.note(protocol.Low, "type", "message_type", "no such message type")
		}
		if m.recipients(c, o, optional); d.has(m.to) {
			m.deploys = deploysSure
		}
	}
	m.faults, m.issues = c.faults, c.findings
	if m.kind == assigns {
		m.assignment.lacks = m.lacking(c.faults)
	}
	m.unusable = m.useless(word)
	return m
}

// lacking joins the faults for which an assignment is held. Two faults are exempt: a bad from_agent, because the
// document's own examples omit it, and a to_agent of the wrong type that still names its agents.
func (m *message) lacking(faults []string) string {
	held := slices.DeleteFunc(slices.Clone(faults), func(fault string) bool {
		return strings.HasPrefix(fault, "from_agent") || m.to != "" && strings.HasPrefix(fault, "to_agent")
	})
	return strings.Join(held, "; ")
}

// needsTask returns how important task_id is for the message. The document's own examples of errors have no task_id,
// so a blocker and its resolution may omit it.
func (m *message) needsTask(o jsonfile.Object) need {
	switch {
	case m.kind == resolves && o.Has(answerKey):
		return optional
	case m.kind == escalates || m.kind == resolves:
		return wanted
	}
	return required
}

// useless returns why the message cannot be tracked, or "".
func (m *message) useless(word string) string {
	switch {
	case word == "":
		return "message_type is missing or no text"
	case m.task == "" && m.kind != escalates && m.kind != resolves:
		return "task_id is missing or no text"
	case m.task != "" && !plain(m.task):
		return "task_id cannot be used as a file name"
	case m.kind == assigns && m.to == "":
		return "to_agent is missing or no text"
	}
	return ""
}

func (m *message) stampedAt(c *check, o jsonfile.Object) {
	v := o.Get("timestamp")
	at, p := v.Stated()
	if c.presence(v, p, "a time", wanted) {
		m.at, m.stated, m.stamped = at.At, at, true
	}
}

func (m *message) decodeAssignment(c *check, o jsonfile.Object) {
	a := &assignment{criteria: -1}
	m.assignment = a
	m.recipients(c, o, required)
	a.title = c.text(o, "task_name", required)
	requirements := c.filled(o, "requirements")
	criteria := c.filled(o, "acceptance_criteria")
	if items, p := o.Array("acceptance_criteria"); p == jsonfile.Present {
		a.criteria = len(items)
	} else if criteria != nil {
		a.criteria = len(criteria)
	}
	a.priority, _ = protocol.ParsePriority(c.text(o, "priority", optional))
	a.deadline = c.moment(o, "deadline")
	a.related, a.blockedBy = lines(c.list(o, "related_tasks", optional)), lines(c.list(o, "blocked_by", optional))
	a.files = lines(c.list(o, "files_to_review", optional))
	context := c.child(o, "context", optional)
	project, _ := context.String("project")
	a.project = strings.ToLower(clean(project, maxText))
	if items, p := o.Strings("requirements"); p == jsonfile.Present {
		requirements = items // unbounded: every requirement at full length
	}
	w := wordsOf(o, context, requirements)
	a.production = w.production()
	switch m.deploys = w.deploys(); {
	case c.deployers.has(m.to):
		m.deploys = deploysSure
	case isAuditor(m.to):
		m.deploys = min(m.deploys, deploysMaybe) // a review held until its own approval would never happen
	}
}

func (m *message) decodeAcknowledgment(c *check, o jsonfile.Object) {
	c.text(o, "status", wanted)
	understood, said := c.boolean(o, "understood", wanted)
	m.answer = &answer{doubts: said && !understood, clarifications: lines(c.list(o, "clarifications_needed", optional))}
	c.moment(o, "estimated_completion")
}

func (m *message) decodeCompletion(c *check, o jsonfile.Object) {
	out := &output{met: -1}
	m.output = out
	status := c.text(o, "status", wanted)
	product := c.child(o, "output", wanted)
	out.summary = c.text(product, "summary", optional)
	files, _ := product.Strings("files")
	out.files = lines(bounded(files))
	validation := c.child(o, "validation", wanted)
	out.passed, out.judged = c.boolean(validation, "all_passed", wanted)
	if met, p := validation.Array("acceptance_criteria_met"); p == jsonfile.Present {
		out.met = len(met)
	}
	out.issues = lines(c.list(validation, "issues", optional))
	out.lacks = out.missing(status, validation)
	out.verdict = decodeVerdict(c, o)
}

// missing returns why the task is not done (protocol 004, Validation Rules), or "". The completion is judged as a
// whole: all_passed does not outweigh an unmet criterion, an issue, or a contradicting status.
func (out *output) missing(status string, validation jsonfile.Object) string {
	var list []string
	switch fold(status) {
	case "FAILED", "FAILURE", "ERROR", "BLOCKED", "PARTIAL", "INCOMPLETE", "IN_PROGRESS", "REJECTED", "CANCELLED":
		list = append(list, "status is "+strings.ToLower(status))
	}
	if !out.passed {
		list = append(list, "all_passed is not true")
	}
	if unmet := unmetCriteria(validation.Get("acceptance_criteria_met")); unmet != "" {
		list = append(list, unmet)
	}
	if counts(validation.Get("issues")) {
		text := "issues is not empty"
		if len(out.issues) > 0 {
			text += ": " + out.issues[0]
		}
		list = append(list, text)
	}
	return strings.Join(list, "; ")
}

func (m *message) decodeRejection(c *check, o jsonfile.Object) {
	m.to = c.text(o, "to_agent", wanted)
	m.answer = &answer{text: c.text(o, "reason", wanted), deadline: c.moment(o, "deadline")}
	c.list(o, "issues", wanted)
	c.there(o, "action_required")
}

func (m *message) decodeResolution(c *check, o jsonfile.Object) {
	m.to = c.text(o, "to_agent", wanted)
	m.answer = &answer{text: c.text(o, "decision", wanted)}
	if m.answer.key, _ = o.String(answerKey); m.answer.key != "" {
		m.answer.call, _ = o.String("in_reply_to")
	}
	resume, said := c.boolean(o, "resume_task", wanted)
	m.answer.stops = said && !resume
}

// decodeBlocker reads a blocker. It keeps the options verbatim, because the chosen option is returned as the
// decision.
func (m *message) decodeBlocker(c *check, o jsonfile.Object) {
	b := &blocker{kind: c.text(o, "blocker_type", wanted), text: c.text(o, "description", wanted)}
	m.blocker = b
	switch fold(b.kind) {
	case "", "CLARIFICATION_NEEDED", "TECHNICAL_BLOCKER", "DEPENDENCY_MISSING", "SCOPE_CHANGE":
	default:
		c.note(protocol.Medium, "schema", "blocker_type", fmt.Sprintf("blocker_type %q is none of clarification_needed, technical_blocker, dependency_missing, scope_change", b.kind))
	}
	severity := protocol.Severity(strings.ToLower(c.text(o, "severity", optional)))
	if b.severity = protocol.Medium; severity.Rank() > 0 || severity == protocol.Info {
		b.severity = severity
	}
	suggested, _ := o.String("suggested_resolution")
	context, p := o.String("context")
	if p == jsonfile.Wrong {
		context = string(o.Get("context").Raw())
	}
	b.detail = folder.Short(context, maxLong)
	if suggested != "" {
		b.detail = strings.TrimSpace(b.detail + "\nSuggested: " + folder.Short(suggested, maxLong))
	}
	for _, option := range c.list(o, "options", optional) {
		b.options = append(b.options, folder.Short(option, maxLong))
	}
	if len(b.options) == 0 && suggested != "" {
		b.options = []string{folder.Short(suggested, maxLong)}
	}
	to := fold(c.text(o, "escalate_to", optional))
	b.human, b.addressed = to == "HUMAN", to != ""
}

// lines converts every item to one line, in place.
func lines(list []string) []string {
	for i, s := range list {
		list[i] = clean(s, maxText)
	}
	return list
}

// compactSum returns the sum of a message's content without white space between its tokens.
func compactSum(raw []byte) jsonfile.Sum {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return jsonfile.SumOf(raw)
	}
	return jsonfile.SumOf(b.Bytes())
}

// compare orders messages by second. Within a second, an assignment comes first and its acknowledgement second,
// because whole-second timestamps occur next to the file system's finer times. Ties are broken by time, type, file
// and line.
func (m *message) compare(n *message) int {
	return cmp.Or(cmp.Compare(m.at.Unix(), n.at.Unix()), cmp.Compare(min(m.kind, escalates), min(n.kind, escalates)), m.at.Compare(n.at),
		cmp.Compare(m.kind, n.kind), cmp.Compare(m.file, n.file), cmp.Compare(m.offset, n.offset))
}
