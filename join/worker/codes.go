package worker

import (
	"fmt"
	"math"
	"time"

	"github.com/livhana/steward/join/task"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/status/terminal"
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

// The most characters of texts in a result.
const (
	longestMessage = 1000
	longestSummary = 500
)

// line reduces a text to one line of at most n characters, safe for a terminal.
func line(text string, n int) string { return terminal.Fit(terminal.Clean(text), n) }

func newError(code, severity, format string, args ...any) agentstatus.TaskError {
	return agentstatus.TaskError{Code: code, Severity: severity, Message: line(fmt.Sprintf(format, args...), longestMessage)}
}

// withError is a result with a single error.
func withError(status string, e agentstatus.TaskError) agentstatus.Result {
	return agentstatus.Result{Status: status, Errors: []agentstatus.TaskError{e}, Body: agentstatus.ResultBody{Summary: e.Message}}
}

// severityOf is the severity of an error code: of the document, or of steward's own.
func severityOf(code string) string {
	if code == codeLimited {
		return severityWarning
	}
	return task.Severity(code)
}

// duration converts seconds, capped at 1e9 s (some 30 years).
func duration(seconds float64) time.Duration {
	return time.Duration(min(seconds, 1e9) * float64(time.Second))
}

// seconds rounds to milliseconds.
func seconds(d time.Duration) float64 { return math.Round(d.Seconds()*1000) / 1000 }

// span formats a duration for people.
func span(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return task.Span(d)
}
