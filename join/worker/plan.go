package worker

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol/agentstatus"
)

// The request types of protocol 000.
const (
	typeExecute  = "execute"
	typeResearch = "research"
	typeValidate = "validate"
	typeDeploy   = "deploy"
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
	capture bool // keep the output
	reports bool // the command may end its output with its own result
	dry     bool

	modify, artifacts []string            // absolute
	result            *agentstatus.Result // set when nothing is to be run
}

// runs reports whether there is a command to run.
func (p *plan) runs() bool { return p.result == nil }

// refuse ends the plan with an error.
func (p *plan) refuse(status string, e agentstatus.TaskError) {
	if p.result == nil {
		e.Message = line(e.Message, longestMessage)
		r := withError(status, e)
		p.result = &r
	}
}

// withError is a result with a single error.
func withError(status string, e agentstatus.TaskError) agentstatus.Result {
	return agentstatus.Result{Status: status, Errors: []agentstatus.TaskError{e}, Body: agentstatus.ResultBody{Summary: e.Message}}
}

func (p *plan) invalid(message string) {
	p.refuse(statusFailed, agentstatus.TaskError{Code: codeInvalid, Message: message, Severity: severityFatal})
}

// planner makes plans. It reads files but does not change any.
type planner struct {
	Settings
	paths allowedPaths
	// programs is where the programs of execute requests may lie. See docs/decisions.md, "System programs run only when listed".
	programs allowedPaths
}

// plan decides how to carry out a request (protocol 000, Task Types & Payloads).
func (m *planner) plan(w agentstatus.Work) plan {
	p := plan{task: w.TaskID, kind: cmp.Or(w.Type, w.Payload.TaskType), dir: m.paths.project, stdin: w.Raw, capture: true, limit: m.limit(w.Timeout)}
	if w.Payload.Parameters == nil {
		p.invalid("payload.parameters is missing, or is no object")
		return p
	}
	problem := ""
	given := fields{w.Payload.Parameters, "payload.parameters.", &problem}
	p.dry = given.flag("dry_run", false)
	switch p.kind {
	case typeExecute:
		m.execute(&p, given)
	case typeResearch:
		given.filled("query")
		m.located(&p, "payload.parameters.search_paths", given.texts("search_paths"), true)
		m.command(&p, "research", m.Research)
	case typeValidate:
		given.filled("validation_type")
		m.located(&p, "payload.parameters.target_files", given.texts("target_files"), true)
		m.command(&p, "validate", m.Validate)
	case typeDeploy:
		given.filled("service_name")
		given.filled("environment")
		m.deploy(&p)
	default:
		p.invalid(fmt.Sprintf("request_type is %q; this worker knows execute, research, validate and deploy", line(p.kind, 60)))
	}
	if problem != "" {
		p.result = nil // report an invalid request before a missing configuration
		p.invalid(problem)
	}
	p.modify = m.located(&p, "payload.files_to_modify", w.Payload.Modify, true)
	p.artifacts = m.located(&p, "payload.expected_artifacts", w.Payload.Artifacts, false)
	if p.runs() {
		m.fill(&p, w)
	}
	return p
}

// limit is the timeout of a task.
func (m *planner) limit(seconds float64) time.Duration {
	if !(seconds > 0) {
		return m.Timeout
	}
	return min(duration(seconds), m.MaxTimeout)
}

// execute plans a script with its arguments, without a shell.
func (m *planner) execute(p *plan, given fields) {
	script := given.filled("script_path")
	args := given.texts("args")
	dir := given.text("working_directory")
	p.capture = given.flag("capture_output", true)
	if d := given.seconds("timeout_seconds"); d > 0 {
		p.limit = min(p.limit, d)
	}
	if *given.problem != "" {
		return
	}
	if i := slices.IndexFunc(args, func(arg string) bool { return strings.ContainsRune(arg, 0) }); i >= 0 {
		p.invalid(fmt.Sprintf("payload.parameters.args[%d] holds a NUL character", i))
	}
	script = m.locateIn(m.programs, p, "payload.parameters.script_path", script, "; [worker] programs is where to allow it")
	if dir != "" {
		p.dir = m.locate(p, "payload.parameters.working_directory", dir)
	}
	if !p.runs() {
		return
	}
	p.argv, p.name = append([]string{script}, args...), m.paths.short(script)
	if p.dry {
		p.describe(m.paths)
		return
	}
	if e := checkScript(script, p.dir); e != nil {
		p.refuse(statusFailed, *e)
	}
}

// command plans the configured command for a request of this type.
func (m *planner) command(p *plan, key string, argv []string) {
	p.reports, p.name, p.argv = true, key, argv
	switch {
	case p.dry:
		p.describe(m.paths)
	case len(argv) == 0:
		p.unconfigured(key)
	}
}

// deploy prefers the separate command for dry runs, if there is one.
func (m *planner) deploy(p *plan) {
	if p.dry && len(m.DeployDryRun) > 0 {
		p.reports, p.name, p.argv = true, "deploy_dry_run", m.DeployDryRun
		return
	}
	m.command(p, "deploy", m.Deploy)
}

// unconfigured blocks a task for which no command is configured. Only the user can change that.
func (p *plan) unconfigured(key string) {
	message := fmt.Sprintf("this worker has no command for %s requests: set %s under [worker.commands] in steward's config.toml", key, key)
	p.refuse(statusBlocked, agentstatus.TaskError{Code: codeUnconfigured, Message: message, Severity: severityError})
	p.result.Next = []agentstatus.NextAction{{Action: "Set " + key + " under [worker.commands], then: steward retry " + p.task, Priority: "high", Human: true}}
}

// fill substitutes the task's values in the command's arguments. A program with a relative path is resolved in the
// project.
func (m *planner) fill(p *plan, w agentstatus.Work) {
	if p.kind == typeExecute {
		return // its arguments are passed unchanged
	}
	r := strings.NewReplacer("{task}", w.TaskID, "{project}", m.paths.project, "{request}", requestFile(m.paths.project, w.TaskID))
	argv := make([]string, len(p.argv))
	for i, arg := range p.argv {
		argv[i] = r.Replace(arg)
	}
	if name := filepath.FromSlash(argv[0]); strings.ContainsRune(name, filepath.Separator) && !filepath.IsAbs(name) {
		argv[0] = filepath.Join(m.paths.project, name)
	}
	p.argv = argv
}

// located makes paths absolute. Confined paths must be in the allowed folders. Other paths are left out if they are
// not: steward only reads their state.
func (m *planner) located(p *plan, field string, paths []string, confined bool) []string {
	var list []string
	for i, path := range paths {
		if confined {
			list = append(list, m.locate(p, fmt.Sprintf("%s[%d]", field, i), path))
		} else if abs, err := m.paths.locate(path); err == nil {
			list = append(list, abs)
		}
	}
	return list
}

// locate makes one path absolute. A path that is not allowed ends the plan with PERMISSION_DENIED.
func (m *planner) locate(p *plan, field, path string) string {
	return m.locateIn(m.paths, p, field, path, "")
}

func (m *planner) locateIn(g allowedPaths, p *plan, field, path, advice string) string {
	abs, err := g.locate(path)
	if err != nil {
		p.refuse(statusFailed, agentstatus.TaskError{Code: codePermission, Severity: severityError, File: line(path, 500),
			Message: fmt.Sprintf("%s %q: %v%s", field, line(path, 200), err, advice)})
	}
	return abs
}

// requestFile is the path of a task's request (protocol 000, File Locations).
func requestFile(project, id string) string {
	return filepath.Join(project, filepath.FromSlash(agentstatus.Base), "codex_tasks", "task_"+id+".request.json")
}
