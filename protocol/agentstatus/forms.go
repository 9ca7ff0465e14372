package agentstatus

import (
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Request is a task request (protocol 000, Task Request Schema). A field of the wrong type in another client's request
// reads as missing.
type Request struct {
	TaskID       string              `json:"task_id" check:"required,filled,uuid"`
	Type         string              `json:"request_type" check:"required,filled,execute|research|validate|deploy"`
	Priority     string              `json:"priority" check:"required,filled,critical|high|medium|low"`
	Source       string              `json:"source_agent" check:"required,filled"`
	Target       string              `json:"target_agent" check:"required,filled"`
	Created      time.Time           `json:"created_at" check:"required"`
	Timeout      float64             `json:"timeout_seconds,omitzero" check:"1..3600"`
	Throttle     *float64            `json:"throttle_capacity,omitempty" check:"0..1"` // highest used share
	Context      RequestContext      `json:"context" check:"required"`
	Payload      RequestPayload      `json:"payload" check:"required"`
	Coordination RequestCoordination `json:"coordination" check:"required"`
}

// RequestContext is the origin of a request.
type RequestContext struct {
	Directive string   `json:"jesse_directive" check:"required"` // the user's words, verbatim
	Session   string   `json:"session_id" check:"required,uuid"` // may be ""
	Voice     bool     `json:"voice_mode_active" check:"required"`
	Related   []string `json:"related_tasks" check:"required"`
}

// RequestPayload is the work that is requested (protocol 000, Task Types & Payloads). Paths are absolute.
type RequestPayload struct {
	TaskType   string         `json:"task_type" check:"required"`
	Parameters map[string]any `json:"parameters" check:"required"`
	Modify     []string       `json:"files_to_modify" check:"path"`
	Read       []string       `json:"files_to_read" check:"path"`
	Artifacts  []string       `json:"expected_artifacts"`
}

// RequestCoordination says how the orchestrator follows the task. After is steward's own addition: the tasks that
// must be completed before the agent sees this task.
type RequestCoordination struct {
	Blocking bool     `json:"blocking" check:"required"`
	Progress bool     `json:"progress_updates_required" check:"required"`
	Every    float64  `json:"update_interval_seconds,omitzero" check:"1..3600"`
	After    []string `json:"after,omitempty"`
}

// parametersOf returns a struct with the parameters that a type of task has (protocol 000, Task Types & Payloads).
func parametersOf(kind string) any {
	switch kind {
	case "execute":
		return &struct {
			Script  string   `json:"script_path" check:"required"`
			Args    []string `json:"args"`
			Dir     string   `json:"working_directory"`
			Capture bool     `json:"capture_output"`
			Timeout float64  `json:"timeout_seconds" check:"1..3600"`
		}{}
	case "research":
		return &struct {
			Query  string   `json:"query" check:"required"`
			Paths  []string `json:"search_paths"`
			Depth  string   `json:"depth"`
			Format string   `json:"output_format"`
		}{}
	case "validate":
		return &struct {
			Type   string   `json:"validation_type" check:"required,filled,preflight|lint|test|security"`
			Files  []string `json:"target_files"`
			Strict bool     `json:"strict_mode"`
		}{}
	case "deploy":
		return &struct {
			Service     string `json:"service_name" check:"required"`
			Environment string `json:"environment" check:"required"`
			Project     string `json:"gcp_project"`
			Region      string `json:"region"`
			Dry         bool   `json:"dry_run"`
		}{}
	}
	return &struct{}{}
}

// Result is a task's result (protocol 000, Task Result Schema).
type Result struct {
	TaskID    string       `json:"task_id" check:"required,uuid"`
	Status    string       `json:"status" check:"required,filled,completed|failed|partial|timeout|blocked|deferred"`
	Source    string       `json:"source_agent" check:"required"`
	Completed time.Time    `json:"completed_at" check:"required"`
	Seconds   float64      `json:"execution_time_seconds" check:"required,0..1e9"`
	Capacity  float64      `json:"capacity_used" check:"required,0..1"`
	Body      ResultBody   `json:"result" check:"required"`
	Errors    []TaskError  `json:"errors" check:"required"`
	Next      []NextAction `json:"next_actions" check:"required"`

	// Mark is the mark of the claim, if the claim has one: a result from another run than the claim's is late. Mark
	// is not written to the file.
	Mark string `json:"-"`
}

// ResultBody is the outcome of the work.
type ResultBody struct {
	Success   bool           `json:"success" check:"required"`
	Artifacts []string       `json:"artifacts_created" check:"required,path"`
	Modified  []string       `json:"files_modified" check:"required,path"`
	Summary   string         `json:"summary" check:"required"`
	Metrics   map[string]any `json:"metrics" check:"required"`
	// Stdout and Stderr are the kept parts of a command's output; Output is the file with all of it. Protocol 000
	// does not define these three fields.
	Stdout string `json:"stdout,omitempty" check:"-"`
	Stderr string `json:"stderr,omitempty" check:"-"`
	Output string `json:"output,omitempty" check:"-"`
}

// TaskError is one error of a result (protocol 000, Error Codes).
type TaskError struct {
	Code     string `json:"code" check:"required"`
	Message  string `json:"message" check:"required"`
	Severity string `json:"severity" check:"required,filled,fatal|error|warning"`
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitzero" check:"0..1e9"`
}

// NextAction is one recommendation of a result.
type NextAction struct {
	Action   string `json:"action" check:"required"`
	Priority string `json:"priority" check:"required,filled,critical|high|medium|low"`
	Human    bool   `json:"requires_jesse" check:"required"`
}

// TaskProgress is a progress report (protocol 000, Progress File Schema).
type TaskProgress struct {
	Percent   float64   `json:"progress_percent" check:"required,0..100"`
	Step      string    `json:"current_step" check:"required"`
	Done      int       `json:"steps_completed" check:"required,0..1e9"`
	Total     int       `json:"steps_total" check:"required,0..1e9"`
	At        time.Time `json:"last_update" check:"required"`
	Estimated time.Time `json:"estimated_completion,omitzero" check:"required"`
}

// progressFile is a progress file as a whole.
type progressFile struct {
	TaskID string `json:"task_id" check:"required,filled"`
	TaskProgress
}

// Messages lists the messages of protocol 000.
func Messages() []folder.Message {
	request := *folder.TableOf(&Request{})
	for _, kind := range []string{"execute", "research", "validate", "deploy"} {
		parameters := folder.Field{Key: "parameters", Form: folder.Object, Need: folder.Optional, Inside: *folder.TableOf(parametersOf(kind))}
		payload := folder.Field{Key: "payload", Form: folder.Object, Need: folder.Optional, Inside: folder.Table{Fields: []folder.Field{parameters}}}
		request.Cases = append(request.Cases, folder.Case{Key: "request_type", Words: []string{kind}, Then: folder.Table{Fields: []folder.Field{payload}}})
	}
	return []folder.Message{
		{Name: "agentstatus/request", Title: "Protocol 000, Task Request Schema and Task Types & Payloads", Table: request},
		{Name: "agentstatus/result", Title: "Protocol 000, Task Result Schema", Table: *folder.TableOf(&Result{})},
		{Name: "agentstatus/progress", Title: "Protocol 000, Progress File Schema", Table: *folder.TableOf(&progressFile{})},
		{Name: "agentstatus/heartbeat", Title: "Protocol 000, Heartbeat Schema", Table: *folder.TableOf(&heartbeatFile{})},
	}
}

// whole decodes a document with its maps and without checking it.
func whole[T any](o jsonfile.Object) (v T) {
	folder.FillAll(o, &v)
	return v
}

// InvalidError lists the schema violations of a document, one line per field.
type InvalidError = protocol.InvalidError

// CheckRequest decodes a request of any origin and checks it as strictly as steward writes (protocol 000, Task
// Request Schema and Task Types & Payloads). It returns an *InvalidError that lists every violation.
func CheckRequest(doc []byte) (Request, error) {
	o, err := jsonfile.Parse(doc)
	if err != nil {
		return Request{}, err
	}
	issues := decodeRequest(o).issues
	for _, key := range []string{"task_id", "target_agent"} {
		if name := text(o, key); strings.TrimSpace(name) != "" && !plainID(name) {
			issues.Schema(protocol.Low, key, "cannot be used as a file name")
		}
	}
	return whole[Request](o), strict(o, folder.TableOf(&Request{}), issues)
}

// CheckResult reads a result document as other clients will read it. The error is an *InvalidError that lists every
// violation of the schema (protocol 000, Task Result Schema).
func CheckResult(doc []byte) error {
	o, err := jsonfile.Parse(doc)
	if err != nil {
		return folder.Refuse("%v", err)
	}
	return strict(o, folder.TableOf(&Result{}), decodeResult(o).issues)
}

// strict returns an *InvalidError with the findings of a reader and with the fields that are empty, which a reader accepts.
func strict(o jsonfile.Object, table *folder.Table, issues folder.Findings) error {
	for _, d := range table.Check(o) {
		if d.Trouble == folder.Empty {
			issues.Schema(protocol.Low, d.Key, "%s", d.Problem)
		}
	}
	return folder.Invalid(texts(issues))
}
