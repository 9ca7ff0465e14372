package escalate

import (
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// TestWhoCancelled checks that a retry cancelled by steward is not attributed to the operator.
func TestWhoCancelled(t *testing.T) {
	task := protocol.Task{Request: protocol.Request{ID: "t"}, Record: protocol.Record{Cancelled: true, CancelReason: protocol.ReasonSuperseded, CancelWhy: "a newer request asks for the same"},
		Outcome: &protocol.Outcome{Status: "failed"}}
	if r := rules.Judge(task, "agentstatus", time.Now(), rules.RetryConfig{}); r.Reason != protocol.ReasonSuperseded || !strings.Contains(r.Why, "a newer request asks for the same") {
		t.Errorf("%s: %s", r.Reason, r.Why)
	}
	task.CancelReason = protocol.ReasonOperator
	if r := rules.Judge(task, "agentstatus", time.Now(), rules.RetryConfig{}); r.Reason != protocol.ReasonOperator || r.Why != "The operator has ended it." {
		t.Errorf("%s: %s", r.Reason, r.Why)
	}
}
