package envelope

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/envelope/deploy"
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
	deploys      deploy.Certainty
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
	pipeline           []string // the roles of a pipeline, for ORCHESTRATOR
	production         bool     // the assignment names production
	lacks              string   // the missing required fields without which the work is undefined
}

// answer holds the fields specific to TASK_ACKNOWLEDGMENT, TASK_REJECTION and BLOCKER_RESOLUTION.
type answer struct {
	notUnderstood  bool // understood: false
	clarifications []string
	deadline       moment
	text           string // reason, decision
	stops, cancels bool   // resume_task: false; and it ends the task
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
	// failure is the error of a run that cannot continue. The retry table decides about it before a person does.
	failure *protocol.Failure
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
func (m *message) isDeployment() bool { return m.deploys == deploy.Sure }

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

// order sorts messages. Those of one second that state fractions of it stand in the order of their time. A message without
// fractions comes after the last one of a type that precedes its own.
func order(all []*message) {
	slices.SortFunc(all, (*message).compare)
	for rest := all; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].at.Unix() == rest[0].at.Unix() {
			n++
		}
		orderSecond(rest[:n])
		rest = rest[n:]
	}
}

func orderSecond(all []*message) {
	var exact, coarse []*message
	for _, m := range all {
		if m.exact() {
			exact = append(exact, m)
		} else {
			coarse = append(coarse, m)
		}
	}
	if len(exact) == 0 {
		return
	}
	slices.SortStableFunc(exact, func(a, b *message) int { return a.at.Compare(b.at) })
	for _, m := range slices.Backward(coarse) {
		at := len(exact)
		for at > 0 && exact[at-1].kind >= m.kind {
			at--
		}
		exact = slices.Insert(exact, at, m)
	}
	copy(all, exact)
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

// clock is when a message was sent and when it arrived.
type clock struct {
	// at is the message's timestamp, or the time its file was written if the timestamp is missing, in the future or
	// without a zone. seen is when steward saw the message arrive; zero means that it was there before the first
	// scan. stated is the timestamp verbatim.
	at, seen time.Time
	stated   jsonfile.Stated
	stamped  bool
}

// setBy sets at. A timestamp in the future comes from a wrong clock, and a timestamp without a zone is ambiguous; in both
// cases the file's time replaces it.
func (c *clock) setBy(written time.Time) {
	switch {
	case !c.stamped:
		c.at = written.UTC()
	case c.exact() && c.stated.At.Sub(written) < time.Second:
		c.at = c.stated.At // the clock of a file system is coarser
	default:
		c.at = c.stated.By(written)
	}
}

// exact reports whether the timestamp has fractions of a second.
func (c *clock) exact() bool { return c.stamped && !c.stated.Zoneless && c.stated.At.Nanosecond() != 0 }

// came returns the earliest time at which the agent could know the message. seen replaces a timestamp from a slow
// clock.
func (c *clock) came() time.Time {
	if c.seen.Sub(c.at) > jsonfile.ClockSlack {
		return c.seen
	}
	return c.at
}

// behind returns how far the sender's clock is behind ours, as far as steward can tell; 0 if the clocks agree.
func (c *clock) behind() time.Duration {
	if c.seen.IsZero() || !c.stamped || c.stated.Zoneless {
		return 0
	}
	if d := c.seen.Sub(c.stated.At); d.Abs() > jsonfile.ClockSlack {
		return d
	}
	return 0
}

// moment is a moment as messages name it: a time, or a span such as "2 hours" after the message (protocol 004, Complete
// Task Flow).
type moment struct {
	at    jsonfile.Stated
	after time.Duration // used if at is zero
}

func (w moment) known() bool { return !w.at.At.IsZero() || w.after > 0 }

// from returns the moment for a message; zero if none exists. One clock wrote both the message and the moment, so
// both have the same error.
func (w moment) from(c *clock) time.Time {
	switch {
	case w.at.At.IsZero() && w.after > 0:
		return c.came().Add(w.after)
	case w.at.At.IsZero():
		return time.Time{}
	case w.at.Zoneless && c.stated.Zoneless:
		return c.came().Add(w.at.At.Sub(c.stated.At))
	}
	return w.at.Latest().Add(c.behind())
}

// momentOf reads a moment; zero if the value names none.
func momentOf(v jsonfile.Value) moment {
	at, p := v.Stated()
	if p.OK() {
		return moment{at: at}
	}
	text, _ := v.Text()
	after, ok := parseSpan(text)
	if !ok {
		after = 0
	}
	return moment{after: after}
}

var spanPart = folder.Pattern(`^(\d{1,6}(?:\.\d{1,6})?) ?` +
	`(seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d|weeks?|w)\b[ ,]*(?:and )?`)

// spanSeam matches the boundary between two parts: 1h30m.
var spanSeam = folder.Pattern(`([a-z])(\d)`)

var spanUnits = map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': day, 'w': 7 * day}

const day = 24 * time.Hour

// maxSpan bounds a span. A longer span is no plausible deadline.
const maxSpan = 10 * 365 * day

// parseSpan parses "2 hours", "in 2h", "1 day and 30 minutes", "1h30m".
func parseSpan(text string) (time.Duration, bool) {
	rest := strings.TrimPrefix(strings.ToLower(strings.TrimSpace(text)), "in ")
	rest = spanSeam().ReplaceAllString(rest, "$1 $2")
	var sum time.Duration
	for parts := 0; ; parts++ {
		m := spanPart().FindStringSubmatch(rest)
		if m == nil || parts == 4 {
			return sum, rest == "" && sum > 0
		}
		n, err := strconv.ParseFloat(m[1], 64)
		unit := spanUnits[m[2][0]]
		if err != nil || n > float64(maxSpan/unit) {
			return 0, false
		}
		sum += time.Duration(n * float64(unit))
		rest = rest[len(m[0]):]
	}
}
