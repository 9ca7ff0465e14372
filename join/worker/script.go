package worker

import (
	"errors"
	"fmt"
	"strings"

	"github.com/livhana/steward/join/run"
	"github.com/livhana/steward/join/task"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/status/terminal"
)

// checkScript says why a script cannot be run in a folder now; nil when it can.
func checkScript(script, dir string) *agentstatus.TaskError {
	file, err := dir, run.Folder(dir)
	if err == nil {
		file, err = script, run.Runnable(script)
	}
	if err == nil {
		return nil
	}
	e := startError(err, file)
	return &e
}

// startError is the error of a task whose command cannot be started.
func startError(err error, file string) agentstatus.TaskError {
	e := newError(codeExecution, severityError, "%v", err)
	e.File = file
	var fault *run.Fault
	if !errors.As(err, &fault) {
		return e
	}
	switch fault.Kind {
	case run.NotFound:
		e.Code = codeNotFound
	case run.Permission:
		e.Code = codePermission
	case run.NotFolder:
		e.Code, e.Severity, e.Message = codeInvalid, severityFatal, parameters+"working_directory: "+e.Message
	case run.Resources:
		e.Code, e.Severity, e.File = codeCapacity, severityWarning, ""
	}
	return e
}

// describe does a dry run: it describes what would be run, and runs nothing.
func (p *plan) describe() {
	metrics := map[string]any{"dry_run": true, "argv": append([]string{}, p.argv...), "working_directory": p.dir}
	command := make([]string, len(p.argv))
	for i, arg := range p.argv {
		command[i] = terminal.ShellQuote(arg)
	}
	words := fmt.Sprintf("would run %s in %s", strings.Join(command, " "), p.dir)
	switch {
	case len(p.argv) == 0:
		words = fmt.Sprintf("nothing would be run, for no command is set: %s under [worker.commands]", p.name)
	case p.kind == task.Execute:
		fault := checkScript(p.argv[0], p.dir)
		metrics["executable"] = fault == nil
		if fault == nil {
			words += "; the script is there and executable"
		} else {
			words += "; but " + fault.Message
		}
	}
	body := agentstatus.ResultBody{Summary: "Dry run: " + line(words, longestMessage), Metrics: metrics}
	p.result = &agentstatus.Result{Status: statusCompleted, Body: body}
}
