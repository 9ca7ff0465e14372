package worker

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/livhana/steward/join/run"
	"github.com/livhana/steward/join/task"
	"github.com/livhana/steward/protocol/agentstatus"
)

// faultBroken is the Fault of a run whose shim ended without a report.
const faultBroken = "broken"

// attempt is a finished run with everything needed to judge it.
type attempt struct {
	plan   plan
	ended  run.Ended
	asked  error // why the run was to end; nil: it was not asked to
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
		r.Errors = []agentstatus.TaskError{newError(codeTimeout, severityError,
			"%s was stopped after its limit of %s, with all that it had started", a.plan.name, span(a.plan.limit))}
	case a.plan.reports && a.reported(&r):
	case e.Code == 0 && e.Signal == "":
		r.Status = statusCompleted
	default:
		r.Errors = []agentstatus.TaskError{a.failure()}
	}
	r.Body.Summary = cmp.Or(r.Body.Summary, a.summary(r))
	r.Body.Success = r.Status == statusCompleted
	if a.plan.capture {
		r.Body.Stdout, r.Body.Stderr = a.kept(e.Stdout.Text), a.kept(e.Stderr.Text)
	}
	if n := e.Unended; n > 0 {
		r.Errors = append(r.Errors, newError(codeLeft, severityWarning, "%d of the processes that it started could not be ended", n))
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
	case errDisowned:
		return newError(codeStopped, severityError, "%s was stopped: its claim was taken away", a.plan.name)
	case errCancelled:
		return newError(codeCancelled, severityError, "%s was stopped: the task was cancelled", a.plan.name)
	}
	return newError(codeStopped, severityError, "%s was stopped before its end: its worker had to end. What it had done by then stays done", a.plan.name)
}

// fault says why the command could not be started.
func (a *attempt) fault() agentstatus.TaskError {
	if a.ended.Fault == faultBroken {
		return newError(codeExecution, severityError, "it is not known how %s ended: %s", a.plan.name, a.ended.Problem)
	}
	program := a.plan.argv[0]
	e := startError(&run.Fault{Kind: a.ended.Fault, Problem: a.plan.name + " could not be started: " + a.ended.Problem}, program)
	switch kind := a.ended.Fault; {
	case kind == run.Format:
		e.Message = a.plan.name + " could not be started: it is no program, and its first line names none; begin it with a line like #!/bin/sh"
		e.Line = 1
	case kind == run.NotFound && a.plan.kind != task.Execute:
		e.Message += fmt.Sprintf(" (see %s under [worker.commands])", a.plan.name)
	case kind == run.NotFound && run.Runnable(program) == nil: // its first line names a missing interpreter
		e.Line = 1
	}
	return e
}

// failure is the error of a command that failed by itself.
func (a *attempt) failure() agentstatus.TaskError {
	out, err := tail(a.ended.Stdout.Text), tail(a.ended.Stderr.Text)
	e := newError(codeExecution, severityError, "%s", a.endWords())
	if a.plan.kind == task.Validate {
		e.Code, e.Severity = codeValidation, severityFatal
	}
	find := finder{dirs: []string{a.plan.dir, a.paths.project}, owns: a.paths.allows}
	if both := err + "\n" + out; a.ended.Signal == "" {
		if c, ok := conflict(both); ok {
			e.Code, e.Severity, e.Message = codeConflict, severityFatal, c.words
			e.File, _ = find.file(c.file)
			return e
		}
		if diskFull().MatchString(both) {
			e.Code, e.Severity = codeDiskFull, severityError
			return e
		}
		if words := limited(both); words != "" {
			return newError(codeLimited, severityWarning, "%s", words)
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
			words += ", perhaps by the kernel because memory ran out"
		}
	}
	if last := cmp.Or(lastLine(e.Stderr.Text), lastLine(e.Stdout.Text)); a.plan.capture && last != "" {
		words += ": " + last
	}
	return words
}

// summary describes the outcome in one sentence.
func (a *attempt) summary(r agentstatus.Result) string {
	e := &a.ended
	words := fmt.Sprintf("%s completed in %s", a.plan.name, span(e.End.Sub(e.Start)))
	if len(r.Errors) > 0 {
		words = r.Errors[0].Message
	} else if a.plan.reports {
		words = cmp.Or(firstLine(e.Stdout.Text), words)
	}
	if e.Survivors > 0 && !e.TimedOut && !e.Stopped {
		words += fmt.Sprintf(" (%d processes that it left behind were ended)", e.Survivors)
	}
	return line(words, longestSummary)
}

// measure adds what the run consumed (protocol 000: capacity_used, result.metrics) on a machine with so many processors
// and bytes of memory; 0 is unknown.
func (a *attempt) measure(r *agentstatus.Result, cores int, memory uint64) {
	e := &a.ended
	wall, cpu := max(e.End.Sub(e.Start), 0), e.User+e.System
	r.Seconds = seconds(wall)
	var share float64 // of the processors or of the memory, whichever is larger
	if wall > 0 && cores > 0 {
		share = cpu.Seconds() / (wall.Seconds() * float64(cores))
	}
	if memory > 0 {
		share = max(share, float64(e.MaxRSS)/float64(memory))
	}
	r.Capacity = math.Round(min(max(share, 0), 1)*1000) / 1000
	m := r.Body.Metrics
	m["exit_code"], m["survivors"], m["output_bytes"] = e.Code, e.Survivors, e.Stdout.Bytes+e.Stderr.Bytes
	m["wall_seconds"], m["cpu_seconds"], m["max_rss_mb"] = seconds(wall), seconds(cpu), math.Round(float64(e.MaxRSS)/(1<<20)*10)/10
	if e.Signal != "" {
		m["signal"] = e.Signal
	}
	if e.Confined {
		m["confined"] = true
	}
	if a.plan.dry {
		m["dry_run"] = true
	}
}
