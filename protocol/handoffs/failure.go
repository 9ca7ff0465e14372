package handoffs

import (
	"strings"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// The statuses without a folder. The document lists "rejected"; "failed" and "cancelled" occur in practice.
const (
	statusRejected  = "rejected"
	statusFailed    = "failed"
	statusCancelled = "cancelled"
)

// The codes of a failure to which its agent gives no code. The retry table has a row for each.
// See docs/decisions.md, "A failed handoff is retried only when its agent calls the error recoverable".
const (
	codeRecoverable = "RECOVERABLE" // its agent calls it recoverable
	codeFailed      = "EXECUTION_FAILED"
)

// failureOf returns the first error that a message reports: a text, an object, or a list of either.
func failureOf(fields ...jsonfile.Value) (f protocol.Failure) {
	for _, v := range fields {
		if list, ok := v.Array(); ok.OK() && len(list) > 0 {
			v = list[0]
		}
		if o, ok := v.Object(); ok.OK() {
			f = protocol.Failure{Code: text(o, "code", 60), Severity: text(o, "severity", 20), Message: first(o, maxText, "message", "details", "reason")}
			again, _ := o.Bool("recoverable")
			fatal, _ := o.Bool("fatal")
			if fatal {
				f.Severity = "fatal"
			}
			if again && f.Code == "" && f.Severity != "fatal" {
				f.Code = codeRecoverable
			}
		} else if reports(v) {
			f.Message = loose(v)
		}
		if f != (protocol.Failure{}) {
			return f
		}
	}
	return f
}

// reports returns whether an error field holds an error.
func reports(v jsonfile.Value) bool {
	switch v.Kind() {
	case "string":
		s, _ := v.Text()
		return strings.TrimSpace(s) != ""
	case "array":
		list, _ := v.Array()
		return len(list) > 0
	case "object":
		o, _ := v.Object()
		return len(o.Keys()) > 0
	case "boolean":
		b, _ := v.Bool()
		return b
	}
	return false
}

// loose formats a value of any kind as one line.
func loose(v jsonfile.Value) string {
	if s, ok := v.Text(); ok.OK() {
		return folder.Line(s, 1000)
	}
	if v.Kind() == "missing" || v.Kind() == "null" {
		return ""
	}
	return folder.Line(string(v.Raw()), 1000)
}
