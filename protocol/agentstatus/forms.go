package agentstatus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/livhana/steward/protocol/jsonfile"
)

// Request is a task request as steward writes it for an orchestrator (protocol 000, Task Request Schema). Reading a
// foreign request is lenient: a field of the wrong type counts as missing.
type Request struct {
	TaskID       string              `json:"task_id"`
	Type         string              `json:"request_type"` // execute, research, validate, deploy
	Priority     string              `json:"priority"`     // critical, high, medium, low
	Source       string              `json:"source_agent"`
	Target       string              `json:"target_agent"`
	Created      time.Time           `json:"created_at"`
	Timeout      float64             `json:"timeout_seconds,omitzero"`
	Throttle     *float64            `json:"throttle_capacity,omitempty"` // highest used share, 0 to 1
	Context      RequestContext      `json:"context"`
	Payload      RequestPayload      `json:"payload"`
	Coordination RequestCoordination `json:"coordination"`
}

// RequestContext is the origin of a request.
type RequestContext struct {
	Directive string   `json:"jesse_directive"` // the user's words, verbatim
	Session   string   `json:"session_id"`      // a UUID v4, or ""
	Voice     bool     `json:"voice_mode_active"`
	Related   []string `json:"related_tasks"`
}

// RequestPayload is the work that is requested (protocol 000, Task Types & Payloads). Paths are absolute.
type RequestPayload struct {
	TaskType   string         `json:"task_type"`
	Parameters map[string]any `json:"parameters"`
	Modify     []string       `json:"files_to_modify"`
	Read       []string       `json:"files_to_read"`
	Artifacts  []string       `json:"expected_artifacts"`
}

// RequestCoordination says how the orchestrator follows the task. After is steward's own addition: the tasks that
// must be completed before the agent sees this task.
type RequestCoordination struct {
	Blocking bool     `json:"blocking"`
	Progress bool     `json:"progress_updates_required"`
	Every    float64  `json:"update_interval_seconds,omitzero"`
	After    []string `json:"after,omitempty"`
}

// Result is a task's result (protocol 000, Task Result Schema).
type Result struct {
	TaskID    string       `json:"task_id"`
	Status    string       `json:"status"` // completed, failed, partial, timeout, blocked
	Source    string       `json:"source_agent"`
	Completed time.Time    `json:"completed_at"`
	Seconds   float64      `json:"execution_time_seconds"`
	Capacity  float64      `json:"capacity_used"` // 0 to 1
	Body      ResultBody   `json:"result"`
	Errors    []TaskError  `json:"errors"`
	Next      []NextAction `json:"next_actions"`

	// Mark is the mark of the claim, if the claim has one: a result from another run than the claim's is late. Mark
	// is not written to the file.
	Mark string `json:"-"`
}

// ResultBody is the outcome of the work.
type ResultBody struct {
	Success   bool           `json:"success"`
	Artifacts []string       `json:"artifacts_created"`
	Modified  []string       `json:"files_modified"`
	Summary   string         `json:"summary"`
	Metrics   map[string]any `json:"metrics"`
	// Stdout and Stderr are the kept parts of a command's output; Output is the file with all of it. Protocol 000
	// does not define these three fields.
	Stdout string `json:"stdout,omitempty"`
	Stderr string `json:"stderr,omitempty"`
	Output string `json:"output,omitempty"`
}

// TaskError is one error of a result (protocol 000, Error Codes).
type TaskError struct {
	Code     string `json:"code"`
	Message  string `json:"message"`
	Severity string `json:"severity"` // fatal, error, warning
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitzero"`
}

// NextAction is one recommendation of a result.
type NextAction struct {
	Action   string `json:"action"`
	Priority string `json:"priority"`
	Human    bool   `json:"requires_jesse"`
}

// TaskProgress is a progress report (protocol 000, Progress File Schema).
type TaskProgress struct {
	Percent   float64   `json:"progress_percent"` // 0 to 100
	Step      string    `json:"current_step"`
	Done      int       `json:"steps_completed"`
	Total     int       `json:"steps_total"`
	At        time.Time `json:"last_update"`
	Estimated time.Time `json:"estimated_completion,omitzero"`
}

// requestOf decodes a request field by field.
func requestOf(o jsonfile.Object) Request {
	r := Request{TaskID: text(o, "task_id"), Type: text(o, "request_type"), Priority: text(o, "priority"),
		Source: text(o, "source_agent"), Target: text(o, "target_agent")}
	r.Created, _ = o.Time("created_at")
	r.Timeout, _ = o.Number("timeout_seconds")
	if v, p := o.Number("throttle_capacity"); p.OK() {
		r.Throttle = &v
	}
	context, _ := o.Object("context")
	r.Context = RequestContext{Directive: text(context, "jesse_directive"), Session: text(context, "session_id"),
		Voice: flag(context, "voice_mode_active"), Related: texts(context, "related_tasks")}
	payload, _ := o.Object("payload")
	r.Payload = RequestPayload{TaskType: text(payload, "task_type"), Parameters: anything(payload.Get("parameters")),
		Modify: texts(payload, "files_to_modify"), Read: texts(payload, "files_to_read"), Artifacts: texts(payload, "expected_artifacts")}
	c, _ := o.Object("coordination")
	every, _ := c.Number("update_interval_seconds")
	r.Coordination = RequestCoordination{Blocking: flag(c, "blocking"), Progress: flag(c, "progress_updates_required"), Every: every,
		After: texts(c, "after")}
	return r
}

// resultOf decodes a result field by field.
func resultOf(o jsonfile.Object) Result {
	r := Result{TaskID: text(o, "task_id"), Status: text(o, "status"), Source: text(o, "source_agent")}
	r.Completed, _ = o.Time("completed_at")
	r.Seconds, _ = o.Number("execution_time_seconds")
	r.Capacity, _ = o.Number("capacity_used")
	body, _ := o.Object("result")
	r.Body = ResultBody{Success: flag(body, "success"), Artifacts: texts(body, "artifacts_created"), Modified: texts(body, "files_modified"),
		Summary: text(body, "summary"), Metrics: anything(body.Get("metrics")), Stdout: text(body, "stdout"), Stderr: text(body, "stderr"),
		Output: text(body, "output")}
	errors, _ := o.Array("errors")
	for _, item := range errors {
		if e, p := item.Object(); p.OK() {
			line, _ := e.Int("line")
			r.Errors = append(r.Errors, TaskError{text(e, "code"), text(e, "message"), text(e, "severity"), text(e, "file"), int(line)})
		}
	}
	next, _ := o.Array("next_actions")
	for _, item := range next {
		if n, p := item.Object(); p.OK() {
			r.Next = append(r.Next, NextAction{text(n, "action"), text(n, "priority"), flag(n, "requires_jesse")})
		}
	}
	return r
}

func progressOf(o jsonfile.Object) TaskProgress {
	p := TaskProgress{Step: text(o, "current_step")}
	p.Percent, _ = o.Number("progress_percent")
	done, _ := o.Int("steps_completed")
	total, _ := o.Int("steps_total")
	p.Done, p.Total = int(done), int(total)
	p.At, _ = o.Time("last_update")
	p.Estimated, _ = o.Time("estimated_completion")
	return p
}

func text(o jsonfile.Object, key string) string {
	s, _ := o.String(key)
	return s
}

func flag(o jsonfile.Object, key string) bool {
	b, _ := o.Bool(key)
	return b
}

func texts(o jsonfile.Object, key string) []string {
	items, _ := o.Array(key)
	var list []string
	for _, item := range items {
		if s, p := item.Text(); p.OK() {
			list = append(list, s)
		}
	}
	return list
}

// anything decodes an object with arbitrary keys. Integers stay integers.
func anything(v jsonfile.Value) map[string]any {
	if v.Kind() != "object" {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(v.Raw()))
	d.UseNumber()
	var m map[string]any
	if d.Decode(&m) != nil {
		return nil
	}
	whole, _ := numbers(m).(map[string]any)
	return whole
}

// numbers converts the JSON numbers of a document to Go numbers.
func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		if f, err := v.Float64(); err == nil {
			return f
		}
		return json.RawMessage(v) // out of Go's range
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k])
		}
	}
	return v
}

// InvalidError lists the schema violations of a document, one line per field.
type InvalidError struct{ Problems []string }

func (e *InvalidError) Error() string {
	if len(e.Problems) == 1 {
		return "the request is not valid: " + e.Problems[0]
	}
	return fmt.Sprintf("the request is not valid:\n  %s", strings.Join(e.Problems, "\n  "))
}

// CheckRequest decodes a request of any origin and checks it as strictly as steward writes (protocol 000, Task
// Request Schema and Task Types & Payloads). It returns an *InvalidError that lists every violation.
func CheckRequest(doc []byte) (Request, error) {
	o, err := jsonfile.Parse(doc)
	if err != nil {
		return Request{}, err
	}
	parsed := decodeRequest(o)
	var problems []string
	for _, i := range parsed.issues {
		problems = append(problems, i.text)
	}
	for _, key := range []string{"task_id", "request_type", "priority", "source_agent", "target_agent"} {
		if s, p := o.String(key); p.OK() && s == "" {
			problems = append(problems, key+" is empty")
		}
	}
	if id := parsed.id; id != "" && !plainID(id) {
		problems = append(problems, "task_id cannot be used as a file name")
	}
	if target := parsed.target; target != "" && !plainID(target) {
		problems = append(problems, "target_agent cannot be used as a file name")
	}
	if len(problems) > 0 {
		return requestOf(o), &InvalidError{problems}
	}
	return requestOf(o), nil
}
