package rig

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The two clients of the scripts. codex -manner literal obeys protocol 000's pseudo-code to the letter: it polls, does
// not beat while it executes, names no task, and writes its result in place. codex -manner naming beats and names its
// tasks while it works, and renames files into place. Both do what the request's parameters ask for:
//
//	work       how long the task takes, e.g. "300ms"
//	outcomes   one result per attempt: "completed", "deferred", an error code, or "CODE:severity"; the last one repeats

// Codex is the name of the agent that executes tasks.
const Codex = "codex-cursor"

type Doc = map[string]any

type CodexClient struct {
	Dir, Manner string
	Free        float64
	poll        time.Duration // between beats, and between looks for work unless discover is given
	Task        string
	runs        map[string]int
}

func codexMain() {
	c := &CodexClient{runs: map[string]int{}}
	flag.StringVar(&c.Dir, "project", "p", "")
	flag.StringVar(&c.Manner, "manner", "naming", "naming or literal")
	flag.Float64Var(&c.Free, "free", 0.9, "")
	flag.DurationVar(&c.poll, "poll", 100*time.Millisecond, "")
	discover := flag.Duration("discover", 0, "look for work at these steps of the clock; see livhana -between")
	span := flag.Duration("for", time.Minute, "")
	flag.Parse()
	writePid("codex.pid")
	if c.Manner == "naming" {
		go func() {
			for range time.Tick(c.poll) {
				c.Beat()
			}
		}()
	}
	for end := time.Now().Add(*span); time.Now().Before(end); time.Sleep(c.poll) {
		if *discover > 0 {
			time.Sleep(time.Until(step(*discover)))
		}
		c.Beat()
		found, _ := filepath.Glob(c.path("codex_tasks/task_*.request.json"))
		for _, request := range found {
			c.take(request)
		}
	}
}

// step runs the next tick.
func step(every time.Duration) time.Time { return time.Now().Truncate(every).Add(every) }

func writePid(name string) { _ = os.WriteFile(name, []byte(fmt.Sprint(os.Getpid())), 0o644) }

func (c *CodexClient) path(rel string) string { return filepath.Join(c.Dir, "tmp/agent_status", rel) }

// write writes a document in place or by rename, depending on the client's manner.
func (c *CodexClient) write(file string, d Doc) {
	data, _ := json.MarshalIndent(d, "", "  ")
	if c.Manner == "literal" {
		_ = os.WriteFile(file, data, 0o644)
		return
	}
	tmp := fmt.Sprintf("%s.%d.tmp", file, time.Now().UnixNano())
	_ = os.WriteFile(tmp, data, 0o644)
	_ = os.Rename(tmp, file)
}

func Stamp() string { return time.Now().UTC().Format(time.RFC3339) }

func (c *CodexClient) Beat() {
	free := c.Free
	if text, err := os.ReadFile("free"); err == nil {
		fmt.Sscan(string(text), &free)
	}
	d := Doc{"agent_name": Codex, "status": "idle", "last_heartbeat": time.Now().UTC().Format(time.RFC3339Nano), "uptime_seconds": 1,
		"current_capacity": free, "active_tasks": []string{}, "health": Doc{"cpu_ok": true, "memory_ok": true, "disk_ok": true, "last_error": nil}}
	if task := c.Task; task != "" {
		d["status"], d["active_tasks"] = "busy", []string{task}
	}
	c.write(c.path("codex_status/heartbeat.json"), d)
}

func (c *CodexClient) take(file string) {
	id := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "task_"), ".request.json")
	result := c.path("codex_tasks/task_" + id + ".result.json")
	if _, err := os.Stat(result); err == nil {
		return
	}
	data, err := os.ReadFile(file)
	var request struct {
		Payload struct {
			Parameters struct {
				Work     string
				Outcomes []string
			}
		}
	}
	if err != nil || json.Unmarshal(data, &request) != nil {
		return
	}
	c.runs[id]++
	AppendLine("runs.log", fmt.Sprintf("%s run %d", id, c.runs[id]))
	if c.Manner == "naming" {
		c.Task = id
		c.Beat()
	}
	work, _ := time.ParseDuration(request.Payload.Parameters.Work)
	time.Sleep(work)
	for _, err := os.Stat("busy"); err == nil; _, err = os.Stat("busy") { // until the script removes the file
		time.Sleep(20 * time.Millisecond)
	}
	outcome := "completed"
	if list := request.Payload.Parameters.Outcomes; len(list) > 0 {
		outcome = list[min(c.runs[id], len(list))-1]
	}
	if outcome != "never" {
		c.write(result, ResultOf(id, outcome))
	}
	c.Task = ""
}

func ResultOf(id, outcome string) Doc {
	d := Doc{"task_id": id, "status": "failed", "source_agent": Codex, "completed_at": Stamp(), "execution_time_seconds": 1, "capacity_used": 0.2,
		"result": Doc{"success": false, "artifacts_created": []string{}, "files_modified": []string{}, "summary": "", "metrics": Doc{}}, "errors": []any{}, "next_actions": []any{}}
	switch outcome {
	case "completed":
		d["status"], d["result"].(Doc)["success"] = "completed", true
	case "deferred":
		return Doc{"task_id": id, "status": "deferred", "reason": "capacity_exceeded", "retry_after_seconds": 1}
	case "timeout", "blocked", "partial":
		d["status"] = outcome
	default:
		code, severity, ok := strings.Cut(outcome, ":")
		if !ok {
			severity = "error"
		}
		d["errors"] = []any{Doc{"code": code, "message": "as the script asked", "severity": severity, "file": "src/x.go", "line": 7}}
	}
	return d
}

func AppendLine(file, line string) {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, _ = f.WriteString(line + "\n")
		f.Close()
	}
}

// livhanaMain submits one request: livhana -id ID [-work D] [-outcomes a,b] [-type T] [-priority P] [-timeout N].
func livhanaMain() {
	dir := flag.String("project", "p", "")
	id := flag.String("id", "", "")
	work := flag.String("work", "50ms", "")
	outcomes := flag.String("outcomes", "completed", "")
	kind := flag.String("type", "execute", "")
	priority := flag.String("priority", "medium", "")
	timeout := flag.Float64("timeout", 300, "")
	throttle := flag.Float64("throttle", 1, "")
	between := flag.Duration("between", 0, "submit between two of codex's looks, so that steward has time to judge first")
	flag.Parse()
	if *between > 0 {
		time.Sleep(time.Until(step(*between).Add(*between / 10)))
	}
	parameters := Doc{"work": *work, "outcomes": strings.Split(*outcomes, ","), "script_path": "/x/" + *id + ".sh", "service_name": *id, "environment": "staging"}
	request := Doc{"task_id": *id, "request_type": *kind, "priority": *priority, "source_agent": "livhana-layer1.1", "target_agent": Codex,
		"created_at": Stamp(), "timeout_seconds": *timeout, "throttle_capacity": *throttle,
		"context":      Doc{"jesse_directive": "Ship it", "session_id": "9b2fca2e-2c5c-4a0e-8c52-1f0f8f6d3a10", "voice_mode_active": true, "related_tasks": []string{}},
		"payload":      Doc{"task_type": *kind, "parameters": parameters, "files_to_modify": []string{}, "files_to_read": []string{}, "expected_artifacts": []string{}},
		"coordination": Doc{"blocking": true, "progress_updates_required": false, "update_interval_seconds": 30}}
	data, _ := json.MarshalIndent(request, "", "  ")
	file := filepath.Join(*dir, "tmp/agent_status/codex_tasks", "task_"+*id+".request.json")
	if err := os.WriteFile(file+".tmp", data, 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = os.Rename(file+".tmp", file)
}
