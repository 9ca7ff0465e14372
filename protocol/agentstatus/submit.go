package agentstatus

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// submitLease is how long a request that was created held stays held unless the daemon renews the lease.
const submitLease = 60 * time.Second

// maxRequest bounds a request in bytes: every reader reads all of it, repeatedly.
const maxRequest = 256 << 10

// Submit writes a request for its agent and logs it. A request that comes after other tasks is created held: the
// daemon releases it when those tasks are completed. Submit returns the file's path. Errors: *InvalidError,
// jsonfile.ErrExist, ErrNoTask if a task to come after is unknown, ErrNotInitialized.
func (c *Client) Submit(ctx context.Context, r Request, now time.Time) (file string, err error) {
	if r.Created.IsZero() {
		r.Created = now
	}
	doc, err := jsonfile.Encode(r)
	if err != nil {
		return "", fmt.Errorf("encode the request: %w", err)
	}
	if _, err := CheckRequest(doc); err != nil {
		return "", err
	}
	if len(doc) > maxRequest {
		return "", &InvalidError{[]string{fmt.Sprintf("the request has %d bytes; %d are the most", len(doc), maxRequest)}}
	}
	err = c.guarded(ctx, now, func() error {
		file, err = c.p.submit(r, doc)
		return err
	})
	if err != nil {
		return "", err
	}
	return filepath.Join(c.p.dir, filepath.FromSlash(path.Join(Base, file))), nil
}

func (p *Project) submit(r Request, doc []byte) (file string, err error) {
	e := p.fresh(r.TaskID)
	if e.exists() || p.has(cancelledFile(r.TaskID)) || p.has(attemptFile(r.TaskID, 1, "sched")) {
		return "", fmt.Errorf("task %s: %w", r.TaskID, jsonfile.ErrExist)
	}
	file = e.files.request
	if after := r.Coordination.After; len(after) > 0 {
		for _, id := range after {
			if !plainID(id) || !p.known(id) {
				return "", fmt.Errorf("come after task %s: %w", folder.Line(id, 80), ErrNoTask)
			}
		}
		if file, err = e.files.held, p.holdNew(e, after); err != nil {
			return "", err
		}
	}
	if err := p.Root.Create(file, doc, 0o644); err != nil {
		return "", err
	}
	// The line is in the name of the requesting agent, which may be long dead. logged_by marks it as steward's, so
	// that a task submitted by hand is no sign of that agent's life.
	_ = p.write(logLine{Timestamp: jsonfile.FormatTime(p.Now), EventType: "task_created", TaskID: r.TaskID, Source: r.Source, Target: r.Target,
		Message: folder.Line(fmt.Sprintf("%s asks %s to %s", r.Source, r.Target, r.Type), 500), Metadata: map[string]any{"logged_by": ourName}})
	return file, nil
}

// holdNew writes the notice of a request that is created held. As with every hold, the notice comes first.
func (p *Project) holdNew(e *entry, after []string) error {
	return p.putNotice(protocol.Change{Subject: protocol.Subject{Kind: protocol.KindTask, ID: e.id}, Hold: protocol.HoldBlocked,
		ReleaseBy: p.Now.Add(submitLease), Why: "waits for task " + folder.Line(after[0], 80)})
}

// known reports whether a task with that id was ever requested here.
func (p *Project) known(id string) bool {
	e := p.fresh(id)
	return e.exists() || p.has(attemptFile(id, 1, "result"))
}

// block returns what blocks a request that comes after other tasks; "" if nothing does. A completed task releases the
// request. A failed task does not, because the request builds on its work.
func (p *Project) block(id string, r *request) string {
	if len(r.after) > 0 && p.has(freedFile(id)) {
		return ""
	}
	for _, id := range r.after {
		if !plainID(id) {
			return fmt.Sprintf("waits for task %q, which no task can be called", folder.Line(id, 80))
		}
		switch status := p.endOf(id); status {
		case "completed":
		case "":
			return "waits for task " + id
		default:
			return fmt.Sprintf("waits for task %s, which ended %s: release or cancel this one", id, folder.Line(status, 40))
		}
	}
	return ""
}

// endOf returns the status that a task ended with; "" while the task is open or being retried.
func (p *Project) endOf(id string) string {
	if e := p.tasks[id]; e != nil {
		o, _ := e.ended()
		if o == nil || e.record.pending != "" {
			return ""
		}
		return o.Status
	}
	for _, file := range []string{taskFile(id, resultExt), archivedFile(id, resultExt)} {
		o, _, err := p.Root.Load(file, maxFile)
		if err == nil {
			return decodeResult(o).Status
		}
		if !errors.Is(err, jsonfile.ErrNotExist) {
			return ""
		}
	}
	return ""
}
