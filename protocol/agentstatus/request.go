package agentstatus

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// request is a task request (protocol 000, Task Request Schema).
type request struct {
	id, source, target, kind, title string
	priority                        protocol.Priority
	created                         jsonfile.Stated
	timeout                         time.Duration
	throttle                        protocol.Share
	directive                       string
	silent, blocking                bool
	related, expected, after        []string
	modify                          []string // payload.files_to_modify
	every                           time.Duration
	payload                         string
	issues                          []issue
}

func decodeRequest(o jsonfile.Object) request {
	c := &check{}
	r := request{
		id:      c.text(o, "task_id", true),
		kind:    c.word(o, "request_type", true, "execute", "research", "validate", "deploy"),
		source:  c.text(o, "source_agent", true),
		target:  c.text(o, "target_agent", true),
		created: c.stated(o, "created_at", true),
	}
	c.uuid("task_id", r.id)
	r.priority, _ = protocol.ParsePriority(c.word(o, "priority", true, "critical", "high", "medium", "low"))
	if s, ok := c.number(o, "timeout_seconds", 1, 3600, false); ok && s > 0 {
		r.timeout = time.Duration(min(s, 1e9) * float64(time.Second))
	}
	if s, ok := c.number(o, "throttle_capacity", 0, 1, false); ok && s >= 0 && s <= 1 {
		r.throttle = protocol.Used(s)
	}
	if inner, ok := c.child(o, "context", true); ok {
		r.context(c, inner)
	}
	if inner, ok := c.child(o, "payload", true); ok {
		r.work(c, inner)
	}
	if inner, ok := c.child(o, "coordination", true); ok {
		r.coordination(c, inner)
	}
	r.issues = c.findings
	return r
}

func (r *request) context(c *check, o jsonfile.Object) {
	r.directive = c.text(o, "jesse_directive", true)
	c.uuid("context.session_id", c.text(o, "session_id", true))
	if voice, ok := c.boolean(o, "voice_mode_active", true); ok {
		r.silent = !voice
	}
	r.related = c.list(o, "related_tasks", true)
}

func (r *request) work(c *check, o jsonfile.Object) {
	task := c.text(o, "task_type", true)
	parameters, ok := c.child(o, "parameters", true)
	r.modify = c.paths(o, "files_to_modify", false)
	c.paths(o, "files_to_read", false)
	r.expected = c.list(o, "expected_artifacts", false)
	r.title = titleOf(r.kind, task, parameters)
	r.payload = fingerprint(o, parameters)
	if ok {
		r.parameters(c, task, parameters)
	}
}

// fingerprint identifies requests for the same work. It ignores a timeout in the parameters, because a retry
// increases it.
func fingerprint(payload, parameters jsonfile.Object) string {
	raw := payload.Value().Raw()
	if parameters.Has("timeout_seconds") {
		if short, err := jsonfile.Edit(raw, jsonfile.Remove("parameters", "timeout_seconds")); err == nil {
			raw = short
		}
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}

func (r request) task() string { return r.id }

func (r *request) coordination(c *check, o jsonfile.Object) {
	r.blocking, _ = c.boolean(o, "blocking", true)
	r.after = c.list(o, "after", false) // steward's own field
	updates, _ := c.boolean(o, "progress_updates_required", true)
	every, ok := c.number(o, "update_interval_seconds", 1, 3600, false)
	if !ok || every <= 0 {
		every = 30
	}
	if updates {
		r.every = time.Duration(min(every, 1e6) * float64(time.Second))
	}
}

// parameters checks what each task type needs (protocol 000, Task Types & Payloads).
func (r *request) parameters(c *check, task string, o jsonfile.Object) {
	kind := r.kind
	if kind == "" {
		kind = task
	}
	switch kind {
	case "execute":
		c.text(o, "script_path", true)
		c.list(o, "args", false)
		c.text(o, "working_directory", false)
		c.boolean(o, "capture_output", false)
		c.number(o, "timeout_seconds", 1, 3600, false)
	case "research":
		c.text(o, "query", true)
		c.list(o, "search_paths", false)
		c.text(o, "depth", false)
		c.text(o, "output_format", false)
	case "validate":
		c.word(o, "validation_type", true, "preflight", "lint", "test", "security")
		c.list(o, "target_files", false)
		c.boolean(o, "strict_mode", false)
	case "deploy":
		c.text(o, "service_name", true)
		c.text(o, "environment", true)
		c.text(o, "gcp_project", false)
		c.text(o, "region", false)
		c.boolean(o, "dry_run", false)
	}
}

// titleOf returns a short title for display.
func titleOf(kind, task string, o jsonfile.Object) string {
	first := func(keys ...string) string {
		for _, k := range keys {
			if s, p := o.String(k); p.OK() && s != "" {
				return folder.Line(s, 50)
			}
		}
		return ""
	}
	what := first("service_name", "script_path", "query", "validation_type")
	verb := kind
	if verb == "" {
		verb = task
	}
	switch {
	case what == "" && task == "":
		return ""
	case what == "":
		return "Task " + folder.Line(task, 50)
	}
	title := "Task " + folder.Line(verb, 20) + " " + what
	if dry, _ := o.Bool("dry_run"); dry {
		title += " (dry run)"
	}
	return title
}
