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

	// Own are the fields of the order's type.
	Own
}

// Own are the fields that belong to a single type. Of these, only the fields of the order's type are used.
type Own struct {
	Program
	Question
	Validation
	Deployment
}

// Program is what a task of the type execute runs.
type Program struct {
	Command   []string // script and arguments
	Cwd       string
	NoCapture bool
}

// Question is what a task of the type research asks.
type Question struct {
	Query         string
	SearchPaths   []string
	Depth, Format string
}

// Validation is what a task of the type validate checks.
type Validation struct {
	Check  string
	Files  []string
	Strict bool
}

// Deployment is what a task of the type deploy deploys.
type Deployment struct {
	Service, Environment string
	GCPProject, Region   string
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

// fields are the parameters set by the type's own flags (protocol 000, Task Types & Payloads).
func (o Order) fields() map[string]any {
	f := map[string]any{}
	text := func(key, value string) {
		if value != "" {
			f[key] = value
		}
	}
	names := func(key string, values []string) {
		if len(values) > 0 {
			f[key] = o.paths(values)
		}
	}
	switch o.Type {
	case Execute:
		o.command(f)
	case Research:
		text("query", o.Query)
		names("search_paths", o.SearchPaths)
		text("depth", o.Depth)
		text("output_format", o.Format)
	case Validate:
		text("validation_type", o.Check)
		names("target_files", o.Files)
		if o.Strict {
			f["strict_mode"] = true
		}
	case Deploy:
		text("service_name", o.Service)
		text("environment", o.Environment)
		text("gcp_project", o.GCPProject)
		text("region", o.Region)
	}
	return f
}

func (o Order) command(f map[string]any) {
	if len(o.Command) == 0 {
		if o.Cwd != "" {
			f["working_directory"] = o.path(o.Cwd)
		}
		if o.NoCapture {
			f["capture_output"] = false
		}
		return
	}
	f["script_path"], f["args"] = o.program(o.Command[0]), list(o.Command[1:])
	f["working_directory"], f["capture_output"] = o.path(o.Cwd), !o.NoCapture
	f["timeout_seconds"] = o.Timeout.Seconds()
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

// ownFlags lists the flags that belong to a single type.
var ownFlags = map[string][]string{
	Execute:  {"script", "arg", "cwd", "no-capture"},
	Research: {"query", "search-path", "depth", "format"},
	Validate: {"check", "file", "strict"},
	Deploy:   {"service", "environment", "gcp-project", "region"},
}

// Flag is a flag that belongs to one type.
type Flag struct{ Name, Type string }

// Strangers lists the flags that belong to types other than kind.
func Strangers(kind string) []Flag {
	var all []Flag
	for _, other := range Types() {
		if other == kind {
			continue
		}
		for _, name := range ownFlags[other] {
			all = append(all, Flag{name, other})
		}
	}
	return all
}
