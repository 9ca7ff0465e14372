package worker

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/livhana/steward/protocol/agentstatus"
)

// reportKeys are the fields of a result (protocol 000, Task Result Schema) that identify a command's own report.
var reportKeys = []string{"status", "result", "errors", "next_actions", "summary"}

// most bounds the entries that a report's list may have.
const most = 100

// findReport finds the JSON object at the end of an output: the whole output, its last line, or the body of its last
// code fence.
func findReport(out string) map[string]any {
	out = strings.TrimSpace(out)
	parts := []string{out, out[strings.LastIndexByte(out, '\n')+1:]}
	if inside, closed := strings.CutSuffix(out, "```"); closed {
		if i := strings.LastIndex(inside, "```"); i >= 0 {
			_, body, _ := strings.Cut(inside[i:], "\n")
			parts = append(parts, body)
		}
	}
	for _, part := range parts {
		part = strings.TrimSpace(part)
		if !strings.HasPrefix(part, "{") {
			continue
		}
		d := json.NewDecoder(strings.NewReader(part))
		var m map[string]any // numbers as floats: the result's encoder would quote a json.Number
		if d.Decode(&m) != nil || d.More() {
			continue
		}
		if slices.ContainsFunc(reportKeys, func(key string) bool { _, ok := m[key]; return ok }) {
			return m
		}
	}
	return nil
}

// report is a command's report about its own work, decoded field by field.
type report struct {
	status  string
	summary string
	body    agentstatus.ResultBody
	errors  []agentstatus.TaskError
	next    []agentstatus.NextAction
	breach  string // the first field that cannot be used
}

func (r *report) bad(format string, args ...any) {
	if r.breach == "" {
		r.breach = line(fmt.Sprintf(format, args...), longestMessage)
	}
}

// readReport decodes a report. An agent's own envelope, with its answer as text in "result" and is_error, counts too;
// the answer may itself end in a report.
func readReport(m map[string]any, dir string) *report {
	r := &report{}
	if text, ok := m["result"].(string); ok {
		if inner := findReport(text); inner != nil {
			if _, again := inner["result"].(string); !again {
				r = readReport(inner, dir)
			}
		}
		if r.summary == "" {
			r.summary = firstLine(text)
		}
		if failed, _ := m["is_error"].(bool); failed {
			r.status = statusFailed
		}
	}
	r.take(m, dir)
	return r
}

func (r *report) take(m map[string]any, dir string) {
	if v, ok := m["status"]; ok {
		r.status = r.word("status", v, statusCompleted, statusFailed, statusPartial, statusTimeout, statusBlocked)
	}
	if v, ok := m["summary"]; ok {
		r.summary = r.text("summary", v)
	}
	switch body := m["result"].(type) {
	case map[string]any:
		r.takeBody(body, dir)
	case nil, string:
	default:
		r.bad("result is %s, not an object", kindOf(body))
	}
	for i, item := range r.items("errors", m["errors"]) {
		r.errors = append(r.errors, r.failure(fmt.Sprintf("errors[%d]", i), item, dir))
	}
	for i, item := range r.items("next_actions", m["next_actions"]) {
		at := fmt.Sprintf("next_actions[%d]", i)
		n := agentstatus.NextAction{Action: r.text(at+".action", item["action"]), Priority: "medium"}
		if v, ok := item["priority"]; ok {
			n.Priority = r.word(at+".priority", v, "critical", "high", "medium", "low")
		}
		n.Human, _ = item["requires_jesse"].(bool)
		r.next = append(r.next, n)
	}
}

func (r *report) takeBody(body map[string]any, dir string) {
	r.body.Artifacts = r.paths("result.artifacts_created", body["artifacts_created"], dir)
	r.body.Modified = r.paths("result.files_modified", body["files_modified"], dir)
	if v, ok := body["summary"]; ok && r.summary == "" {
		r.summary = r.text("result.summary", v)
	}
	switch metrics := body["metrics"].(type) {
	case map[string]any:
		r.body.Metrics = metrics
	case nil:
	default:
		r.bad("result.metrics is %s, not an object", kindOf(metrics))
	}
	if success, ok := body["success"].(bool); ok && r.status == "" {
		r.status = statusFailed
		if success {
			r.status = statusCompleted
		}
	}
}

func (r *report) failure(at string, item map[string]any, dir string) agentstatus.TaskError {
	e := agentstatus.TaskError{Code: line(r.text(at+".code", item["code"]), 80), Message: r.text(at+".message", item["message"])}
	if v, given := item["severity"]; given && v != nil {
		e.Severity = r.word(at+".severity", v, severityFatal, severityError, severityWarning)
	} else {
		e.Severity = severityOf(e.Code)
	}
	if v, ok := item["file"]; ok && v != nil {
		e.File = absolute(r.text(at+".file", v), dir)
	}
	if n, ok := number(item["line"]); ok && n >= 1 && n <= 1e9 {
		e.Line = int(math.Trunc(n))
	}
	return e
}

// severityOf is the document's severity of an error code (protocol 000, Error Codes); an unknown code is an error.
func severityOf(code string) string {
	switch code {
	case "CAPACITY_EXCEEDED", codeLimited:
		return severityWarning
	case codeValidation, codeConflict, "UNKNOWN_ERROR":
		return severityFatal
	}
	return severityError
}

func (r *report) word(at string, v any, set ...string) string {
	s, isText := v.(string)
	switch {
	case !isText:
		r.bad("%s is %s, not one of %s", at, kindOf(v), strings.Join(set, ", "))
		return ""
	case !slices.Contains(set, s):
		r.bad("%s is %q, not one of %s", at, line(s, 60), strings.Join(set, ", "))
		return ""
	}
	return s
}

func (r *report) text(at string, v any) string {
	s, isText := v.(string)
	if !isText {
		r.bad("%s is %s, not a string", at, kindOf(v))
	}
	return line(s, longestMessage)
}

func (r *report) items(at string, v any) []map[string]any {
	list, isList := v.([]any)
	if v != nil && !isList {
		r.bad("%s is %s, not an array", at, kindOf(v))
	}
	var all []map[string]any
	for i, item := range list[:min(len(list), most)] {
		o, isObject := item.(map[string]any)
		if !isObject {
			r.bad("%s[%d] is %s, not an object", at, i, kindOf(item))
			continue
		}
		all = append(all, o)
	}
	return all
}

func (r *report) paths(at string, v any, dir string) []string {
	list, isList := v.([]any)
	if v != nil && !isList {
		r.bad("%s is %s, not an array", at, kindOf(v))
	}
	var all []string
	for i, item := range list[:min(len(list), most)] {
		s, isText := item.(string)
		if !isText || sane(s) != nil {
			r.bad("%s[%d] is not a path", at, i)
			continue
		}
		all = append(all, absolute(s, dir))
	}
	return all
}

func absolute(path, dir string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// reported takes over the command's own report, if its output ends in a report. The exit of the command takes
// precedence: a command that failed has not completed its task.
func (a *attempt) reported(r *agentstatus.Result) bool {
	found := findReport(a.ended.Stdout.Text)
	if found == nil {
		return false
	}
	own := readReport(found, a.plan.dir)
	broke := a.ended.Code != 0 || a.ended.Signal != ""
	r.Status, r.Errors, r.Next = own.status, own.errors, own.next
	r.Body.Artifacts, r.Body.Modified = own.body.Artifacts, own.body.Modified
	r.Body.Metrics = maps.Clone(own.body.Metrics)
	if r.Body.Metrics == nil {
		r.Body.Metrics = map[string]any{}
	}
	r.Body.Summary = line(own.summary, longestSummary)
	switch {
	case own.breach != "":
		r.Status = statusFailed
		r.Errors = append([]agentstatus.TaskError{{Code: codeExecution, Severity: severityError, Message: "the command's report cannot be used: " + own.breach}},
			sound(own.errors)...)
		r.Next = slices.DeleteFunc(r.Next, func(n agentstatus.NextAction) bool { return n.Action == "" || n.Priority == "" })
	case broke && (r.Status == "" || r.Status == statusCompleted):
		r.Status = statusFailed
		if len(r.Errors) == 0 {
			r.Errors = []agentstatus.TaskError{a.failure()}
		}
	case r.Status == "":
		r.Status = statusCompleted
	case r.Status != statusCompleted && len(r.Errors) == 0:
		r.Errors = []agentstatus.TaskError{a.confessed(own)}
	}
	return true
}

// sound removes the errors that lack a code or severity, which the retry policy needs.
func sound(list []agentstatus.TaskError) []agentstatus.TaskError {
	return slices.DeleteFunc(slices.Clone(list), func(e agentstatus.TaskError) bool { return e.Code == "" || e.Severity == "" })
}

// confessed is the error of a command that reports a failure without naming an error.
func (a *attempt) confessed(own *report) agentstatus.TaskError {
	e := agentstatus.TaskError{Code: codeExecution, Severity: severityError, Message: own.summary}
	words := limited(own.summary)
	switch {
	case words != "":
		e.Code, e.Severity, e.Message = codeLimited, severityWarning, words
	case own.status == statusTimeout:
		e.Code = codeTimeout
	case a.plan.kind == typeValidate:
		e.Code, e.Severity = codeValidation, severityFatal
	}
	if e.Message == "" {
		e.Message = fmt.Sprintf("%s reports the status %s, and no reason", a.plan.name, own.status)
	}
	return e
}
