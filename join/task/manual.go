package task

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/protocol/agentstatus"
)

// Ending is the report of a user who did a task by hand.
type Ending struct {
	Agent               string
	Summary             string
	Artifacts, Modified []string // absolute paths
	Metrics             map[string]any
	Next, ForHuman      []string
	Failure             *agentstatus.TaskError // nil: the task is done
	Took                time.Duration
	Document            []byte // a result document; other fields override it
}

// severities are those of protocol 000, Error Codes.
var severities = map[string]string{
	"CAPACITY_EXCEEDED": "warning", "FILE_NOT_FOUND": "error", "PERMISSION_DENIED": "error", "TIMEOUT": "error",
	"EXECUTION_FAILED": "error", "VALIDATION_FAILED": "fatal", "GIT_CONFLICT": "fatal", "UNKNOWN_ERROR": "fatal",
}

// Severity is the document's severity of an error code; an unknown code is an error.
func Severity(code string) string {
	if s := severities[code]; s != "" {
		return s
	}
	return "error"
}

// Result makes the result document. Errors: *agentstatus.InvalidError with every problem.
func (e Ending) Result(now time.Time) (agentstatus.Result, error) {
	var p problems
	r := agentstatus.Result{Status: "completed"}
	if e.Document != nil {
		r = e.read(&p)
	}
	r.Source, r.Seconds = cmp.Or(r.Source, e.Agent), cmp.Or(r.Seconds, max(e.Took, 0).Seconds())
	if r.Completed.IsZero() {
		r.Completed = now.UTC()
	}
	e.body(&r)
	if e.Failure != nil {
		r.Status = "failed"
		if e.Failure.Code == "TIMEOUT" {
			r.Status = "timeout"
		}
		r.Errors = append(r.Errors, *e.Failure)
	}
	for _, text := range e.Next {
		r.Next = append(r.Next, agentstatus.NextAction{Action: text, Priority: "medium"})
	}
	for _, text := range e.ForHuman {
		r.Next = append(r.Next, agentstatus.NextAction{Action: text, Priority: "high", Human: true})
	}
	r.Body.Success = r.Status == "completed"
	r.Errors, r.Next = append([]agentstatus.TaskError{}, r.Errors...), append([]agentstatus.NextAction{}, r.Next...)
	p.result(r)
	return r, p.err()
}

// result checks a result.
func (p *problems) result(r agentstatus.Result) {
	if doc := p.document(r, "result"); len(*p) == 0 {
		p.merge(agentstatus.CheckResult(doc))
	}
	if r.Status == "deferred" {
		p.add("status is deferred; a task that is done or has failed is not put off")
	}
	for i, e := range r.Errors {
		p.filled(fmt.Sprintf("errors[%d].code", i), e.Code)
		p.filled(fmt.Sprintf("errors[%d].message", i), e.Message)
	}
	for i, n := range r.Next {
		p.filled(fmt.Sprintf("next_actions[%d].action", i), n.Action)
	}
}

func (e Ending) body(r *agentstatus.Result) {
	b := &r.Body
	b.Summary = cmp.Or(e.Summary, b.Summary)
	if b.Summary == "" && e.Failure != nil {
		b.Summary = e.Failure.Message
	}
	b.Artifacts, b.Modified = append(list(b.Artifacts), e.Artifacts...), append(list(b.Modified), e.Modified...)
	if b.Metrics == nil {
		b.Metrics = map[string]any{}
	}
	maps.Copy(b.Metrics, e.Metrics)
}

// read decodes the result document.
func (e Ending) read(p *problems) agentstatus.Result {
	r := agentstatus.Result{Status: "completed"}
	if err := strictly(e.Document, &r); err != nil {
		p.add("result: %s", strings.TrimPrefix(jsonProblem(err), "json: "))
		return r
	}
	var raw struct {
		Result struct {
			Metrics json.RawMessage `json:"metrics"`
		} `json:"result"`
	}
	if json.Unmarshal(e.Document, &raw) == nil && raw.Result.Metrics != nil {
		r.Body.Metrics, _ = Parameters(raw.Result.Metrics)
	}
	return r
}

// ParseSteps reads DONE/TOTAL.
func ParseSteps(text string) (done, total int, err error) {
	a, b, ok := strings.Cut(text, "/")
	done, errA := strconv.Atoi(a)
	total, errB := strconv.Atoi(b)
	if !ok || errA != nil || errB != nil || done < 0 || total < 1 || done > total {
		return 0, 0, fmt.Errorf("%q is not DONE/TOTAL, such as 3/7", text)
	}
	return done, total, nil
}

// ParsePercent reads 0 to 100, with or without a percent sign.
func ParsePercent(text string) (float64, error) {
	v, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(text, "%")), 64)
	if err != nil || !(v >= 0 && v <= 100) {
		return 0, fmt.Errorf("%q is not a percentage from 0 to 100", text)
	}
	return v, nil
}
