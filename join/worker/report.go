package worker

import (
	"cmp"
	"encoding/json"
	"fmt"
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

// findReport finds a command's own report at the end of its output.
func findReport(out string) map[string]any { return FindReport(out, reportKeys...) }

// FindReport finds the JSON object at the end of an output that has one of the keys: the whole output, its last line, or
// the body of its last code fence. It returns nil without one.
func FindReport(out string, keys ...string) map[string]any {
	out = strings.TrimSpace(out)
	parts := []string{out, out[strings.LastIndexByte(out, '\n')+1:]}
	if inside, closed := strings.CutSuffix(out, "```"); closed {
		if i := strings.LastIndex(inside, "```"); i >= 0 {
			_, body, _ := strings.Cut(inside[i:], "\n")
			parts = append(parts, body)
		}
	}
	for _, part := range parts {
		var m map[string]any // numbers as floats: the result's encoder would quote a json.Number
		if json.Unmarshal([]byte(part), &m) != nil {
			continue
		}
		if slices.ContainsFunc(keys, func(key string) bool { _, ok := m[key]; return ok }) {
			return m
		}
	}
	return nil
}

// reportReader decodes one report. problem is about the first field that cannot be used.
type reportReader struct {
	dir     string // of relative paths
	result  agentstatus.Result
	problem string
}

func (p *reportReader) refuse(format string, args ...any) {
	p.problem = cmp.Or(p.problem, line(fmt.Sprintf(format, args...), longestMessage))
}

// read decodes a report. An agent's own envelope, with its answer as text in "result" and is_error, counts too; the
// answer may itself end in a report.
func (p *reportReader) read(m map[string]any) {
	var doc struct {
		Status, Summary string
		Errors          []struct {
			Code, Message, Severity, File string
			Line                          any
		}
		Next []struct {
			Action, Priority string
			Human            any `json:"requires_jesse"`
		} `json:"next_actions"`
	}
	if problem := readObject(m, &doc); problem != "" {
		p.refuse("%s", problem)
	}
	r := &p.result
	switch content := m["result"].(type) {
	case nil:
	case string:
		if inner := findReport(content); inner != nil {
			if _, again := inner["result"].(string); !again {
				p.read(inner)
			}
		}
		r.Body.Summary = cmp.Or(r.Body.Summary, firstLine(content))
		if failed, _ := m["is_error"].(bool); failed {
			r.Status = statusFailed
		}
	case map[string]any:
		p.readBody(content)
	default:
		p.refuse("result must be an object")
	}
	r.Status = cmp.Or(p.word("status", doc.Status, statusCompleted, statusFailed, statusPartial, statusTimeout, statusBlocked), r.Status)
	r.Body.Summary = cmp.Or(doc.Summary, r.Body.Summary)
	for i, e := range doc.Errors[:min(len(doc.Errors), mostReported)] {
		field := fmt.Sprintf("errors[%d].", i)
		if e.Code == "" || e.Message == "" {
			p.refuse("%scode or message is missing", field)
			continue
		}
		told := newError(line(e.Code, 80), p.word(field+"severity", cmp.Or(e.Severity, severityOf(e.Code)), severityFatal, severityError, severityWarning), "%s", e.Message)
		told.File = absolute(e.File, p.dir)
		if n, ok := e.Line.(float64); ok && n >= 1 && n <= 1e9 {
			told.Line = int(n)
		}
		r.Errors = append(r.Errors, told)
	}
	for i, n := range doc.Next[:min(len(doc.Next), mostReported)] {
		if n.Action == "" {
			p.refuse("next_actions[%d].action is missing", i)
		}
		next := agentstatus.NextAction{Action: line(n.Action, longestMessage)}
		next.Priority = p.word(fmt.Sprintf("next_actions[%d].priority", i), cmp.Or(n.Priority, "medium"), "critical", "high", "medium", "low")
		next.Human, _ = n.Human.(bool)
		r.Next = append(r.Next, next)
	}
}

// word returns a text that must be one of a set; "" for another one.
func (p *reportReader) word(field, text string, set ...string) string {
	if text != "" && !slices.Contains(set, text) {
		p.refuse("%s is %q, not one of %s", field, line(text, 60), strings.Join(set, ", "))
		return ""
	}
	return text
}

func (p *reportReader) readBody(content map[string]any) {
	var body struct {
		Artifacts []string `json:"artifacts_created"`
		Modified  []string `json:"files_modified"`
		Summary   string
		Metrics   map[string]any
		Success   any
	}
	if problem := readObject(content, &body); problem != "" {
		p.refuse("result.%s", problem)
	}
	b := &p.result.Body
	b.Artifacts, b.Modified = p.paths("artifacts_created", body.Artifacts), p.paths("files_modified", body.Modified)
	b.Summary, b.Metrics = body.Summary, body.Metrics
	switch body.Success {
	case true:
		p.result.Status = statusCompleted
	case false:
		p.result.Status = statusFailed
	}
}

func (p *reportReader) paths(field string, list []string) []string {
	var all []string
	for i, path := range list[:min(len(list), mostReported)] {
		if checkPath(path) != nil {
			p.refuse("result.%s[%d] is not a path", field, i)
			continue
		}
		all = append(all, absolute(path, p.dir))
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
	p := reportReader{dir: a.plan.dir}
	p.read(found)
	*r = p.result
	if r.Body.Metrics == nil {
		r.Body.Metrics = map[string]any{}
	}
	summary := r.Body.Summary
	r.Body.Summary = line(summary, longestSummary)
	failed := a.ended.Code != 0 || a.ended.Signal != ""
	switch {
	case p.problem != "":
		r.Status = statusFailed
		r.Errors = append([]agentstatus.TaskError{newError(codeExecution, severityError, "the command's report cannot be used: %s", p.problem)},
			slices.DeleteFunc(r.Errors, func(e agentstatus.TaskError) bool { return e.Severity == "" })...) // the retry policy needs it
		r.Next = slices.DeleteFunc(r.Next, func(n agentstatus.NextAction) bool { return n.Action == "" || n.Priority == "" })
	case failed && (r.Status == "" || r.Status == statusCompleted):
		r.Status = statusFailed
		if len(r.Errors) == 0 {
			r.Errors = []agentstatus.TaskError{a.failure()}
		}
	case r.Status == "":
		r.Status = statusCompleted
	case r.Status != statusCompleted && len(r.Errors) == 0:
		r.Errors = []agentstatus.TaskError{a.unnamedError(r.Status, summary)}
	}
	return true
}

// unnamedError is the error of a command that reports a failure without naming an error.
func (a *attempt) unnamedError(status, summary string) agentstatus.TaskError {
	if summary == "" {
		summary = fmt.Sprintf("%s reports the status %s, and no reason", a.plan.name, status)
	}
	words := limited(line(summary, longestMessage))
	switch {
	case words != "":
		return newError(codeLimited, severityWarning, "%s", words)
	case status == statusTimeout:
		return newError(codeTimeout, severityError, "%s", summary)
	case a.plan.kind == task.Validate:
		return newError(codeValidation, severityFatal, "%s", summary)
	}
	return newError(codeExecution, severityError, "%s", summary)
}
