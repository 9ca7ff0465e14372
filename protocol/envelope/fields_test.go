package envelope

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/livhana/steward/protocol"
)

// Each field that a type of message must have is named when it is missing, and a deployer's name changes nothing.
func TestCheckMessage(t *testing.T) {
	review := complete("t", "SECURITY_AUDITOR", true).with(fields{"approval_status": "APPROVED",
		"output":     fields{"critical_issues": []any{}, "high_issues": []any{}, "medium_issues": []any{}, "low_issues": []any{}, "blocking_deployment": false},
		"validation": fields{"security_passed": true, "production_readiness_passed": true, "scalability_passed": true, "all_passed": true}})
	for whole, required := range map[string]string{
		assign("t", "DEPLOYMENT").String():   "message_type task_id from_agent to_agent timestamp task_name requirements acceptance_criteria",
		ack("t", "X").String():               "message_type task_id from_agent timestamp status understood",
		complete("t", "X", true).String():    "message_type task_id from_agent timestamp status output validation",
		review.String():                      "message_type task_id from_agent timestamp status output validation",
		reject("t").String():                 "message_type task_id from_agent to_agent timestamp reason issues action_required",
		escalate("t", "X", "human").String(): "message_type task_id from_agent timestamp blocker_type description",
		resolve("t").String():                "message_type task_id from_agent to_agent timestamp decision resume_task",
	} {
		f := decodeFields(t, whole).with(fields{"timestamp": "2026-01-02T03:04:05Z"})
		if err := CheckMessage([]byte(f.String())); err != nil {
			t.Errorf("%s: %v", f, err)
		}
		for key := range f {
			less := maps.Clone(f)
			delete(less, key)
			var invalid *protocol.InvalidError
			err := CheckMessage([]byte(less.String()))
			if in(required, key) != (errors.As(err, &invalid) && strings.Contains(err.Error(), key)) {
				t.Errorf("%v without %s: %v", f["message_type"], key, err)
			}
		}
	}
	for _, bad := range []string{`{"message_type": "APPROVAL", "task_id": "t", "from_agent": "X", "timestamp": "2026-01-02T03:04:05Z"}`, `{`, `[]`, `{}`} {
		if err := CheckMessage([]byte(bad)); err == nil {
			t.Errorf("%s passes", bad)
		}
	}
}

func decodeFields(t *testing.T, text string) (f fields) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		t.Fatal(err)
	}
	return f
}
