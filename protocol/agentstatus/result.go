package agentstatus

import (
	"cmp"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// outcome is a task result (protocol 000, Task Result Schema), or a client's own deferral (Throttle Enforcement).
type outcome struct {
	id string
	protocol.Outcome
	zoneless bool // At has no time zone
	issues   []issue
}

// ourName is the source_agent of what steward writes in an agent's stead.
const ourName = "steward"

func decodeResult(o jsonfile.Object) outcome {
	c := &check{}
	status := c.word(o, "status", true, "completed", "failed", "partial", "timeout", "blocked", "deferred")
	deferral := status == "deferred"
	r := outcome{id: c.text(o, "task_id", !deferral)}
	r.Status = status
	r.Agent = c.text(o, "source_agent", !deferral)
	r.At, r.zoneless = c.instant(o, "completed_at", !deferral), o.Get("completed_at").Zoneless()
	r.Ours = r.Agent == ourName
	if deferral {
		c.text(o, "reason", true)
		if s, ok := c.number(o, "retry_after_seconds", 0, 86400, true); ok && s > 0 {
			r.RetryAfter = time.Duration(min(s, 86400) * float64(time.Second))
		}
		r.issues = c.findings
		return r
	}
	c.uuid("task_id", r.id)
	if s, ok := c.number(o, "execution_time_seconds", 0, 1e9, true); ok {
		r.Took = time.Duration(s * float64(time.Second))
	}
	c.number(o, "capacity_used", 0, 1, true)
	if body, ok := c.child(o, "result", true); ok {
		r.body(c, body)
	}
	r.failures(c, o)
	r.next(c, o)
	r.issues = c.findings
	return r
}

func (r *outcome) body(c *check, o jsonfile.Object) {
	success, ok := c.boolean(o, "success", true)
	if ok && success != (r.Status == "completed") {
		c.add("result.success", "is %v, but the status is %q", success, folder.Line(r.Status, 40))
	}
	c.paths(o, "artifacts_created", true)
	c.paths(o, "files_modified", true)
	r.Summary = folder.Line(c.text(o, "summary", true), 500)
	metrics, _ := c.child(o, "metrics", true)
	r.Twice, _ = metrics.Bool("may_have_run_twice")
	r.Twice = r.Twice && r.Ours
}

func (r *outcome) failures(c *check, o jsonfile.Object) {
	items, p := o.Array("errors")
	if !c.presence(o.Get("errors"), "errors", p, "an array", true) {
		return
	}
	for _, item := range items {
		e, p := item.Object()
		if !c.presence(item, item.Path(), p, "an object", true) {
			continue
		}
		f := protocol.Failure{
			Code:     folder.Line(c.text(e, "code", true), 80),
			Message:  folder.Line(c.text(e, "message", true), 1000),
			Severity: c.word(e, "severity", true, "fatal", "error", "warning"),
			File:     folder.Line(c.text(e, "file", false), 300),
		}
		if line, ok := c.number(e, "line", 0, 1e9, false); ok {
			f.Line = int(line)
		}
		r.Failures = append(r.Failures, f)
	}
}

func (r *outcome) next(c *check, o jsonfile.Object) {
	items, p := o.Array("next_actions")
	if !c.presence(o.Get("next_actions"), "next_actions", p, "an array", true) {
		return
	}
	for _, item := range items {
		e, p := item.Object()
		if !c.presence(item, item.Path(), p, "an object", true) {
			continue
		}
		action := folder.Line(c.text(e, "action", true), 300)
		c.word(e, "priority", true, "critical", "high", "medium", "low")
		human, _ := c.boolean(e, "requires_jesse", true)
		if human {
			action = cmp.Or(action, "its result does not say what to decide")
			r.ForHuman = append(r.ForHuman, action)
		} else if action != "" {
			r.Next = append(r.Next, action)
		}
	}
}

func (r outcome) task() string { return r.id }

// progress is a progress file (protocol 000, Progress File Schema).
type progress struct {
	protocol.Progress
	id     string
	stated jsonfile.Stated // last_update
	issues []issue
}

func decodeProgress(o jsonfile.Object) progress {
	c := &check{}
	p := progress{id: c.text(o, "task_id", true)}
	p.Percent, _ = c.number(o, "progress_percent", 0, 100, true)
	p.Step = folder.Line(c.text(o, "current_step", true), 200)
	p.stated = c.stated(o, "last_update", true)
	c.number(o, "steps_completed", 0, 1e9, true)
	c.number(o, "steps_total", 0, 1e9, true)
	c.instant(o, "estimated_completion", true)
	p.issues = c.findings
	return p
}

func (p progress) task() string { return p.id }

// notice is the deferral notice beside a held request. Status, Reason and RetryAfter are the protocol's own fields
// (Throttle Enforcement); the other fields say why, until when, and how to release the task.
type notice struct {
	TaskID     string              `json:"task_id"`
	Status     string              `json:"status"`
	Reason     string              `json:"reason"`
	RetryAfter int64               `json:"retry_after_seconds"`
	HeldBy     string              `json:"held_by"`
	HeldAt     time.Time           `json:"held_at"`
	NotBefore  time.Time           `json:"not_before,omitzero"`
	ReleaseBy  time.Time           `json:"release_by"`
	Why        string              `json:"why"`
	Dimension  string              `json:"dimension,omitempty"`
	Load       *float64            `json:"load,omitempty"`
	Threshold  float64             `json:"threshold,omitzero"`
	Consumers  []protocol.Consumer `json:"top_consumers,omitempty"`
	Release    string              `json:"release_command"`
}

func decodeNotice(o jsonfile.Object) protocol.Hold {
	var h protocol.Hold
	h.Reason, _ = o.String("reason")
	h.NotBefore, _ = o.Time("not_before")
	h.ReleaseBy, _ = o.Time("release_by")
	h.Since, _ = o.Time("held_at")
	return h
}
