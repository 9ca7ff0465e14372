package escalate

import (
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status/words"
)

// TestWhoCancelled checks that a retry cancelled by steward is not attributed to the operator.
func TestWhoCancelled(t *testing.T) {
	task := protocol.Task{Request: protocol.Request{ID: "t"}, Record: protocol.Record{Cancelled: true, CancelReason: protocol.ReasonSuperseded, CancelWhy: "a newer request asks for the same"},
		Outcome: &protocol.Outcome{Status: "failed"}}
	if r := rules.Judge(task, "agentstatus", time.Now(), rules.RetryConfig{}); r.Reason != protocol.ReasonSuperseded || !strings.Contains(words.Sentence(r.Cause, time.Now()), "a newer request asks for the same") {
		t.Errorf("%s: %s", r.Reason, r.Phrase)
	}
	task.CancelReason = protocol.ReasonOperator
	if r := rules.Judge(task, "agentstatus", time.Now(), rules.RetryConfig{}); r.Reason != protocol.ReasonOperator || r.Phrase != protocol.PhraseEndedByUser {
		t.Errorf("%s: %s", r.Reason, r.Phrase)
	}
}
