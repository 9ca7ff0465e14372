package agentstatus

import (
	"context"
	"fmt"
	"strings"

	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// offers is what a Client's last Open found of each request. It stands while nothing of the task has moved, so that a
// look at hundreds of open requests costs one stat each, and reads those that changed.
type offers struct {
	agent string
	of    map[string]offer
}

// offer is one request as it was judged. Its files are told by the names in their folders alone.
type offer struct {
	set     names
	claimed bool
	stamp   jsonfile.Stamp // of the request
	work    *Work          // nil: it is not to be taken
}

// stands reports whether nothing can have changed what was found. A task that comes after others, and one with a sign
// of progress, is looked at each time: what they rest on lies elsewhere.
func (p *Project) stands(o offer, e *entry, set names, claimed bool) bool {
	return e != nil && e.atRest() && o.set == set && o.claimed == claimed && o.stamp == e.request.Stamp && set&hasProgress == 0 &&
		len(e.request.Value.after) == 0 && !p.inTrouble(e) && e.request.Still(p.Root, e.files.request)
}

// offered lists what the agent may take now, in no order.
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
	// What lies in these two folders is found by a look at every task.
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
	if p.Patience.Calm() { // else something that lies there may not have been read
		p.through(archiveDir, attemptsDir)
	}
	return list, nil
}

// offer is the task as work for the agent; nil when it is none. ok is false when that could not be found out just now.
func (p *Project) offer(e *entry, known directory, agent string) (w *Work, ok bool) {
	r := &e.request.Value
	for _, before := range r.after { // it may have ended since this Client last looked at it
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

// keepOnly forgets what was read of tasks that ask for nothing any more: a worker runs for weeks.
func (c *Client) keepOnly(asking map[string]names) {
	for id := range c.p.tasks {
		if _, asks := asking[id]; !asks {
			delete(c.p.tasks, id)
		}
	}
}

// asking finds the tasks whose request lies open without a result, each with its set of files, from the names alone.
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

// claimed lists the tasks that have a claim, from the names alone.
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
