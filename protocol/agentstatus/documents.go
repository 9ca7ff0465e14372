package agentstatus

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// request is a request as a scan keeps it, without its parameters.
type request struct {
	Request
	created        jsonfile.Stated
	priority       protocol.Priority
	timeout, every time.Duration
	throttle       protocol.Share
	silent, voice  bool // what voice_mode_active says; neither where it is missing
	title          string
	payload        string // its fingerprint
	issues         folder.Findings
}

func (r request) task() string { return r.TaskID }

func decodeRequest(o jsonfile.Object) request {
	var r request
	r.issues.Read(o, &r.Request)
	r.created, _ = o.Stated("created_at")
	r.priority, _ = protocol.ParsePriority(r.Priority)
	r.timeout = seconds(r.Timeout)
	if share := r.Throttle; share != nil && *share >= 0 && *share <= 1 {
		r.throttle = protocol.Used(*share)
	}
	if r.Coordination.Progress {
		r.every = 30 * time.Second
		if s := r.Coordination.Every; s > 0 {
			r.every = min(seconds(s), 1e6*time.Second)
		}
	}
	origin, _ := o.Object("context")
	voice, known := origin.Bool("voice_mode_active")
	r.silent, r.voice = known.OK() && !voice, known.OK() && voice
	if payload, p := o.Object("payload"); p.OK() {
		parameters, p := payload.Object("parameters")
		r.title = titleOf(r.Type, r.Payload.TaskType, parameters)
		r.payload = fingerprint(payload, parameters)
		if p.OK() {
			r.issues.Read(parameters, parametersOf(cmp.Or(r.Type, r.Payload.TaskType)))
		}
	}
	return r
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

// titleOf returns a short title for display.
func titleOf(kind, task string, parameters jsonfile.Object) string {
	what := ""
	for _, key := range []string{"service_name", "script_path", "query", "validation_type"} {
		what = cmp.Or(what, folder.Line(text(parameters, key), 50))
	}
	switch {
	case what == "" && task == "":
		return ""
	case what == "":
		return "Task " + folder.Line(task, 50)
	}
	title := "Task " + folder.Line(cmp.Or(kind, task), 20) + " " + what
	if dry, _ := parameters.Bool("dry_run"); dry {
		title += " (dry run)"
	}
	return title
}

// outcome is a task result, or a client's own deferral (protocol 000, Throttle Enforcement).
type outcome struct {
	id string
	protocol.Outcome
	zoneless bool // At has no time zone
	issues   folder.Findings
}

func (r outcome) task() string { return r.id }

func decodeResult(o jsonfile.Object) outcome {
	if text(o, "status") == "deferred" {
		return decodeDeferral(o)
	}
	var v Result
	var issues folder.Findings
	issues.Read(o, &v)
	r := outcome{id: v.TaskID, zoneless: o.FirstStated("completed_at").Zoneless}
	r.Status, r.Agent, r.At, r.Ours, r.Took = v.Status, v.Source, v.Completed, v.Source == ourName, seconds(v.Seconds)
	body, _ := o.Object("result")
	if success, p := body.Bool("success"); p.OK() && success != (v.Status == "completed") {
		issues.Schema(protocol.Low, "result.success", "is %v, but the status is %q", success, folder.Line(v.Status, 40))
	}
	metrics, _ := body.Object("metrics")
	twice, _ := metrics.Bool("may_have_run_twice")
	r.Summary, r.Twice = folder.Line(v.Body.Summary, 500), twice && r.Ours
	for _, e := range v.Errors {
		r.Failures = append(r.Failures, protocol.Failure{Code: folder.Line(e.Code, 80), Message: folder.Line(e.Message, 1000), Severity: e.Severity,
			File: folder.Line(e.File, 300), Line: e.Line})
	}
	for _, next := range v.Next {
		switch action := folder.Line(next.Action, 300); {
		case next.Human:
			r.ForHuman = append(r.ForHuman, cmp.Or(action, "its result does not say what to decide"))
		case action != "":
			r.Next = append(r.Next, action)
		}
	}
	r.issues = issues
	return r
}

// deferral is a client's own deferral (protocol 000, Throttle Enforcement).
type deferral struct {
	TaskID    string    `json:"task_id"`
	Status    string    `json:"status"`
	Source    string    `json:"source_agent"`
	Completed time.Time `json:"completed_at"`
	Reason    string    `json:"reason" check:"required"`
	After     float64   `json:"retry_after_seconds" check:"required,0..86400"`
}

func decodeDeferral(o jsonfile.Object) outcome {
	var v deferral
	var issues folder.Findings
	issues.Read(o, &v)
	r := outcome{id: v.TaskID, zoneless: o.FirstStated("completed_at").Zoneless, issues: issues}
	r.Status, r.Agent, r.At, r.Ours = v.Status, v.Source, v.Completed, v.Source == ourName
	r.RetryAfter = min(seconds(v.After), 24*time.Hour)
	return r
}

// progress is a progress file as a scan keeps it.
type progress struct {
	protocol.Progress
	id     string
	stated jsonfile.Stated // last_update
	issues folder.Findings
}

func (p progress) task() string { return p.id }

func decodeProgress(o jsonfile.Object) progress {
	var v progressFile
	var p progress
	p.issues.Read(o, &v)
	p.id = v.TaskID
	p.Percent, p.Step = v.Percent, folder.Line(v.Step, 200)
	p.stated, _ = o.Stated("last_update")
	return p
}

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
	h := protocol.Hold{Reason: text(o, "reason")}
	h.NotBefore, _ = o.Time("not_before")
	h.ReleaseBy, _ = o.Time("release_by")
	h.Since, _ = o.Time("held_at")
	return h
}
