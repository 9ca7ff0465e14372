package mailbox

import (
	"errors"
	"strings"
	"testing"

	"github.com/livhana/steward/protocol"
)

// The document's two messages, and every way to break them.
func TestCheckMessage(t *testing.T) {
	const assignment = `{"type": "task_assignment", "taskId": "task-001", "platform": "web", "title": "T", "instructions": "I", "filesToCreate": ["a.ts"],
 "architecture": "MVC", "apiEndpoints": ["GET /a"], "timestamp": "2024-01-01T00:00:00.000Z"}`
	const report = `{"type": "completion_report", "taskId": "task-001", "platform": "web", "status": "awaiting_review", "summary": "S", "filesCreated": [],
 "filesModified": [], "buildResult": {"status": "success", "command": "make", "errors": 0, "output": ""}, "timestamp": "2024-01-01T00:00:00.000Z"}`
	for _, c := range [][4]string{
		{assignment}, {report}, {strings.NewReplacer("success", "not_verified", `"command": "make", `, "").Replace(report)},
		{assignment, `"task_assignment"`, `"task"`, "type"}, {assignment, `task-001`, `../x`, "taskId"}, {assignment, `"web"`, `"amiga"`, "platform"},
		{assignment, `"title"`, `"name"`, "title"}, {assignment, `"I"`, `" "`, "instructions"}, {assignment, `["a.ts"]`, `"a.ts"`, "filesToCreate"},
		{assignment, `"architecture"`, `"arch"`, "architecture"}, {assignment, `2024-01-01T00:00:00.000Z`, `now`, "timestamp"},
		{report, `awaiting_review`, `completed`, "status"}, {report, `"S"`, `null`, "summary"}, {report, `"filesCreated"`, `"files"`, "filesCreated"},
		{report, `"filesModified": []`, `"filesModified": {}`, "filesModified"}, {report, `"buildResult"`, `"build"`, "buildResult"},
		{report, `success`, `green`, "buildResult.status"}, {report, `"command": "make", `, ``, "buildResult.command"}, {report, `"errors": 0`, `"errors": "0"`, "buildResult.errors"},
		{report, `success`, `failed`, "buildResult.output"}, {report, `{"type"`, `"type"`, ""},
	} {
		doc := strings.Replace(c[0], c[1], c[2], 1)
		err := CheckMessage([]byte(doc))
		var invalid *protocol.InvalidError
		if c[1] == "" && err != nil || c[1] != "" && (!errors.As(err, &invalid) || len(invalid.Problems) != 1 || !strings.HasPrefix(invalid.Problems[0], c[3])) {
			t.Errorf("%s: %v", doc, err)
		}
	}
}
