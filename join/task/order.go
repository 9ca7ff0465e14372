// Package task is the orchestrator's side of protocol 000 and the work that agents do by hand: it builds requests from
// a user's order, waits for their results, and describes the state of a task. It neither reads nor writes task files
// itself.
package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/livhana/steward/protocol/agentstatus"
)

// The types of protocol 000, Task Request Schema.
const (
	Execute  = "execute"
	Research = "research"
	Validate = "validate"
	Deploy   = "deploy"
)

// Types lists the request types in the document's order.
func Types() []string { return []string{Execute, Research, Validate, Deploy} }

// MaxTimeout is the longest timeout that the document allows.
const MaxTimeout = time.Hour

// Order is a task as a user requests it. Relative paths are relative to the project.
type Order struct {
	Type     string
	Project  string // absolute
	ID       string // "" generates an ID
	To, From string
	Priority string
	Timeout  time.Duration
	Throttle *float64 // nil: the agent's configured threshold
	Blocking bool
	Progress time.Duration // 0: no progress reports
	After    []string
	agentstatus.RequestContext

	Modify, Read, Artifacts []string
	Parameters              map[string]any // override the type's own fields
	Payload                 []byte         // a payload object; other fields override it
	DryRun                  bool

	Command []string       // of a task of the type execute: script and arguments
	Own     map[string]any // further parameters of the order's type, see OwnFlags
}

// OwnFlag is a flag of a single type of task. It sets a parameter (protocol 000, Task Types & Payloads).
type OwnFlag struct {
	Type, Name string
	Key        string // the parameter; "": it is part of Order.Command
	Default    any    // of the flag's type: string, []string or bool
	Path       bool   // its values are paths, which may be relative to the project
	Usage      string
}

// OwnFlags lists the flags that belong to a single type of task.
var OwnFlags = []OwnFlag{
	{Execute, "script", "", "", true, "the `FILE` to run, instead of -- COMMAND"},
	{Execute, "arg", "", []string(nil), false, "an `ARGUMENT` for --script (may be repeated)"},
	{Execute, "cwd", "working_directory", "", true, "the `DIR` to run it in (default: the project)"},
	{Execute, "no-capture", "no_capture", false, false, "keep none of its output"},
	{Research, "query", "query", "", false, "the question, `TEXT`"},
	{Research, "search-path", "search_paths", []string(nil), true, "a `PATH` to look through (may be repeated)"},
	{Research, "depth", "depth", "", false, "how thorough, a `WORD` such as quick or thorough"},
	{Research, "format", "output_format", "", false, "the answer's format, a `WORD` such as markdown"},
	{Validate, "check", "validation_type", "", false, "`NAME` of the check: preflight, lint, test or security"},
	{Validate, "file", "target_files", []string(nil), true, "a `FILE` to check (may be repeated)"},
	{Validate, "strict", "strict_mode", false, false, "treat warnings as errors"},
	{Deploy, "service", "service_name", "", false, "the service's `NAME`"},
	{Deploy, "environment", "environment", "", false, "`NAME` such as staging or production"},
	{Deploy, "gcp-project", "gcp_project", "", false, "the cloud project's `NAME`"},
	{Deploy, "region", "region", "", false, "the region's `NAME`"},
}

// Request builds the request. Errors: *agentstatus.InvalidError with every problem of the request.
func (o Order) Request(now time.Time) (agentstatus.Request, error) {
	var p problems
	r := agentstatus.Request{
		TaskID: o.ID, Type: o.Type, Priority: o.Priority, Source: o.From, Target: o.To, Created: now.UTC(),
		Timeout: o.Timeout.Seconds(), Throttle: o.Throttle,
		Context: o.RequestContext,
		Payload: o.payload(&p),
		Coordination: agentstatus.RequestCoordination{Blocking: o.Blocking, Progress: o.Progress > 0,
			Every: o.every().Seconds(), After: o.After},
	}
	r.Context.Related = list(o.Related)
	if r.TaskID == "" {
		r.TaskID = agentstatus.NewTaskID()
	}
	p.merge(Check(r))
	return r, p.err()
}

// usualEvery is the document's default for update_interval_seconds.
const usualEvery = 30 * time.Second

func (o Order) every() time.Duration {
	if o.Progress > 0 {
		return o.Progress
	}
	return usualEvery
}

// list never returns nil: the document requires its arrays even when they are empty.
func list(items []string) []string { return append([]string{}, items...) }

// payload applies the flags over the payload document. Parameters override the type's own fields.
func (o Order) payload(p *problems) agentstatus.RequestPayload {
	base := agentstatus.RequestPayload{TaskType: o.Type, Parameters: map[string]any{}}
	if o.Payload != nil {
		base = o.readPayload(p)
	}
	base.Modify = append(list(base.Modify), o.paths(o.Modify)...)
	base.Read = append(list(base.Read), o.paths(o.Read)...)
	base.Artifacts = append(list(base.Artifacts), o.paths(o.Artifacts)...)
	maps.Copy(base.Parameters, o.fields())
	if o.DryRun {
		base.Parameters["dry_run"] = true
	}
	maps.Copy(base.Parameters, o.Parameters)
	return base
}

// readPayload reads the payload document, which may be the whole payload or only the parameters.
func (o Order) readPayload(p *problems) agentstatus.RequestPayload {
	base := agentstatus.RequestPayload{TaskType: o.Type, Parameters: map[string]any{}}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(o.Payload, &keys); err != nil || keys == nil {
		p.add("payload is no JSON object: %s", jsonProblem(err))
		return base
	}
	if _, whole := keys["parameters"]; !whole {
		for key, value := range keys {
			base.Parameters[key] = value
		}
		return base
	}
	known := map[string]any{"task_type": &base.TaskType, "files_to_modify": &base.Modify, "files_to_read": &base.Read, "expected_artifacts": &base.Artifacts}
	for key, value := range keys {
		var err error
		if key == "parameters" {
			base.Parameters, err = Parameters(value)
		} else if into := known[key]; into != nil {
			err = json.Unmarshal(value, into)
		} else {
			p.add("payload.%s is no field of the protocol; what is the task's own belongs into payload.parameters", key)
		}
		if err != nil {
			p.add("payload.%s %s", key, jsonProblem(err))
		}
	}
	base.Modify, base.Read, base.Artifacts = o.paths(base.Modify), o.paths(base.Read), o.paths(base.Artifacts)
	return base
}

// Parameters reads an object without decoding its values, so large numbers keep their digits.
func Parameters(raw []byte) (map[string]any, error) {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(raw, &keys); err != nil {
		return map[string]any{}, err
	}
	all := make(map[string]any, len(keys))
	for key, value := range keys {
		all[key] = value
	}
	return all, nil
}

func jsonProblem(err error) string {
	var bad *json.SyntaxError
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return "it is null"
	case errors.As(err, &bad):
		return fmt.Sprintf("%v, at byte %d", bad, bad.Offset)
	case errors.As(err, &wrong):
		return fmt.Sprintf("must be of another type, not %s", wrong.Value)
	}
	return err.Error()
}

// fields are the parameters set by the command and the type's own flags.
func (o Order) fields() map[string]any {
	f := map[string]any{}
	if o.Type == Execute && len(o.Command) > 0 {
		f["script_path"], f["args"] = o.program(o.Command[0]), list(o.Command[1:])
		f["working_directory"], f["capture_output"] = o.path(""), true
		f["timeout_seconds"] = o.Timeout.Seconds()
	}
	for _, own := range OwnFlags {
		if own.Type != o.Type {
			continue
		}
		switch v := o.Own[own.Key].(type) {
		case string:
			if v != "" && own.Path {
				v = o.path(v)
			}
			if v != "" {
				f[own.Key] = v
			}
		case []string:
			if own.Path {
				v = o.paths(v)
			}
			if len(v) > 0 {
				f[own.Key] = v
			}
		case bool:
			if v {
				f[own.Key] = true
			}
		}
	}
	if f["no_capture"] != nil {
		delete(f, "no_capture")
		f["capture_output"] = false
	}
	return f
}

// program resolves the program to run: a file of the project, or, for a bare name without such a file, a program on the
// PATH. A file that does not exist yet stays a path in the project: it may exist when the task runs.
func (o Order) program(name string) string {
	at := o.path(name)
	if strings.ContainsAny(name, `/\`) || name == "" {
		return at
	}
	if _, err := exec.LookPath(at); err == nil {
		return at
	}
	found, err := exec.LookPath(name)
	if err != nil || !filepath.IsAbs(found) {
		return at
	}
	return found
}

func (o Order) path(name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(o.Project, name)
}

func (o Order) paths(names []string) []string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = o.path(name)
	}
	return all
}

// Parameter reads KEY=VALUE. VALUE is JSON if it parses as JSON, else text.
func Parameter(pair string) (key string, value any, err error) {
	key, text, ok := strings.Cut(pair, "=")
	if !ok || strings.TrimSpace(key) == "" {
		return "", nil, fmt.Errorf("%q is not KEY=VALUE", pair)
	}
	if json.Valid([]byte(text)) {
		return key, json.RawMessage(strings.TrimSpace(text)), nil
	}
	return key, text, nil
}
