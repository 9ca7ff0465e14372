package worker

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/livhana/steward/join/task"
	"github.com/livhana/steward/protocol/agentstatus"
)

// reportKeys are the fields of a result (protocol 000, Task Result Schema) that identify a command's own report.
var reportKeys = []string{"status", "result", "errors", "next_actions", "summary"}

// mostReported bounds the entries that are taken from a list of a report.
const mostReported = 100

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

// readReport decodes a report. problem names the first field that cannot be used. An agent's own envelope, with its answer
// as text in "result" and is_error, counts too; the answer may itself end in a report.
func readReport(m map[string]any, dir string) (r agentstatus.Result, problem string) {
	f := fields{values: m, problem: &problem}
	switch content := m["result"].(type) {
	case string:
		if inner := findReport(content); inner != nil {
			if _, again := inner["result"].(string); !again {
				r, problem = readReport(inner, dir)
			}
		}
		if r.Body.Summary == "" {
			r.Body.Summary = firstLine(content)
		}
		if failed, _ := m["is_error"].(bool); failed {
			r.Status = statusFailed
		}
	case map[string]any:
		readBody(&r, fields{content, "result.", &problem}, dir)
	default:
		get[map[string]any](f, "result", "an object")
	}
	if f.has("status") {
		r.Status = f.word("status", statusCompleted, statusFailed, statusPartial, statusTimeout, statusBlocked)
	}
	r.Body.Summary = cmp.Or(f.text("summary"), r.Body.Summary)
	for _, e := range f.objects("errors", mostReported) {
		r.Errors = append(r.Errors, readError(e, dir))
	}
	for _, n := range f.objects("next_actions", mostReported) {
		next := agentstatus.NextAction{Action: line(n.given("action"), longestMessage), Priority: "medium"}
		if n.has("priority") {
			next.Priority = n.word("priority", "critical", "high", "medium", "low")
		}
		next.Human, _ = n.values["requires_jesse"].(bool)
		r.Next = append(r.Next, next)
	}
	return r, problem
}

func readBody(r *agentstatus.Result, f fields, dir string) {
	r.Body.Artifacts = readPaths(f, "artifacts_created", dir)
	r.Body.Modified = readPaths(f, "files_modified", dir)
	r.Body.Summary = f.text("summary")
	r.Body.Metrics = get[map[string]any](f, "metrics", "an object")
	if success, ok := f.values["success"].(bool); ok {
		r.Status = statusFailed
		if success {
			r.Status = statusCompleted
		}
	}
}

func readError(f fields, dir string) agentstatus.TaskError {
	e := agentstatus.TaskError{Code: line(f.given("code"), 80), Message: line(f.given("message"), longestMessage), File: absolute(f.text("file"), dir)}
	if e.Severity = severityOf(e.Code); f.has("severity") {
		e.Severity = f.word("severity", severityFatal, severityError, severityWarning)
	}
	if n, ok := number(f.values["line"]); ok && n >= 1 && n <= 1e9 {
		e.Line = int(math.Trunc(n))
	}
	return e
}

// severityOf is the severity of an error code: of the document, or of steward's own.
func severityOf(code string) string {
	if code == codeLimited {
		return severityWarning
	}
	return task.Severity(code)
}

func readPaths(f fields, key, dir string) []string {
	var all []string
	for i, path := range f.texts(key) {
		switch {
		case i >= mostReported:
			return all
		case checkPath(path) != nil:
			f.refuse(fmt.Sprintf("%s[%d]", key, i), "is not a path")
		default:
			all = append(all, absolute(path, dir))
		}
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
	own, problem := readReport(found, a.plan.dir)
	summary := own.Body.Summary
	*r = own
	r.Body.Metrics = map[string]any{}
	maps.Copy(r.Body.Metrics, own.Body.Metrics)
	r.Body.Summary = line(summary, longestSummary)
	failed := a.ended.Code != 0 || a.ended.Signal != ""
	switch {
	case problem != "":
		r.Status = statusFailed
		r.Errors = append([]agentstatus.TaskError{{Code: codeExecution, Severity: severityError, Message: "the command's report cannot be used: " + problem}},
			usable(own.Errors)...)
		r.Next = slices.DeleteFunc(r.Next, func(n agentstatus.NextAction) bool { return n.Action == "" || n.Priority == "" })
	case failed && (r.Status == "" || r.Status == statusCompleted):
		r.Status = statusFailed
		if len(r.Errors) == 0 {
			r.Errors = []agentstatus.TaskError{a.failure()}
		}
	case r.Status == "":
		r.Status = statusCompleted
	case r.Status != statusCompleted && len(r.Errors) == 0:
		r.Errors = []agentstatus.TaskError{a.unnamedError(r.Status, line(summary, longestMessage))}
	}
	return true
}

// usable removes the errors that lack a code or severity, which the retry policy needs.
func usable(list []agentstatus.TaskError) []agentstatus.TaskError {
	return slices.DeleteFunc(slices.Clone(list), func(e agentstatus.TaskError) bool { return e.Code == "" || e.Severity == "" })
}

// unnamedError is the error of a command that reports a failure without naming an error.
func (a *attempt) unnamedError(status, summary string) agentstatus.TaskError {
	e := agentstatus.TaskError{Code: codeExecution, Severity: severityError, Message: summary}
	words := limited(summary)
	switch {
	case words != "":
		e.Code, e.Severity, e.Message = codeLimited, severityWarning, words
	case status == statusTimeout:
		e.Code = codeTimeout
	case a.plan.kind == typeValidate:
		e.Code, e.Severity = codeValidation, severityFatal
	}
	if e.Message == "" {
		e.Message = fmt.Sprintf("%s reports the status %s, and no reason", a.plan.name, status)
	}
	return e
}
