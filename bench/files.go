package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// object is a JSON object.
type object = map[string]any

// project plays the agents of protocol 000 in one folder.
type project struct{ dir string }

func (p *project) path(rel string) string { return filepath.Join(p.dir, "tmp/agent_status", rel) }

func (p *project) task(id, kind string) string {
	return p.path("codex_tasks/task_" + id + "." + kind + ".json")
}

// put writes a file as a careful client does: beside it, then by rename. It gives the time just before the rename.
func put(file string, doc any) (time.Time, error) {
	data, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return time.Time{}, err
	}
	temp := filepath.Join(filepath.Dir(file), "."+filepath.Base(file)+".tmp")
	if err := os.WriteFile(temp, data, 0o644); err != nil {
		return time.Time{}, err
	}
	at := time.Now()
	return at, os.Rename(temp, file)
}

func taskID(n int) string { return fmt.Sprintf("%08x-0000-4000-8000-%012x", n, n) }

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func request(id string, throttle float64, created time.Time) object {
	return object{"task_id": id, "request_type": "execute", "priority": "medium", "source_agent": "livhana-layer1.1",
		"target_agent": "codex-cursor", "created_at": stamp(created), "timeout_seconds": 300, "throttle_capacity": throttle,
		"context": object{"jesse_directive": "Measure it", "session_id": taskID(1), "voice_mode_active": false, "related_tasks": []string{}},
		"payload": object{"task_type": "execute", "parameters": object{"script_path": "/x/" + id + ".sh"}, "files_to_modify": []string{},
			"files_to_read": []string{}, "expected_artifacts": []string{}},
		"coordination": object{"blocking": false, "progress_updates_required": false, "update_interval_seconds": 30}}
}

// result is a finished task; an error code makes it a failed one.
func result(id, code, severity string, at time.Time) object {
	status, errors := "completed", []object{}
	if code != "" {
		status, errors = "failed", []object{{"code": code, "message": "as measured", "severity": severity}}
	}
	return object{"task_id": id, "status": status, "source_agent": "codex-cursor", "completed_at": stamp(at), "execution_time_seconds": 1,
		"capacity_used": 0.1, "result": object{"success": code == "", "artifacts_created": []string{}, "files_modified": []string{},
			"summary": "measured", "metrics": object{}}, "errors": errors, "next_actions": []any{}}
}

func heartbeat(agent string, free float64) object {
	return object{"agent_name": agent, "status": "idle", "last_heartbeat": stamp(time.Now()), "uptime_seconds": 1, "current_capacity": free,
		"active_tasks": []string{}, "health": object{"cpu_ok": true, "memory_ok": true, "disk_ok": true, "last_error": nil}}
}

// beating keeps codex-cursor's heartbeat fresh until the returned func is called.
func (p *project) beating(free float64) (stop func(), err error) {
	file := p.path("codex_status/heartbeat.json")
	if _, err := put(file, heartbeat("codex-cursor", free)); err != nil {
		return nil, err
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(5 * time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				return
			case <-ticker.C:
				_, _ = put(file, heartbeat("codex-cursor", free))
			}
		}
	}()
	return func() { close(quit); <-done }, nil
}

func exists(file string) bool {
	_, err := os.Lstat(file)
	return err == nil
}
