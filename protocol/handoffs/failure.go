package handoffs

import (
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// The two statuses without a folder. The document lists "rejected"; "failed" occurs in practice.
const (
	statusRejected = "rejected"
	statusFailed   = "failed"
)

// The codes of a failure to which its agent gives no code. The retry table has a row for each.
// See docs/decisions.md, "A failed handoff is retried only when its agent calls the error recoverable".
const (
	codeRecoverable = "RECOVERABLE" // its agent calls it recoverable
	codeFailed      = "EXECUTION_FAILED"
)

// stopped reports whether the agent gave the handoff back unfinished.
func (m *message) stopped() bool { return m.status == statusRejected || m.status == statusFailed }

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
