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

// submitLease is how long a request that was created held stays so unless the daemon renews it.
const submitLease = 60 * time.Second

// maxRequest bounds a request in bytes: whoever reads it reads all of it, again and again.
const maxRequest = 256 << 10

// Submit writes a request for its agent to find, and tells the log. One that comes after other tasks is created held:
// the daemon releases it when they are completed. It gives the file's path. Errors: *InvalidError, jsonfile.ErrExist,
// ErrNoTask for a task to come after that nobody knows, ErrNotInitialized.
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
	// In the name of whoever asks, who may be long dead: a task that somebody submits for it by hand is no sign of its life.
	_ = p.write(logLine{Timestamp: jsonfile.FormatTime(p.Now), EventType: "task_created", TaskID: r.TaskID, Source: r.Source, Target: r.Target,
		Message: folder.Line(fmt.Sprintf("%s asks %s to %s", r.Source, r.Target, r.Type), 500), Metadata: map[string]any{"logged_by": ourName}})
	return file, nil
}

// holdNew writes the notice of a request that is created held. The notice comes first, as with every hold.
func (p *Project) holdNew(e *entry, after []string) error {
	return p.putNotice(protocol.Change{Subject: protocol.Subject{Kind: protocol.KindTask, ID: e.id}, Hold: protocol.HoldBlocked,
		ReleaseBy: p.Now.Add(submitLease), Why: "waits for task " + folder.Line(after[0], 80)})
}

// known reports whether a task of that id was ever asked for here.
func (p *Project) known(id string) bool {
	e := p.fresh(id)
	return e.exists() || p.has(attemptFile(id, 1, "result"))
}

// block says what keeps a request that comes after others, "" if nothing does: completed work releases it, failed work
// does not, for what was to follow is built on it.
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

// endOf is the status that a task ended with, "" while it has not, or is being tried again.
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
