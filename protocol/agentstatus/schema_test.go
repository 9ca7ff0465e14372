package agentstatus

import (
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

const progressText = `{"task_id": "0b2f6a0e-6d2c-4a53-9d0b-5a54a3a3c001", "progress_percent": 40, "current_step": "deploy", "steps_completed": 2, "steps_total": 5,
 "last_update": "2026-01-02T03:04:05Z", "estimated_completion": "2026-01-02T03:09:05Z"}
`

const lineText = `{"timestamp": "2026-01-02T03:04:05Z", "event_type": "handoff", "task_id": null, "source_agent": "a", "target_agent": null, "message": "m", "metadata": {}}`

func issuesOf(t testing.TB, kind, text string) []protocol.Finding {
	t.Helper()
	o, err := jsonfile.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v\n%s", kind, err, text)
	}
	switch kind {
	case "request":
		return decodeRequest(o).issues
	case "result":
		return decodeResult(o).issues
	case "progress":
		return decodeProgress(o).issues
	case "heartbeat":
		return decodeBeat(o).issues
	case "relative":
		return decodeStatusFile(o).issues
	case "registry":
		return decodeRegistry(o).issues
	}
	var issues folder.Findings
	issues.Read(o, &logEntry{})
	return issues
}

// Each rule of the schemas of protocol 000, broken once, is a finding that names the field. A document that follows
// the schemas has no finding.
func TestEveryRuleOfTheSchemas(t *testing.T) {
	registryOK := strings.Replace(registryText, `"x_note"`, `"x"`, 1)
	base := map[string]string{"request": requestText, "result": resultText, "progress": progressText, "heartbeat": strings.ReplaceAll(beatText("a"), "{{now}}", "2026-01-02T03:04:05Z"),
		"registry": registryOK, "line": lineText, "relative": `{"agent":"x","updated_at":"2026-01-02T03:04:05+0000"}`}
	for kind, text := range base {
		if got := issuesOf(t, kind, text); len(got) > 0 {
			t.Errorf("%s as the document says: %+v", kind, got)
		}
	}
	for _, c := range []struct{ kind, old, new, field string }{
		{"request", `"task_id": "0b2f6a0e-6d2c-4a53-9d0b-5a54a3a3c001"`, `"task_id": "7"`, "task_id"},
		{"request", `"task_id": "0b2f6a0e-6d2c-4a53-9d0b-5a54a3a3c001",`, ``, "task_id"},
		{"request", `"request_type": "deploy"`, `"request_type": "dance"`, "request_type"},
		{"request", `"request_type": "deploy"`, `"request_type": null`, "request_type"},
		{"request", `"priority": "high"`, `"priority": "urgent"`, "priority"},
		{"request", `"source_agent": "livhana-layer1.1", `, ``, "source_agent"},
		{"request", `"target_agent": "codex-cursor"`, `"target_agent": 3`, "target_agent"},
		{"request", `"2026-01-02T03:04:05Z"`, `"yesterday"`, "created_at"},
		{"request", `"timeout_seconds": 300`, `"timeout_seconds": 4000`, "timeout_seconds"},
		{"request", `"timeout_seconds": 300`, `"timeout_seconds": 0`, "timeout_seconds"},
		{"request", `"timeout_seconds": 300`, `"timeout_seconds": "300"`, "timeout_seconds"},
		{"request", `0.80`, `1.2`, "throttle_capacity"},
		{"request", `"context": {"jesse_directive": "ship it", `, `"context": {`, "context.jesse_directive"},
		{"request", `"7d9a44d4-91a5-4f3c-8d42-1a2b3c4d5e6f"`, `"s1"`, "context.session_id"},
		{"request", `"voice_mode_active": true`, `"voice_mode_active": "yes"`, "context.voice_mode_active"},
		{"request", `"related_tasks": []`, `"related_tasks": [7]`, "context.related_tasks[0]"},
		{"request", `"related_tasks": []`, `"related_tasks": {}`, "context.related_tasks"},
		{"request", `"context"`, `"kontext"`, "context"},
		{"request", `{"task_type": "deploy", `, `{`, "payload.task_type"},
		{"request", `"parameters"`, `"parameter"`, "payload.parameters"},
		{"request", `"payload": {`, `"payload": {"files_to_modify": ["a.go"], `, "payload.files_to_modify[0]"},
		{"request", `"payload": {`, `"payload": {"files_to_read": "/a", `, "payload.files_to_read"},
		{"request", `"payload": {`, `"payload": {"expected_artifacts": [null], `, "payload.expected_artifacts[0]"},
		{"request", `"payload"`, `"load"`, "payload"},
		{"request", `"service_name": "voice-service", `, ``, "payload.parameters.service_name"},
		{"request", `"environment": "production"`, `"environment": "production", "dry_run": 1`, "payload.parameters.dry_run"},
		{"request", `"blocking": true, `, ``, "coordination.blocking"},
		{"request", `"progress_updates_required": true`, `"progress_updates_required": null`, "coordination.progress_updates_required"},
		{"request", `"update_interval_seconds": 30`, `"update_interval_seconds": -1`, "coordination.update_interval_seconds"},
		{"request", `"coordination"`, `"co"`, "coordination"},
		{"result", `"task_id": "0b2f6a0e-6d2c-4a53-9d0b-5a54a3a3c001", `, ``, "task_id"},
		{"result", `"failed"`, `"broken"`, "status"},
		{"result", `"source_agent": "codex-cursor",`, ``, "source_agent"},
		{"result", `"2026-01-02T03:09:05Z"`, `true`, "completed_at"},
		{"result", `"execution_time_seconds": 12`, `"execution_time_seconds": -1`, "execution_time_seconds"},
		{"result", `"capacity_used": 0.4`, `"capacity_used": 40`, "capacity_used"},
		{"result", `"capacity_used": 0.4,`, ``, "capacity_used"},
		{"result", `"success": false`, `"success": true`, "result.success"},
		{"result", `"artifacts_created": []`, `"artifacts_created": ["x"]`, "result.artifacts_created[0]"},
		{"result", `"files_modified": [], `, ``, "result.files_modified"},
		{"result", `"summary": "no file"`, `"summary": []`, "result.summary"},
		{"result", `"metrics": {}`, `"metrics": 0`, "result.metrics"},
		{"result", `"result": {`, `"results": {`, "result"},
		{"result", `"code": "FILE_NOT_FOUND", `, ``, "errors[0].code"},
		{"result", `"message": "go.mod is missing"`, `"message": 1`, "errors[0].message"},
		{"result", `"severity": "error"`, `"severity": "bad"`, "errors[0].severity"},
		{"result", `"file": "go.mod"`, `"file": 1`, "errors[0].file"},
		{"result", `"line": 3`, `"line": "3"`, "errors[0].line"},
		{"result", `"errors"`, `"error"`, "errors"},
		{"result", `"errors": [`, `"errors": [1, `, "errors[0]"},
		{"result", `"next_actions": []`, `"next_actions": [{"priority": "low", "requires_jesse": true}]`, "next_actions[0].action"},
		{"result", `"next_actions": []`, `"next_actions": [{"action": "a", "priority": 1, "requires_jesse": true}]`, "next_actions[0].priority"},
		{"result", `"next_actions": []`, `"next_actions": [{"action": "a", "priority": "low"}]`, "next_actions[0].requires_jesse"},
		{"result", `"next_actions"`, `"next"`, "next_actions"},
		{"progress", `"task_id": "0b2f6a0e-6d2c-4a53-9d0b-5a54a3a3c001", `, ``, "task_id"},
		{"progress", `40`, `140`, "progress_percent"},
		{"progress", `"current_step": "deploy", `, ``, "current_step"},
		{"progress", `"steps_completed": 2, `, ``, "steps_completed"},
		{"progress", `"steps_total": 5`, `"steps_total": "5"`, "steps_total"},
		{"progress", `"last_update": "2026-01-02T03:04:05Z"`, `"last_update": ""`, "last_update"},
		{"progress", `"estimated_completion"`, `"eta"`, "estimated_completion"},
		{"heartbeat", `"agent_name": "a", `, ``, "agent_name"},
		{"heartbeat", `"idle"`, `"sleepy"`, "status"},
		{"heartbeat", `"last_heartbeat"`, `"heartbeat"`, "last_heartbeat"},
		{"heartbeat", `"uptime_seconds": 5`, `"uptime_seconds": null`, "uptime_seconds"},
		{"heartbeat", `0.6`, `60`, "current_capacity"},
		{"heartbeat", `"active_tasks": []`, `"active_tasks": [1]`, "active_tasks[0]"},
		{"heartbeat", `"active_tasks"`, `"tasks"`, "active_tasks"},
		{"heartbeat", `"cpu_ok": true, `, ``, "health.cpu_ok"},
		{"heartbeat", `"memory_ok": true`, `"memory_ok": 1`, "health.memory_ok"},
		{"heartbeat", `"disk_ok": true, `, ``, "health.disk_ok"},
		{"heartbeat", `, "last_error": null`, ``, "health.last_error"},
		{"heartbeat", `"disk_ok": true`, `"disk_ok": false`, "health"},
		{"registry", `"updated_at"`, `"at"`, "updated_at"},
		{"registry", `"agents"`, `"people"`, "agents"},
		{"registry", `"type": "executor", `, ``, "agents.codex-cursor.type"},
		{"registry", `"environment": "cursor-ide", `, ``, "agents.codex-cursor.environment"},
		{"registry", `"pid": null, `, ``, "agents.codex-cursor.pid"},
		{"registry", `"pid": null`, `"pid": "12"`, "agents.codex-cursor.pid"},
		{"registry", `"pid": null`, `"pid": -1`, "agents.codex-cursor.pid"},
		{"registry", `"status": "active"`, `"status": "lost"`, "agents.codex-cursor.status"},
		{"registry", `"last_seen": "2026-01-02T03:04:05Z"`, `"last_seen": "now"`, "agents.codex-cursor.last_seen"},
		{"registry", `["code_execution"]`, `"code_execution"`, "agents.codex-cursor.capabilities"},
		{"registry", `"codex-cursor": {`, `"codex-cursor": 1, "y": {`, "agents.codex-cursor"},
		{"line", `"timestamp": "2026-01-02T03:04:05Z", `, ``, "timestamp"},
		{"line", `"event_type": "handoff", `, ``, "event_type"},
		{"line", `"task_id": null`, `"task_id": 7`, "task_id"},
		{"line", `"source_agent": "a", `, ``, "source_agent"},
		{"line", `"target_agent": null`, `"target_agent": {}`, "target_agent"},
		{"line", `"message": "m", `, ``, "message"},
		{"line", `{}`, `[]`, "metadata"},
		{"relative", `"x"`, `"x", "current_capacity": "all"`, "current_capacity"},
	} {
		text := strings.Replace(base[c.kind], c.old, c.new, 1)
		if text == base[c.kind] {
			t.Errorf("%s: %q is not in it", c.kind, c.old)
			continue
		}
		got := issuesOf(t, c.kind, text)
		named := false
		for _, i := range got {
			named = named || i.Field == c.field
			if i.Text == "" || i.Code == "" || (i.Code == "schema" && !strings.HasPrefix(i.Text, i.Field)) {
				t.Errorf("%s: %+v", c.kind, i)
			}
		}
		if !named {
			t.Errorf("%s with %s for %s: want a finding for %s, got %+v", c.kind, c.new, c.old, c.field, got)
		}
	}
	// An unknown event is no finding; an unknown enum value is an info finding.
	if got := issuesOf(t, "line", strings.Replace(lineText, "handoff", "session_start", 1)); len(got) > 0 {
		t.Errorf("unknown event: %+v", got)
	}
	if got := issuesOf(t, "request", strings.Replace(requestText, `"high"`, `"urgent"`, 1)); len(got) != 1 || got[0].Severity != protocol.Info {
		t.Errorf("unknown word: %+v", got)
	}
}

// Documents as real clients write them are understood.
func TestLenientReading(t *testing.T) {
	want := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, stamp := range []string{`"2026-01-02T03:04:05Z"`, `"2026-01-02T03:04:05.000Z"`, `"2026-01-02T03:04:05.000000Z"`, `"2026-01-02T03:04:05+0000"`, `1767323045`, `1767323045000`} {
		for _, key := range []string{"last_heartbeat", "heartbeat", "updated_at"} {
			o, _ := jsonfile.Parse([]byte(`{"agent_name":"a","` + key + `":` + stamp + `}`))
			if b := decodeBeat(o); !b.stated.At.Equal(want) {
				t.Errorf("%s %s is %v", key, stamp, b.stated.At)
			}
		}
		o, _ := jsonfile.Parse([]byte(`{"agents":{"a":{"status":"idle","last_seen":` + stamp + `,"pid":" 42 "}}}`))
		if m := decodeRegistry(o).agents["a"]; !m.seen.Equal(want) || m.pid != 42 {
			t.Errorf("registry %s: %+v", stamp, m)
		}
	}
	o, _ := jsonfile.Parse([]byte(`{"status":"deferred","reason":"capacity_exceeded","retry_after_seconds":60}`))
	if r := decodeResult(o); r.RetryAfter != time.Minute || len(r.issues) > 0 {
		t.Errorf("the document's deferral: %+v", r)
	}
	for text, want := range map[string]string{`{"task_id":"x"}`: "x", `{"current_task":"x"}`: "x", `{"current_task":{"id":"x"}}`: "x", `{"current_task":null}`: "", `{}`: ""} {
		o, _ := jsonfile.Parse([]byte(text))
		if got := decodeCurrent(o).task; got != want {
			t.Errorf("%s: %q", text, got)
		}
	}
	o, _ = jsonfile.Parse([]byte(strings.Replace(requestText, `"environment"`, `"dry_run": true, "environment"`, 1)))
	if r := decodeRequest(o); r.title != "Task deploy voice-service (dry run)" {
		t.Errorf("title %q", r.title)
	}
}

// Times in the future count as now; a registration in the future does not count.
func TestStampsFromTheFuture(t *testing.T) {
	future := "2099-01-01T00:00:00Z"
	s := newSite(t, file(Base+"/codex_status/heartbeat.json", strings.ReplaceAll(beatText(codex), "{{now}}", future))+
		file(Base+"/"+registry, strings.ReplaceAll(registryText, "2026-01-02T03:04:05Z", future))+
		file(requestPath, strings.ReplaceAll(requestText, "2026-01-02T03:04:05Z", future))+file(resultPath, strings.ReplaceAll(resultText, "2026-01-02T03:09:05Z", future)))
	snap := s.look()
	k := only(t, snap)
	for what, at := range map[string]time.Time{"created": k.Created, "appeared": k.Appeared, "ended": k.Outcome.At, "result appeared": k.Outcome.Appeared, "beat": snap.Agents[0].Beat.At} {
		if at.IsZero() || at.After(s.Now) {
			t.Errorf("%s at %v", what, at)
		}
	}
	for _, a := range snap.Agents {
		if !a.Registered.IsZero() {
			t.Errorf("%s registered at %v", a.Name, a.Registered)
		}
	}
}

func TestFindingsReachTheSnapshot(t *testing.T) {
	s := newSite(t, file(requestPath, strings.Replace(requestText, "300", "4000", 1))+
		file(resultPath, strings.NewReplacer("failed", "completed", `"success": false`, `"success": true`, `"capacity_used": 0.4`, `"capacity_used": 4`).Replace(resultText))+
		file(progressPath(), strings.Replace(progressText, "40", "400", 1))+file(Base+"/codex_status/heartbeat.json", `{"agent_name":"codex-cursor"}`+"\n")+
		file(Base+"/"+registry, strings.Replace(registryText, `"type": "executor", `, "", 1))+
		file(logPath, lineText+"\n"+`{"event_type":"x"}`+"\nnot json\n\n"+lineText))
	s.Write(requestPath, strings.Replace(s.Read(requestPath), `"payload": {`, `"payload": {"expected_artifacts": ["dist/app", "`+s.Dir+`/dist/b", "/etc/none", "../x", "tmp"], `, 1))
	snap := s.look()
	for id, fields := range map[string][]string{
		taskID: {"timeout_seconds", "capacity_used", "progress_percent", "payload.expected_artifacts"},
		codex:  {"last_heartbeat", "health"}, registry: {"agents.codex-cursor.type"}, logFile: {"timestamp", "source_agent", "message", ""},
	} {
		got := found(snap, id)
		for _, f := range fields {
			if _, ok := got[f]; !ok {
				t.Errorf("%s: no finding for %q, but for %v", id, f, got)
			}
		}
	}
	missing := 0
	for _, f := range snap.Findings {
		if f.Code == "artifact" {
			missing++
			if f.Severity != protocol.Medium {
				t.Errorf("%+v", f)
			}
		}
	}
	if missing != 2 {
		t.Errorf("%d artifacts are missing, want 2", missing)
	}
}
