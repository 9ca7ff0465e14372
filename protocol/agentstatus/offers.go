package agentstatus

import (
	"context"
	"fmt"
	"strings"

	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// offers caches what a Client's last Open found of each request. An offer is reused while nothing of its task has
// changed: a scan of hundreds of open requests then costs one stat each, and reads only the requests that changed.
type offers struct {
	agent string
	of    map[string]offer
}

// offer is one request as it was judged. Only the names in the folders show whether the task's other files have
// changed.
type offer struct {
	set     names
	claimed bool
	stamp   jsonfile.Stamp // of the request
	work    *Work          // nil if the task is not to be taken
}

// stands reports whether nothing can have changed the offer. A task that comes after others, and a task with a sign
// of progress, is judged each time, because other files decide about it.
func (p *Project) stands(o offer, e *entry, set names, claimed bool) bool {
	return e != nil && e.atRest() && o.set == set && o.claimed == claimed && o.stamp == e.request.Stamp && set&hasProgress == 0 &&
		len(e.request.Value.after) == 0 && !p.inTrouble(e) && e.request.Still(p.Root, e.files.request)
}

// offered lists the tasks that the agent may take now, in no order.
func (c *Client) offered(ctx context.Context, agent string) ([]Work, error) {
	p := c.p
	asking, err := p.asking()
	if err != nil {
		return nil, fmt.Errorf("look for tasks: %w", err)
	}
	claimed, err := p.claimed()
	if err != nil {
		return nil, fmt.Errorf("look for claims: %w", err)
	}
	// If one of these two folders changed, every task must be judged again.
	quiet := !p.changed[archiveDir] && !p.changed[attemptsDir] && c.offers.agent == agent
	c.keepOnly(asking)
	known, now := directory{agent: true}, offers{agent, make(map[string]offer, len(asking))}
	var list []Work
	for id, set := range asking {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		o, seen := c.offers.of[id]
		if !quiet || !seen || !p.stands(o, p.tasks[id], set, claimed[id]) {
			e := p.refresh(id)
			o = offer{set: set, claimed: claimed[id], stamp: e.request.Stamp}
			if o.work, seen = p.offer(e, known, agent); !seen {
				continue
			}
		}
		now.of[id] = o
		if o.work != nil {
			list = append(list, *o.work)
		}
	}
	c.offers = now
	if p.Patience.Calm() { // else some file there may not have been read
		p.through(archiveDir, attemptsDir)
	}
	return list, nil
}

// offer returns the task as work for the agent, or nil if the agent may not take it. ok is false if that cannot be
// determined for the moment.
func (p *Project) offer(e *entry, known directory, agent string) (w *Work, ok bool) {
	r := &e.request.Value
	for _, before := range r.after { // it may have ended since this Client last read it
		if plainID(before) {
			p.refresh(before)
		}
	}
	if !e.takeable() || known.canonical(r.target) != agent || p.block(e.id, r) != "" {
		return nil, true
	}
	work, ok := p.work(e)
	return &work, ok
}

// keepOnly forgets the tasks that are no longer open: a worker runs for weeks.
func (c *Client) keepOnly(asking map[string]names) {
	for id := range c.p.tasks {
		if _, asks := asking[id]; !asks {
			delete(c.p.tasks, id)
		}
	}
}

// asking finds the tasks with a visible request and no result, each with its set of files, from the file names alone.
func (p *Project) asking() (map[string]names, error) {
	kinds := map[string]names{}
	_, err := p.Root.Each(tasksDir, func(name []byte) {
		if id, kind, ok := parseTaskFile(name); ok && plainID(string(id)) {
			kinds[string(id)] |= kind
		}
	})
	if err != nil && !folder.Missing(err) {
		return nil, err
	}
	for id, has := range kinds {
		if has&hasRequest == 0 || has&(hasResult|hasHeld) != 0 {
			delete(kinds, id)
		}
	}
	return kinds, nil
}

// claimed lists the tasks that have a claim, from the file names alone.
func (p *Project) claimed() (map[string]bool, error) {
	list := map[string]bool{}
	files, _, err := p.Root.List(claimsDir)
	if err != nil && !folder.Missing(err) {
		return nil, err
	}
	for _, name := range files {
		if id, ok := strings.CutSuffix(name, ".json"); ok {
			list[id] = true
		}
	}
	return list, nil
}
