package task

import (
	"math"
	"slices"

	"github.com/livhana/steward/protocol/agentstatus"
)

// Exit codes of a wait that do not come from the task's command.
const (
	ExitFailed    = 1
	ExitTimeout   = 124 // as timeout(1)
	ExitCancelled = 130 // as a shell after ^C
)

// ExitCode is the exit code of `steward task wait` for an ended task: 0 completed, the command's own exit code when it
// failed with one, 124 for a timeout, 130 when it was cancelled, else 1.
func ExitCode(d agentstatus.Detail) int {
	r := d.Result
	switch {
	case r != nil && r.Status == "completed":
		return 0
	case d.Cancelled:
		return ExitCancelled
	case r == nil || d.Buried:
		return ExitFailed
	case r.Status == "timeout" || slices.ContainsFunc(r.Errors, func(e agentstatus.TaskError) bool { return e.Code == "TIMEOUT" }):
		return ExitTimeout
	case r.Status == "failed":
		return ownCode(r.Body.Metrics["exit_code"])
	}
	return ExitFailed
}

// ownCode converts a metric to an exit code: an integer from 1 to 255, else 1.
func ownCode(v any) int {
	f, ok := number(v)
	if !ok || f != math.Trunc(f) || f < 1 || f > 255 {
		return ExitFailed
	}
	return int(f)
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case int:
		return float64(v), true
	case int64:
		return float64(v), true
	}
	return 0, false
}
