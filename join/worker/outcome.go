package worker

import (
	"fmt"
	"strings"
	"time"

	"github.com/livhana/steward/join/run"
	"github.com/livhana/steward/protocol/agentstatus"
)

// Statuses, severities and codes of protocol 000 (Task Result Schema, Error Codes).
const (
	statusCompleted = "completed"
	statusFailed    = "failed"
	statusPartial   = "partial"
	statusTimeout   = "timeout"
	statusBlocked   = "blocked"

	severityFatal   = "fatal"
	severityError   = "error"
	severityWarning = "warning"

	codeCapacity   = "CAPACITY_EXCEEDED"
	codeNotFound   = "FILE_NOT_FOUND"
	codePermission = "PERMISSION_DENIED"
	codeTimeout    = "TIMEOUT"
	codeExecution  = "EXECUTION_FAILED"
	codeValidation = "VALIDATION_FAILED"
	codeConflict   = "GIT_CONFLICT"
)

// Codes that the document does not define.
const (
	codeInvalid      = "INVALID_REQUEST"
	codeUnconfigured = "COMMAND_NOT_CONFIGURED"
	codeLimited      = "RATE_LIMITED"
	codeDiskFull     = "DISK_FULL"
	codeCancelled    = "CANCELLED"
	codeStopped      = "WORKER_STOPPED"
	codeStillRunning = "STILL_RUNNING"
	codeLeft         = "PROCESSES_LEFT"
)

const (
	longestMessage = 1000 // bytes
	longestSummary = 500
)

// halt is why a running task was asked to end.
type halt int

const (
	haltNone halt = iota
	haltCancelled
	haltStopping
	haltDisowned // its claim is gone
)

// faultBroken is the Fault of a run whose shim ended without a report.
const faultBroken = "broken"

// attempt is a finished run with everything needed to judge it.
type attempt struct {
	plan   plan
	ended  run.Ended
	asked  halt
	paths  allowedPaths
	output int // bytes of each stream that may go into the result
}

// result is the result of the run, without the changed files and the measurements.
func (a *attempt) result() agentstatus.Result {
	r := agentstatus.Result{Status: statusFailed, Body: agentstatus.ResultBody{Metrics: map[string]any{}}}
	e := &a.ended
	switch {
	case e.Fault != "":
		r.Errors = []agentstatus.TaskError{a.fault()}
	case e.Stopped:
		r.Errors = []agentstatus.TaskError{a.halted()}
	case e.TimedOut:
		r.Status = statusTimeout
		r.Errors = []agentstatus.TaskError{{Code: codeTimeout, Severity: severityError, Message: fmt.Sprintf(
			"%s was stopped after its limit of %s, with all that it had started", a.plan.name, span(a.plan.limit))}}
	case a.plan.reports && a.reported(&r):
	case e.Code == 0 && e.Signal == "":
		r.Status = statusCompleted
	default:
		r.Errors = []agentstatus.TaskError{a.failure()}
	}
	if r.Body.Summary == "" {
		r.Body.Summary = a.summary(r)
	}
	r.Body.Success = r.Status == statusCompleted
	if a.plan.capture {
		r.Body.Stdout, r.Body.Stderr = a.kept(e.Stdout.Text), a.kept(e.Stderr.Text)
	}
	if n := e.Unended; n > 0 {
		r.Errors = append(r.Errors, agentstatus.TaskError{Code: codeLeft, Severity: severityWarning,
			Message: fmt.Sprintf("%d of the processes that it started could not be ended", n)})
	}
	return r
}

// kept is the part of an output that goes into the result. With output >= leastKept the run has already cut the text to
// output (Spec.Keep).
func (a *attempt) kept(text string) string {
	if a.output >= leastKept || len(text) <= a.output {
		return text
	}
	return strings.ToValidUTF8(text[len(text)-a.output:], "")
}

// halted is the error of a run that was asked to end.
func (a *attempt) halted() agentstatus.TaskError {
	switch a.asked {
	case haltDisowned:
		return agentstatus.TaskError{Code: codeStopped, Severity: severityError, Message: a.plan.name + " was stopped: its claim was taken away"}
	case haltCancelled:
		return agentstatus.TaskError{Code: codeCancelled, Severity: severityError, Message: a.plan.name + " was stopped: the task was cancelled"}
	}
	return agentstatus.TaskError{Code: codeStopped, Severity: severityError,
		Message: a.plan.name + " was stopped before its end: its worker had to end. What it had done by then stays done"}
}

// fault says why the command could not be started.
func (a *attempt) fault() agentstatus.TaskError {
	if a.ended.Fault == faultBroken {
		return agentstatus.TaskError{Code: codeExecution, Severity: severityError,
			Message: line(fmt.Sprintf("it is not known how %s ended: %s", a.plan.name, a.ended.Problem), longestMessage)}
	}
	program := a.plan.argv[0]
	e := startError(&run.Fault{Kind: a.ended.Fault, Problem: a.plan.name + " could not be started: " + a.ended.Problem}, program)
	switch kind := a.ended.Fault; {
	case kind == run.Format:
		e.Message = a.plan.name + " could not be started: it is no program, and its first line names none; begin it with a line like #!/bin/sh"
		e.Line = 1
	case kind == run.NotFound && a.plan.kind != typeExecute:
		e.Message += fmt.Sprintf(" (see %s under [worker.commands])", a.plan.name)
	case kind == run.NotFound && run.Runnable(program) == nil: // its first line names a missing interpreter
		e.Line = 1
	}
	return e
}

// failure is the error of a command that failed by itself.
func (a *attempt) failure() agentstatus.TaskError {
	out, err := tail(a.ended.Stdout.Text), tail(a.ended.Stderr.Text)
	e := agentstatus.TaskError{Code: codeExecution, Severity: severityError, Message: a.endWords()}
	if a.plan.kind == typeValidate {
		e.Code, e.Severity = codeValidation, severityFatal
	}
	find := finder{dirs: []string{a.plan.dir, a.paths.project}, owns: a.paths.allows}
	if a.ended.Signal == "" {
		switch c, ok := conflict(err + "\n" + out); {
		case ok:
			e.Code, e.Severity, e.Message = codeConflict, severityFatal, c.words
			e.File, _ = find.file(c.file)
			return e
		case full(err + "\n" + out):
			e.Code, e.Severity = codeDiskFull, severityError
			return e
		}
		if words := limited(err + "\n" + out); words != "" {
			e.Code, e.Severity, e.Message = codeLimited, severityWarning, words
			return e
		}
	}
	var ok bool
	if e.File, e.Line, ok = find.inOutput(err); !ok {
		e.File, e.Line, _ = find.inOutput(out)
	}
	return e
}

// endWords says how the command ended, with its last line of output if capture is on.
func (a *attempt) endWords() string {
	e := &a.ended
	words := fmt.Sprintf("%s ended with exit code %d", a.plan.name, e.Code)
	if e.Signal != "" {
		words = fmt.Sprintf("%s was ended by %s", a.plan.name, e.Signal)
		if e.Signal == "SIGKILL" {
			words += ", perhaps by the kernel for want of memory"
		}
	}
	last := lastLine(e.Stderr.Text)
	if last == "" {
		last = lastLine(e.Stdout.Text)
	}
	if a.plan.capture && last != "" {
		words += ": " + last
	}
	return line(words, longestMessage)
}

// summary describes the outcome in one sentence.
func (a *attempt) summary(r agentstatus.Result) string {
	e := &a.ended
	var words string
	switch {
	case len(r.Errors) > 0:
		words = r.Errors[0].Message
	case a.plan.reports && firstLine(e.Stdout.Text) != "":
		words = firstLine(e.Stdout.Text)
	default:
		words = fmt.Sprintf("%s completed in %s", a.plan.name, span(e.End.Sub(e.Start)))
	}
	if e.Survivors > 0 && !e.TimedOut && !e.Stopped {
		words += fmt.Sprintf(" (%d processes that it left behind were ended)", e.Survivors)
	}
	return line(words, longestSummary)
}

// span formats a duration for people.
func span(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f min", d.Minutes())
}
