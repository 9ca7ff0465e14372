package agentstatus

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
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

// offers caches what a Client's last Open found of each request. An offer is reused while nothing of its task has
// changed: a scan of hundreds of open requests then costs one stat each, and reads only the requests that changed.
type offers struct {
	agent string
	of    map[string]offer
}

// offer is one request as it was judged. Only the names in the folders show whether the task's other files have
// changed.
type offer struct {
	set     kinds
	claimed bool
	stamp   jsonfile.Stamp // of the request
	work    *Work          // nil if the task is not to be taken
}

// Open lists the tasks that this agent may take now, by priority, then by age. It leaves out requests that are held,
// have a result, are claimed, or come after tasks that are not completed.
func (c *Client) Open(ctx context.Context, agent string, now time.Time) ([]Work, error) {
	if err := c.open(now); err != nil {
		return nil, err
	}
	p := c.p
	requests, claimed, err := openRequests(p.files)
	if err != nil {
		return nil, err
	}
	for id := range p.tasks.open { // forget the tasks that are no longer open: a worker runs for weeks
		if _, open := requests[id]; !open {
			delete(p.tasks.open, id)
		}
	}
	// If one of these two folders changed, every task must be judged again.
	quiet := !p.changed[archiveDir] && !p.changed[attemptsDir] && c.offers.agent == agent
	next := offers{agent, make(map[string]offer, len(requests))}
	var list []Work
	for id, set := range requests {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		o, known := c.offers.of[id]
		if !quiet || !known || !p.tasks.stands(o, id, set, claimed[id]) {
			e := p.tasks.refresh(id)
			o = offer{set: set, claimed: claimed[id], stamp: e.request.Stamp}
			if o.work, known = p.tasks.offer(e, agent); !known {
				continue
			}
		}
		next.of[id] = o
		if o.work != nil {
			list = append(list, *o.work)
		}
	}
	c.offers = next
	if p.Patience.Calm() { // else some file there may not have been read
		p.through(archiveDir, attemptsDir)
	}
	slices.SortFunc(list, func(a, b Work) int {
		pa, _ := protocol.ParsePriority(a.Priority)
		pb, _ := protocol.ParsePriority(b.Priority)
		return cmp.Or(cmp.Compare(pb, pa), a.Appeared.Compare(b.Appeared), strings.Compare(a.TaskID, b.TaskID))
	})
	return list, nil
}

// openRequests finds the tasks with a visible request and no result, each with its set of files, and the tasks that
// have a claim. It reads file names alone.
func openRequests(f *files) (requests map[string]kinds, claimed map[string]bool, err error) {
	requests, claimed = map[string]kinds{}, map[string]bool{}
	_, err = f.Root.Each(tasksDir, func(name []byte) {
		if id, kind, ok := parseTaskFile(name); ok && plainID(string(id)) {
			requests[string(id)] |= kind
		}
	})
	if err != nil && !folder.Missing(err) {
		return nil, nil, fmt.Errorf("look for tasks: %w", err)
	}
	for id, has := range requests {
		if has&hasRequest == 0 || has&(hasResult|hasHeld) != 0 {
			delete(requests, id)
		}
	}
	names, _, err := f.Root.List(claimsDir)
	if err != nil && !folder.Missing(err) {
		return nil, nil, fmt.Errorf("look for claims: %w", err)
	}
	for _, name := range names {
		if id, ok := strings.CutSuffix(name, ".json"); ok {
			claimed[id] = true
		}
	}
	return requests, claimed, nil
}

// stands reports whether nothing can have changed the offer. A task that comes after others, and a task with a sign
// of progress, is judged each time, because other files decide about it.
func (t *taskTable) stands(o offer, id string, set kinds, claimed bool) bool {
	e := t.open[id]
	return e != nil && e.atRest() && o.set == set && o.claimed == claimed && o.stamp == e.request.Stamp && set&hasProgress == 0 &&
		len(e.request.Value.Coordination.After) == 0 && !t.inTrouble(e) && e.request.Still(t.Root, e.request.path)
}

// offer returns the task as work for the agent, or nil if the agent may not take it. ok is false if that cannot be
// determined for the moment.
func (t *taskTable) offer(e *entry, agent string) (w *Work, ok bool) {
	r := &e.request.Value
	for _, before := range r.Coordination.After { // it may have ended since this Client last read it
		if plainID(before) {
			t.refresh(before)
		}
	}
	if !e.takeable() || (directory{agent: true}).canonical(r.Target) != agent || t.block(e.id, r) != "" {
		return nil, true
	}
	o, blob, read := t.object(e.request.path)
	if !read || blob.Sum != e.request.Sum {
		return nil, false
	}
	w = &Work{Request: whole[Request](o), Raw: blob.Data, Attempt: e.record.next(), Sum: string(blob.Sum), Appeared: appeared(e.request.Stamp), Title: r.title}
	w.TaskID = e.id
	for _, i := range r.issues {
		w.Problems = append(w.Problems, i.Text)
	}
	return w, true
}
