package envelope

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// decoders read the fields specific to one type of message.
var decoders = [...]func(*message, *fieldReader, jsonfile.Object){
	assigns: decodeAssignment, acknowledges: decodeAcknowledgment, escalates: decodeBlocker, resolves: decodeResolution,
	completes: decodeCompletion, rejects: decodeRejection, approves: nil, unknown: decodeUnknown,
}

// decode reads a message. It never fails: unusable records why a message cannot be tracked.
func decode(o jsonfile.Object, d deployers) *message {
	word, _ := o.String("message_type")
	word = clean(word, 60)
	m := &message{kind: kindOf(word), sum: compactSum(o.Value().Raw())}
	r := &fieldReader{kind: cmp.Or(word, "message"), deployers: d}
	strict := wanted
	if m.kind == assigns {
		strict = required
	}
	r.text(o, "message_type", required)
	m.task, _ = o.String("task_id")
	r.text(o, "task_id", m.needsTask(o))
	m.from = r.text(o, "from_agent", strict)
	m.fromDeployer = d.has(m.from)
	v := o.Get("timestamp")
	if at, p := v.Stated(); r.presence(v, p, "a time", wanted) {
		m.at, m.stated, m.stamped = at.At, at, true
	}
	if decodeKind := decoders[m.kind]; decodeKind != nil {
		decodeKind(m, r, o)
	}
	m.faults, m.findings = r.faults, r.findings
	if m.kind == assigns {
		m.assignment.lacks = m.lacking(r.faults)
	}
	m.unusable = m.whyUnusable(word)
	return m
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

// lacking joins the faults for which an assignment is held. Two faults are exempt: a bad from_agent, because the
// document's own examples omit it, and a to_agent of the wrong type that still names its agents.
// See docs/decisions.md, "An incomplete assignment is held, except without from_agent".
func (m *message) lacking(faults []string) string {
	held := slices.DeleteFunc(slices.Clone(faults), func(fault string) bool {
		return strings.HasPrefix(fault, "from_agent") || m.to != "" && strings.HasPrefix(fault, "to_agent")
	})
	return strings.Join(held, "; ")
}

const (
	noTaskID  = "task_id is missing or no text"
	badTaskID = "task_id cannot be used as a file name"
)

// whyUnusable returns why the message cannot be tracked, or "".
func (m *message) whyUnusable(word string) string {
	switch {
	case word == "":
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
		m.assignment.lacks = m.lacking(m.faults)
	}
	m.task = id
	m.findings = append(m.findings, protocol.Finding{Code: "schema", Field: "task_id", Severity: protocol.Medium,
		Text: "TASK_ASSIGNMENT: " + problem + "; the assignment is tracked under its file's name"})
}

func decodeAssignment(m *message, r *fieldReader, o jsonfile.Object) {
	a := &assignment{criteria: -1}
	m.assignment = a
	m.readRecipients(r, o, required)
	a.title = r.text(o, "task_name", required)
	requirements := r.filled(o, "requirements")
	criteria := r.filled(o, "acceptance_criteria")
	if items, p := o.Array("acceptance_criteria"); p == jsonfile.Present {
		a.criteria = len(items)
	} else if criteria != nil {
		a.criteria = len(criteria)
	}
	a.priority, _ = protocol.ParsePriority(r.text(o, "priority", optional))
	a.deadline = r.moment(o, "deadline")
	a.related, a.blockedBy = lines(r.list(o, "related_tasks", optional)), lines(r.list(o, "blocked_by", optional))
	a.files = lines(r.list(o, "files_to_review", optional))
	context := r.child(o, "context", optional)
	project, _ := context.String("project")
	a.project = strings.ToLower(clean(project, maxText))
	if items, p := o.Strings("requirements"); p == jsonfile.Present {
		requirements = items // unbounded: every requirement at full length
	}
	w := wordsOf(o, context, requirements)
	a.production = w.production()
	switch m.deploys = w.deploys(); {
	case r.deployers.has(m.to):
		m.deploys = deploysSure
	case isAuditor(m.to):
		m.deploys = min(m.deploys, deploysMaybe) // a review held until its own approval would never happen
	}
}

func decodeAcknowledgment(m *message, r *fieldReader, o jsonfile.Object) {
	r.text(o, "status", wanted)
	understood, said := r.boolean(o, "understood", wanted)
	m.answer = &answer{notUnderstood: said && !understood, clarifications: lines(r.list(o, "clarifications_needed", optional))}
	r.moment(o, "estimated_completion")
}

func decodeCompletion(m *message, r *fieldReader, o jsonfile.Object) {
	out := &output{met: -1}
	m.output = out
	status := r.text(o, "status", wanted)
	product := r.child(o, "output", wanted)
	out.summary = r.text(product, "summary", optional)
	files, _ := product.Strings("files")
	out.files = lines(bounded(files))
	validation := r.child(o, "validation", wanted)
	out.passed, out.judged = r.boolean(validation, "all_passed", wanted)
	if met, p := validation.Array("acceptance_criteria_met"); p == jsonfile.Present {
		out.met = len(met)
	}
	out.issues = lines(r.list(validation, "issues", optional))
	out.lacks = out.missing(status, validation)
	out.verdict = decodeVerdict(r, o)
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

func decodeRejection(m *message, r *fieldReader, o jsonfile.Object) {
	m.to = r.text(o, "to_agent", wanted)
	m.answer = &answer{text: r.text(o, "reason", wanted), deadline: r.moment(o, "deadline")}
	r.list(o, "issues", wanted)
	if v := o.Get("action_required"); v.Kind() == "missing" || v.Kind() == "null" { // of any type
		r.presence(v, jsonfile.Missing, "", wanted)
	}
}

func decodeResolution(m *message, r *fieldReader, o jsonfile.Object) {
	m.to = r.text(o, "to_agent", wanted)
	m.answer = &answer{text: r.text(o, "decision", wanted)}
	if m.answer.key, _ = o.String(answerKey); m.answer.key != "" {
		m.answer.question, _ = o.String("in_reply_to")
	}
	resume, said := r.boolean(o, "resume_task", wanted)
	m.answer.stops = said && !resume
}

var blockerTypes = []string{"CLARIFICATION_NEEDED", "TECHNICAL_BLOCKER", "DEPENDENCY_MISSING", "SCOPE_CHANGE"}

// decodeBlocker reads a blocker. It keeps the options verbatim, because the chosen option is returned as the
// decision.
func decodeBlocker(m *message, r *fieldReader, o jsonfile.Object) {
	b := &blocker{kind: r.text(o, "blocker_type", wanted), text: r.text(o, "description", wanted), severity: protocol.Medium}
	m.blocker = b
	if b.kind != "" && !slices.Contains(blockerTypes, fold(b.kind)) {
		r.note("schema", protocol.Medium, "blocker_type", fmt.Sprintf("blocker_type %q is none of %s", b.kind,
			strings.ToLower(strings.Join(blockerTypes, ", "))))
	}
	if severity := protocol.Severity(strings.ToLower(r.text(o, "severity", optional))); severity.Rank() > 0 || severity == protocol.Info {
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
	for _, option := range r.list(o, "options", optional) {
		b.options = append(b.options, folder.Short(option, maxLong))
	}
	if len(b.options) == 0 && suggested != "" {
		b.options = []string{folder.Short(suggested, maxLong)}
	}
	b.human = fold(r.text(o, "escalate_to", optional)) == "HUMAN"
}

func decodeUnknown(m *message, r *fieldReader, o jsonfile.Object) {
	if word, _ := o.String("message_type"); clean(word, 60) != "" {
		r.note("type", protocol.Low, "message_type", "no such message type")
	}
	if m.readRecipients(r, o, optional); r.deployers.has(m.to) {
		m.deploys = deploysSure
	}
}

// readRecipients reads to_agent. The document allows one recipient. A list means several recipients. An object counts
// only where it names a deployer: an unusual shape must not bypass the security gate.
func (m *message) readRecipients(r *fieldReader, o jsonfile.Object, n need) {
	m.to = r.text(o, "to_agent", n)
	v := o.Get("to_agent")
	if v.Kind() != "array" && v.Kind() != "object" {
		return
	}
	var names []string
	for _, name := range stringsIn(v) {
		name = clean(name, maxText)
		counts := r.deployers.has(name) || v.Kind() == "array" && len(names) < maxItems
		if name != "" && counts && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return
	}
	at := max(slices.IndexFunc(names, r.deployers.has), 0)
	m.to = names[at]
	m.also = slices.Delete(names, at, at+1)
}

// stringsIn returns the strings in a value, including its keys.
func stringsIn(v jsonfile.Value) []string {
	if s, p := v.Text(); p == jsonfile.Present {
		return []string{s}
	}
	var list []string
	if items, p := v.Array(); p == jsonfile.Present {
		for _, item := range items {
			list = append(list, stringsIn(item)...)
		}
	}
	if o, p := v.Object(); p == jsonfile.Present {
		for _, key := range o.Keys() {
			list = append(append(list, key), stringsIn(o.Get(key))...)
		}
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
