package worker

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/livhana/steward/join/task"
	"github.com/livhana/steward/protocol/agentstatus"
)

// plan is what a task requires: a command, or a result without a command.
type plan struct {
	task    string // its id
	kind    string
	name    string // of the command, for messages
	argv    []string
	dir     string
	stdin   []byte
	limit   time.Duration
	about   []string // the variables that describe the task, beside its id and its project
	onto    bool     // append to the log
	capture bool     // keep the output
	reports bool     // the command may end its output with its own result
	dry     bool

	modify, artifacts []string            // absolute
	result            *agentstatus.Result // set when there is nothing to run
}

// runs reports whether there is a command to run.
func (p *plan) runs() bool { return p.result == nil }

// refuse ends the plan with an error. The first error counts.
func (p *plan) refuse(status string, e agentstatus.TaskError) {
	if p.result == nil {
		r := withError(status, e)
		p.result = &r
	}
}

func (p *plan) invalid(format string, args ...any) {
	p.refuse(statusFailed, newError(codeInvalid, severityFatal, format, args...))
}

// planner makes plans. It reads files but does not change any.
type planner struct {
	Settings
	paths allowedPaths
	// programs is where the programs of execute requests may lie. See docs/decisions.md, "System programs run only when listed".
	programs allowedPaths
}

// parameters is the prefix of the names of fields in messages.
const parameters = "payload.parameters."

// plan decides how to carry out a request (protocol 000, Task Types & Payloads).
func (m *planner) plan(w agentstatus.Work) plan {
	p := plan{task: w.TaskID, kind: cmp.Or(w.Type, w.Payload.TaskType), dir: m.paths.project, stdin: w.Raw, capture: true, limit: m.limit(w.Timeout)}
	given := w.Payload.Parameters
	if given == nil {
		p.invalid("payload.parameters is missing, or is no object")
		return p
	}
	var common struct {
		DryRun bool `json:"dry_run"`
	}
	p.read(given, &common)
	p.dry = common.DryRun
	switch p.kind {
	case task.Execute:
		m.execute(&p, given)
	case task.Research:
		var q struct {
			Query string
			Paths []string `json:"search_paths"`
		}
		p.read(given, &q)
		p.needs("query", q.Query)
		m.located(&p, parameters+"search_paths", q.Paths)
		m.command(&p, "research", m.Research)
	case task.Validate:
		var v struct {
			Type  string   `json:"validation_type"`
			Files []string `json:"target_files"`
		}
		p.read(given, &v)
		p.needs("validation_type", v.Type)
		m.located(&p, parameters+"target_files", v.Files)
		m.command(&p, "validate", m.Validate)
	case task.Deploy:
		var d struct {
			Service     string `json:"service_name"`
			Environment string
		}
		p.read(given, &d)
		p.needs("service_name", d.Service)
		p.needs("environment", d.Environment)
		if p.dry && len(m.DeployDryRun) > 0 { // the separate command for dry runs
			p.reports, p.name, p.argv = true, "deploy_dry_run", m.DeployDryRun
		} else {
			m.command(&p, "deploy", m.Deploy)
		}
	default:
		p.invalid("request_type is %q; this worker knows execute, research, validate and deploy", line(p.kind, 60))
	}
	p.modify = m.located(&p, "payload.files_to_modify", w.Payload.Modify)
	for _, path := range w.Payload.Artifacts { // steward only reads their state: others than the allowed are left out
		if abs, err := m.paths.locate(path); err == nil {
			p.artifacts = append(p.artifacts, abs)
		}
	}
	m.describeTask(&p, w)
	return p
}

// describeTask tells the command what the task is: by variables, and in its arguments.
func (m *planner) describeTask(p *plan, w agentstatus.Work) {
	p.about = []string{"STEWARD_TASK_TYPE=" + p.kind, "STEWARD_REQUEST=" + requestFile(m.paths.project, p.task)}
	if p.dry {
		p.about = append(p.about, "STEWARD_DRY_RUN=1")
	}
	if p.runs() && p.kind != task.Execute { // whose arguments are passed unchanged
		m.fill(p, w)
	}
}

// limit is the timeout of a task.
func (m *planner) limit(seconds float64) time.Duration {
	if !(seconds > 0) {
		return m.Timeout
	}
	return min(duration(seconds), m.MaxTimeout)
}

// read decodes the parameters of a request strictly: steward must run exactly what was requested.
func (p *plan) read(given map[string]any, into any) {
	if problem := readObject(given, into); problem != "" {
		p.invalid("%s%s", parameters, problem)
	}
}

func (p *plan) needs(name, value string) {
	if value == "" {
		p.invalid("%s%s is missing or empty", parameters, name)
	}
}

// readObject decodes an object into a struct. problem names the first field that is of another type than in the struct;
// such fields stay as they are, and so do absent ones.
func readObject(object map[string]any, into any) (problem string) {
	raw, err := json.Marshal(object)
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &wrong):
		return fmt.Sprintf("%s must be %s, not %s", strings.ToLower(wrong.Field), kindNames[wrong.Type.Kind()], wrong.Value)
	}
	return err.Error()
}

var kindNames = map[reflect.Kind]string{reflect.String: "a string", reflect.Bool: "true or false", reflect.Float64: "a number",
	reflect.Slice: "an array", reflect.Struct: "an object", reflect.Map: "an object"}

// execute plans a script with its arguments, without a shell.
func (m *planner) execute(p *plan, given map[string]any) {
	var e struct {
		Script  string `json:"script_path"`
		Args    []any
		Dir     string   `json:"working_directory"`
		Capture *bool    `json:"capture_output"`
		Seconds *float64 `json:"timeout_seconds"`
	}
	p.read(given, &e)
	p.needs("script_path", e.Script)
	argv := []string{e.Script}
	for i, arg := range e.Args {
		text, ok := arg.(string)
		if !ok || strings.ContainsRune(text, 0) {
			p.invalid("%sargs[%d] must be a string without a NUL character", parameters, i)
		}
		argv = append(argv, text)
	}
	if s := e.Seconds; s != nil {
		if !(*s > 0) {
			p.invalid("%stimeout_seconds is %v; use a number of seconds above 0", parameters, *s)
		}
		p.limit = min(p.limit, duration(*s))
	}
	p.capture = e.Capture == nil || *e.Capture
	if !p.runs() {
		return
	}
	argv[0] = m.locate(m.programs, p, parameters+"script_path", e.Script, "; [worker] programs is where to allow it")
	if e.Dir != "" {
		p.dir = m.locate(m.paths, p, parameters+"working_directory", e.Dir, "")
	}
	if !p.runs() {
		return
	}
	p.argv, p.name = argv, m.paths.short(argv[0])
	if p.dry {
		p.describe()
	} else if e := checkScript(argv[0], p.dir); e != nil {
		p.refuse(statusFailed, *e)
	}
}

// command plans the configured command for a request of this type. Where none is configured, only the user can change
// that, so the task is blocked.
func (m *planner) command(p *plan, key string, argv []string) {
	p.reports, p.name, p.argv = true, key, argv
	switch {
	case !p.runs():
	case p.dry:
		p.describe()
	case len(argv) == 0:
		p.refuse(statusBlocked, newError(codeUnconfigured, severityError,
			"this worker has no command for %s requests: set %[1]s under [worker.commands] in steward's config.toml", key))
		p.result.Next = []agentstatus.NextAction{{Action: "Set " + key + " under [worker.commands], then: steward retry " + p.task, Priority: "high", Human: true}}
	}
}

// fill substitutes the task's values in the command's arguments. A program with a relative path is resolved in the
// project.
func (m *planner) fill(p *plan, w agentstatus.Work) {
	file, prompt := requestFile(m.paths.project, p.task), ""
	if m.Prompt != nil {
		prompt = m.Prompt(w, file)
	}
	r := strings.NewReplacer("{task}", p.task, "{project}", m.paths.project, "{request}", file, "{file}", file, "{prompt}", prompt)
	argv := make([]string, len(p.argv))
	for i, arg := range p.argv {
		argv[i] = r.Replace(arg)
	}
	if strings.ContainsRune(argv[0], filepath.Separator) && !filepath.IsAbs(argv[0]) {
		argv[0] = filepath.Join(m.paths.project, argv[0])
	}
	p.argv = argv
}

// located makes paths absolute, see locate.
func (m *planner) located(p *plan, field string, paths []string) []string {
	var list []string
	for i, path := range paths {
		list = append(list, m.locate(m.paths, p, fmt.Sprintf("%s[%d]", field, i), path, ""))
	}
	return list
}

// locate makes one path absolute. A path that is not allowed ends the plan with PERMISSION_DENIED.
func (m *planner) locate(g allowedPaths, p *plan, field, path, advice string) string {
	abs, err := g.locate(path)
	if err != nil {
		e := newError(codePermission, severityError, "%s %q: %v%s", field, line(path, 200), err, advice)
		e.File = line(path, 500)
		p.refuse(statusFailed, e)
	}
	return abs
}

// requestFile is the path of a task's request (protocol 000, File Locations).
func requestFile(project, id string) string {
	return filepath.Join(project, filepath.FromSlash(agentstatus.Base), "codex_tasks", "task_"+id+".request.json")
}
