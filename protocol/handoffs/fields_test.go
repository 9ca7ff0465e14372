package handoffs

import (
	"errors"
	"strings"
	"testing"

	"github.com/livhana/steward/protocol"
)

// The document's message format, and every way to break it.
func TestCheckMessage(t *testing.T) {
	const sound = `{"schema_version": "1.0.0", "message_id": "7d4c2f1e-8a60-4b1d-9c55-2f8f0a6b1e01", "timestamp": "2026-01-02T03:04:05Z", "from": "planner",
 "to": "builder", "type": "task_handoff", "priority": "high", "payload": {}, "context": {"workflow": "feature", "spec": "specs/a.md", "iteration": 1}, "status": "pending"}`
	if err := CheckMessage([]byte(sound)); err != nil {
		t.Error(err)
	}
	for _, c := range [][3]string{
		{`"schema_version"`, `"version"`, "schema_version"}, {`"7d4c2f1e-8a60-4b1d-9c55-2f8f0a6b1e01"`, `"../x"`, "message_id"}, {`"message_id"`, `"id"`, "message_id"},
		{`2026-01-02T03:04:05Z`, `soon`, "timestamp"}, {`"planner"`, `" "`, "from"}, {`"builder"`, `7`, "to"}, {`task_handoff`, `chat`, "type"},
		{`"high"`, `"urgent"`, "priority"}, {`"payload": {}`, `"payload": "x"`, "payload"}, {`"context"`, `"about"`, "context"}, {`pending`, `new`, "status"}, {`{"schema`, `["schema`, ""},
	} {
		var invalid *protocol.InvalidError
		err := CheckMessage([]byte(strings.Replace(sound, c[0], c[1], 1)))
		if !errors.As(err, &invalid) || len(invalid.Problems) != 1 || !strings.HasPrefix(invalid.Problems[0], c[2]) {
			t.Errorf("%s for %s: %v", c[1], c[0], err)
		}
	}
}
