package demo

import (
	"context"
	"crypto/rand"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/protocol/jsonfile"
)

// conflictService is the service whose deployment ends in a git conflict.
const conflictService = "billing-service"

func demoTask(id, ext string) string {
	return path.Join(agentstatus.Base, "codex_tasks", "task_"+id+ext)
}

// put writes a document atomically, as a careful client does.
func put(root *jsonfile.Root, file string, doc any) {
	data, err := jsonfile.Encode(doc)
	if err != nil {
		panic(err) // the demo's own documents
	}
	late, _ := root.Replace(file, data, jsonfile.Any, jsonfile.Volatile)
	_ = late.Close()
}

func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// demoLivhana is the orchestrator.
type demoLivhana struct {
	stage *stage
	root  *jsonfile.Root
}

func (l *demoLivhana) submit(kind string, parameters map[string]any, updates bool) string {
	id := newUUID()
	put(l.root, demoTask(id, ".request.json"), map[string]any{
		"task_id": id, "request_type": kind, "priority": "high", "source_agent": "livhana-layer1.1", "target_agent": "codex-cursor",
		"created_at": jsonfile.FormatTime(time.Now()), "timeout_seconds": 300, "throttle_capacity": 0.8,
		"context":      map[string]any{"jesse_directive": "Show me what steward does", "session_id": newUUID(), "voice_mode_active": true, "related_tasks": []string{}},
		"payload":      map[string]any{"task_type": kind, "parameters": parameters, "files_to_modify": []string{}, "files_to_read": []string{}, "expected_artifacts": []string{}},
		"coordination": map[string]any{"blocking": true, "progress_updates_required": updates, "update_interval_seconds": 30},
	})
	l.stage.say("livhana", "writes task_%s….request.json (%s)", id[:8], kind)
	return id
}

// wait polls for the result, as the document's pseudo-code does, and reports progress to Jesse.
func (l *demoLivhana) wait(ctx context.Context, id string) (string, error) {
	told := ""
	for {
		if o, _, err := l.root.Load(demoTask(id, ".result.json"), 0); err == nil {
			status, _ := o.String("status")
			l.stage.say("livhana", "reads the result: %s", status)
			return status, nil
		}
		if o, _, err := l.root.Load(demoTask(id, ".progress.json"), 0); err == nil {
			percent, _ := o.Number("progress_percent")
			if line := fmt.Sprintf("Jesse, deployment %.0f%% complete.", percent); line != told {
				l.stage.say("livhana", "%s", line)
				told = line
			}
		}
		if err := l.stage.settle(ctx, 250*time.Millisecond); err != nil {
			return "", err
		}
	}
}

// notice reads the deferral notice of a held task.
func (l *demoLivhana) notice(id string) (why string, held bool) {
	o, _, err := l.root.Load(demoTask(id, ".deferred.json"), 0)
	if err != nil {
		return "", false
	}
	reason, _ := o.String("reason")
	text, _ := o.String("why")
	return reason + ": " + text, true
}

// demoCodex is the executor: it writes its heartbeat, names its task, and polls.
type demoCodex struct {
	stage *stage
	root  *jsonfile.Root
	mu    sync.Mutex
	free  float64
	task  string
	began time.Time
}

func (c *demoCodex) setFree(free float64) {
	c.mu.Lock()
	c.free = free
	c.mu.Unlock()
	c.beat()
}

func (c *demoCodex) setTask(id string) {
	c.mu.Lock()
	c.task = id
	c.mu.Unlock()
	c.beat()
}

func (c *demoCodex) beat() {
	c.mu.Lock()
	defer c.mu.Unlock()
	status, tasks := "idle", []string{}
	if c.task != "" {
		status, tasks = "busy", []string{c.task}
	}
	put(c.root, path.Join(agentstatus.Base, "codex_status/heartbeat.json"), map[string]any{
		"agent_name": "codex-cursor", "status": status, "last_heartbeat": jsonfile.FormatTime(time.Now()),
		"uptime_seconds": int(time.Since(c.began).Seconds()), "current_capacity": c.free, "active_tasks": tasks,
		"health": map[string]any{"cpu_ok": true, "memory_ok": true, "disk_ok": true, "last_error": nil},
	})
}

func (c *demoCodex) run(ctx context.Context) {
	c.began = time.Now()
	for {
		c.beat()
		c.poll(ctx)
		if c.stage.settle(ctx, time.Second) != nil {
			return
		}
	}
}

// poll finds tasks as the document specifies: requests without a result.
func (c *demoCodex) poll(ctx context.Context) {
	names, _, err := c.root.List(path.Join(agentstatus.Base, "codex_tasks"))
	if err != nil {
		return
	}
	for _, name := range names {
		id, ok := strings.CutSuffix(strings.TrimPrefix(name, "task_"), ".request.json")
		if !ok {
			continue
		}
		if _, err := c.root.Stat(demoTask(id, ".result.json")); err == nil {
			continue
		}
		if o, _, err := c.root.Load(demoTask(id, ".request.json"), 0); err == nil {
			c.execute(ctx, id, o)
		}
	}
}

func (c *demoCodex) execute(ctx context.Context, id string, request jsonfile.Object) {
	c.setTask(id)
	kind, _ := request.String("request_type")
	coordination, _ := request.Object("coordination")
	updates, _ := coordination.Bool("progress_updates_required")
	payload, _ := request.Object("payload")
	parameters, _ := payload.Object("parameters")
	service, _ := parameters.String("service_name")
	c.stage.say("codex", "takes task_%s… and works", id[:8])
	for step := 1; updates && step <= 5; step++ {
		put(c.root, demoTask(id, ".progress.json"), map[string]any{"task_id": id, "progress_percent": step * 20, "current_step": fmt.Sprintf("step %d", step),
			"steps_completed": step, "steps_total": 5, "last_update": jsonfile.FormatTime(time.Now()), "estimated_completion": jsonfile.FormatTime(time.Now().Add(time.Duration(5-step) * time.Second))})
		if c.stage.settle(ctx, 800*time.Millisecond) != nil {
			return
		}
	}
	if !updates && c.stage.settle(ctx, 1500*time.Millisecond) != nil {
		return
	}
	result := map[string]any{"task_id": id, "status": "completed", "source_agent": "codex-cursor", "completed_at": jsonfile.FormatTime(time.Now()),
		"execution_time_seconds": 1.5, "capacity_used": 0.3, "errors": []any{}, "next_actions": []any{},
		"result": map[string]any{"success": true, "artifacts_created": []string{}, "files_modified": []string{}, "summary": kind + " done", "metrics": map[string]any{}}}
	if service == conflictService {
		result["status"] = "failed"
		result["result"].(map[string]any)["success"] = false
		result["errors"] = []any{map[string]any{"code": "GIT_CONFLICT", "message": "merge conflict with main", "severity": "fatal", "file": "services/billing/main.go", "line": 42}}
	}
	put(c.root, demoTask(id, ".result.json"), result)
	c.stage.say("codex", "writes the result: %s", result["status"])
	c.setTask("")
}
