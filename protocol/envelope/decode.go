package envelope

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/envelope/deploy"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// decoders read the fields specific to one type of message.
var decoders = [...]func(*message, jsonfile.Object, deployers){
	assigns: decodeAssignment, acknowledges: decodeAcknowledgment, escalates: decodeBlocker, resolves: decodeResolution,
	completes: decodeCompletion, rejects: decodeRejection, approves: nil, unknown: decodeUnknown,
}

// decode reads a message. It never fails: unusable records why a message cannot be tracked.
func decode(o jsonfile.Object, d deployers) *message {
	word, _ := o.String("message_type")
	m := &message{word: clean(word, 60), sum: folder.ContentSum(o.Value()), from: text(o, "from_agent")}
	m.kind = kindOf(m.word)
	m.task, _ = o.String("task_id")
	m.fromDeployer = d.has(m.from)
	at, p := o.Stated("timestamp")
	m.at, m.stated, m.stamped = at.At, at, p.OK()
	m.check(o)
	if decodeKind := decoders[m.kind]; decodeKind != nil {
		decodeKind(m, o, d)
	}
	m.findLacks()
	m.unusable = m.whyUnusable()
	return m
}

// findLacks joins the faults for which an assignment is held. Two faults are exempt: a bad from_agent, because the
// document's own examples omit it, and a to_agent of the wrong type that still names its agents.
// See docs/decisions.md, "An incomplete assignment is held, except without from_agent".
func (m *message) findLacks() {
	if m.kind != assigns {
		return
	}
	held := slices.DeleteFunc(slices.Clone(m.faults), func(fault string) bool {
		return strings.HasPrefix(fault, "from_agent") || m.to != "" && strings.HasPrefix(fault, "to_agent")
	})
	m.assignment.lacks = strings.Join(held, "; ")
}

const (
	noTaskID  = "task_id is missing or no text"
	badTaskID = "task_id cannot be used as a file name"
)

// whyUnusable returns why the message cannot be tracked, or "".
func (m *message) whyUnusable() string {
	switch {
	case m.word == "":
		return "message_type is missing or no text"
	case m.task == "" && m.kind != escalates && m.kind != resolves:
		return noTaskID
	case m.task != "" && !plain(m.task):
		return badTaskID
	case m.kind == assigns && m.to == "":
		return "to_agent is missing or no text"
	}
	return ""
}

// nameAfterFile names the task of an assignment without a usable task_id after its file. A task without an id cannot be
// tracked, and therefore cannot be held.
func (m *message) nameAfterFile(name string) {
	id := strings.TrimSuffix(openName(path.Base(name)), messageExt)
	if m.kind != assigns || m.unusable == "" || !plain(id) {
		return
	}
	m.unusable = ""
	if m.task != "" && plain(m.task) {
		return
	}
	problem := noTaskID
	if m.task != "" {
		problem = badTaskID
		m.faults = append(m.faults, problem)
		m.findLacks()
	}
	m.task = id
	m.note("schema", protocol.Medium, "task_id", problem+"; the assignment is tracked under its file's name")
}

func decodeAssignment(m *message, o jsonfile.Object, d deployers) {
	a := &assignment{criteria: -1, title: text(o, "task_name"), deadline: momentOf(o.Get("deadline")), related: lines(o, "related_tasks"),
		blockedBy: lines(o, "blocked_by"), files: lines(o, "files_to_review")}
	m.assignment = a
	m.to, m.also = recipients(o.Get("to_agent"), d)
	if all, p := o.Array("acceptance_criteria"); p.OK() {
		a.criteria = len(all)
	} else if text(o, "acceptance_criteria") != "" {
		a.criteria = 1
	}
	if o.Has("pipeline") {
		var err error
		if a.pipeline, err = pipelineRoles(lines(o, "pipeline")); err != nil {
			m.note("schema", protocol.Medium, "pipeline", clean(err.Error(), maxText))
			a.pipeline = nil
		}
	}
	a.priority, _ = protocol.ParsePriority(text(o, "priority"))
	context, _ := o.Object("context")
	a.project = strings.ToLower(text(context, "project"))
	requirements := list(o, "requirements")
	if items, p := o.Strings("requirements"); p.OK() {
		requirements = items // unbounded: every requirement at full length
	}
	switch m.deploys, a.production = deploy.Of(o, context, requirements); {
	case d.has(m.to):
		m.deploys = deploy.Sure
	case isAuditor(m.to):
		m.deploys = min(m.deploys, deploy.Maybe) // a review held until its own approval would never happen
	}
}

func decodeAcknowledgment(m *message, o jsonfile.Object, _ deployers) {
	understood, said := o.Bool("understood")
	m.answer = &answer{notUnderstood: said.OK() && !understood, clarifications: lines(o, "clarifications_needed")}
}

func decodeCompletion(m *message, o jsonfile.Object, _ deployers) {
	product, _ := o.Object("output")
	validation, _ := o.Object("validation")
	out := &output{met: -1, summary: text(product, "summary"), issues: lines(validation, "issues")}
	m.output = out
	if _, p := product.Array("files"); p.OK() {
		out.files = lines(product, "files")
	}
	passed, judged := validation.Bool("all_passed")
	out.passed, out.judged = passed, judged.OK()
	if met, p := validation.Array("acceptance_criteria_met"); p.OK() {
		out.met = len(met)
	}
	out.lacks = out.missing(text(o, "status"), validation)
	out.verdict = decodeVerdict(m, o)
}

var notDone = []string{"FAILED", "FAILURE", "ERROR", "BLOCKED", "PARTIAL", "INCOMPLETE", "IN_PROGRESS", "REJECTED", "CANCELLED"}

// missing returns why the task is not done (protocol 004, Validation Rules), or "". The completion is judged as a
// whole: all_passed does not outweigh an unmet criterion, an issue, or a contradicting status.
// See docs/decisions.md, "A completion counts as the orchestrator's approval (004)".
func (out *output) missing(status string, validation jsonfile.Object) string {
	var list []string
	if slices.Contains(notDone, fold(status)) {
		list = append(list, "status is "+strings.ToLower(status))
	}
	if !out.passed {
		list = append(list, "all_passed is not true")
	}
	if unmet := unmetCriteria(validation.Get("acceptance_criteria_met")); unmet != "" {
		list = append(list, unmet)
	}
	if count(validation.Get("issues")) > 0 {
		text := "issues is not empty"
		if len(out.issues) > 0 {
			text += ": " + out.issues[0]
		}
		list = append(list, text)
	}
	return strings.Join(list, "; ")
}

func decodeRejection(m *message, o jsonfile.Object, _ deployers) {
	m.to, m.answer = text(o, "to_agent"), &answer{text: text(o, "reason"), deadline: momentOf(o.Get("deadline"))}
	if m.from == sender {
		m.answer.question, _ = o.String("in_reply_to")
	}
}

func decodeResolution(m *message, o jsonfile.Object, _ deployers) {
	resume, said := o.Bool("resume_task")
	cancelled, _ := o.Bool(cancelledKey)
	stops := said.OK() && !resume
	m.to, m.answer = text(o, "to_agent"), &answer{text: text(o, "decision"), stops: stops, cancels: stops && cancelled}
	if m.answer.key, _ = o.String(answerKey); m.answer.key != "" {
		m.answer.question, _ = o.String("in_reply_to")
	}
}

var blockerTypes = []string{"CLARIFICATION_NEEDED", "TECHNICAL_BLOCKER", "DEPENDENCY_MISSING", "SCOPE_CHANGE"}

// decodeBlocker reads a blocker. It keeps the options verbatim, because the chosen option is returned as the
// decision.
func decodeBlocker(m *message, o jsonfile.Object, _ deployers) {
	b := &blocker{kind: text(o, "blocker_type"), text: text(o, "description"), severity: protocol.Medium, human: fold(text(o, "escalate_to")) == "HUMAN"}
	m.blocker = b
	if b.kind != "" && !slices.Contains(blockerTypes, fold(b.kind)) {
		m.note("schema", protocol.Medium, "blocker_type", fmt.Sprintf("blocker_type %q is not one of %s", b.kind,
			strings.ToLower(strings.Join(blockerTypes, ", "))))
	}
	if severity := protocol.Severity(strings.ToLower(text(o, "severity"))); severity.Rank() > 0 || severity == protocol.Info {
		b.severity = severity
	}
	if code := text(o, errorCode); code != "" {
		b.failure = &protocol.Failure{Code: code, Message: b.text, Severity: cmp.Or(text(o, errorSeverity), "error")}
	}
	context, p := o.String("context")
	if p == jsonfile.Wrong {
		context = string(o.Get("context").Raw())
	}
	b.detail = folder.Short(context, maxLong)
	options := list(o, "options")
	if suggested, _ := o.String("suggested_resolution"); suggested != "" {
		b.detail = strings.TrimSpace(b.detail + "\nSuggested: " + folder.Short(suggested, maxLong))
		if len(options) == 0 {
			options = []string{suggested}
		}
	}
	for _, option := range options {
		b.options = append(b.options, folder.Short(option, maxLong))
	}
}

func decodeUnknown(m *message, o jsonfile.Object, d deployers) {
	if m.word != "" {
		m.note("type", protocol.Low, "message_type", "no such message type")
	}
	if m.to, m.also = recipients(o.Get("to_agent"), d); d.has(m.to) {
		m.deploys = deploy.Sure
	}
}

// recipients reads to_agent. The document allows one recipient. A list means several recipients, and a deployer among them
// comes first. An object counts only where it names a deployer: an unusual shape must not bypass the security gate.
func recipients(v jsonfile.Value, d deployers) (to string, also []string) {
	var names []string
	for _, name := range stringsIn(v) {
		name = clean(name, maxText)
		counts := d.has(name) || v.Kind() != "object" && len(names) < maxItems
		if name != "" && counts && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "", nil
	}
	at := max(slices.IndexFunc(names, d.has), 0)
	return names[at], slices.Delete(slices.Clone(names), at, at+1)
}

// stringsIn returns the strings in a value, including its keys.
func stringsIn(v jsonfile.Value) (list []string) {
	if s, p := v.Text(); p.OK() {
		list = append(list, s)
	}
	items, _ := v.Array()
	for _, item := range items {
		list = append(list, stringsIn(item)...)
	}
	o, _ := v.Object()
	for _, key := range o.Keys() {
		list = append(append(list, key), stringsIn(o.Get(key))...)
	}
	return list
}
