package agentstatus

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
)

// Work is a task that the agent may take. Problems lists the schema violations of its request.
type Work struct {
	Request
	Raw      json.RawMessage
	Attempt  int
	Sum      string // of the request
	Appeared time.Time
	Title    string
	Problems []string
}

// Open lists the tasks that this agent may take now, by priority, then by age. It leaves out requests that are held,
// have a result, are claimed, or come after tasks that are not completed.
func (c *Client) Open(ctx context.Context, agent string, now time.Time) ([]Work, error) {
	if err := c.open(now); err != nil {
		return nil, err
	}
	p := c.p
	requests, err := openRequests(p.files)
	if err != nil {
		return nil, fmt.Errorf("look for tasks: %w", err)
	}
	for id := range p.tasks.open { // forget the tasks that are no longer open: a worker runs for weeks
		if _, open := requests[id]; !open {
			delete(p.tasks.open, id)
		}
	}
	var list []Work
	for id := range requests {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if w := p.tasks.offer(p.tasks.refresh(id), agent); w != nil {
			list = append(list, *w)
		}
	}
	if p.Patience.Calm() { // else some file there may not have been read
		p.Through(p.Folder, tasksDir, archiveDir, attemptsDir, claimsDir)
	}
	slices.SortFunc(list, func(a, b Work) int {
		pa, _ := protocol.ParsePriority(a.Priority)
		pb, _ := protocol.ParsePriority(b.Priority)
		return cmp.Or(cmp.Compare(pb, pa), a.Appeared.Compare(b.Appeared), strings.Compare(a.TaskID, b.TaskID))
	})
	return list, nil
}

// openRequests finds the tasks with a visible request and no result, from the file names alone.
func openRequests(f *files) (map[string]kinds, error) {
	requests := map[string]kinds{}
	_, err := f.Root.Each(tasksDir, func(name []byte) {
		if id, kind, ok := parseTaskFile(name); ok && plainID(string(id)) {
			requests[string(id)] |= kind
		}
	})
	maps.DeleteFunc(requests, func(_ string, has kinds) bool { return has&hasRequest == 0 || has&(hasResult|hasHeld) != 0 })
	return requests, folder.IgnoreMissing(err)
}

// offer returns the task as work for the agent, or nil if the agent may not take it now. It reads the request again
// only when it has changed.
func (t *taskTable) offer(e *entry, agent string) *Work {
	r := &e.request.Value
	for _, before := range r.Coordination.After { // it may have ended since this Client last read it
		if plainID(before) {
			t.refresh(before)
		}
	}
	if !e.takeable() || t.Patience.Has(e.request.path) || (directory{agent: true}).canonical(r.Target) != agent || t.block(e.id, r) != "" {
		return nil
	}
	if e.work == nil || e.work.Sum != string(e.request.Sum) {
		o, blob, read := t.object(e.request.path)
		if !read || blob.Sum != e.request.Sum {
			return nil
		}
		e.work = &Work{Request: whole[Request](o), Raw: blob.Data, Sum: string(blob.Sum), Title: r.title}
		for _, i := range r.issues {
			e.work.Problems = append(e.work.Problems, i.Text)
		}
	}
	e.work.TaskID, e.work.Attempt, e.work.Appeared = e.id, e.record.next(), appeared(e.request.Stamp)
	return e.work
}
