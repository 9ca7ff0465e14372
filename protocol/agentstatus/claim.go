package agentstatus

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// claimsDir holds one file per task that a steward worker has claimed. Protocol 000 defines no claims: a foreign
// executor does not see them and may run the task as well.
// See docs/decisions.md, "Claims lie in steward's own folder and mean nothing to other clients".
const claimsDir = "steward/claims"

func claimPath(id string) string { return claimsDir + "/" + id + ".json" }

// Claim records which agent works on a task. Worker took the task and Runner executes it: once both are proved dead,
// the run is over. Both may be zero, for an agent that works by hand. See docs/decisions.md, "A claim is a file, not a lock".
type Claim struct {
	Task    string            `json:"task_id"`
	Agent   string            `json:"agent"`
	Worker  protocol.Identity `json:"-"`
	Runner  protocol.Identity `json:"-"`
	Mark    string            `json:"mark,omitempty"` // identifies the run: STEWARD_RUN in its environment
	Attempt int               `json:"attempt"`
	At      time.Time         `json:"claimed_at"`
	Ended   bool              `json:"-"` // for an orphan: its task has a result nevertheless
}

func (k Claim) task() string { return k.Task }

// processes lists those identities of the claim that can prove a process dead.
func (k *Claim) processes() []protocol.Identity {
	var list []protocol.Identity
	for _, id := range []protocol.Identity{k.Worker, k.Runner} {
		if id.Proves() {
			list = append(list, id)
		}
	}
	return list
}

// claimFile is <id>.json in steward/claims.
type claimFile struct {
	Claim
	Worker *identityFile `json:"worker,omitempty"`
	Runner *identityFile `json:"runner,omitempty"`
}

func (k Claim) file() claimFile { return claimFile{k, identityOn(k.Worker), identityOn(k.Runner)} }

func decodeClaim(o jsonfile.Object) Claim {
	var f claimFile
	folder.Fields(o, &f)
	f.Claim.Worker, f.Claim.Runner = f.Worker.identity(), f.Runner.identity()
	return f.Claim
}

// claimOf reads a task's claim. It returns ErrNoTask if there is none.
func (f *files) claimOf(id string) (Claim, error) {
	if !plainID(id) {
		return Claim{}, ErrNoTask
	}
	o, _, err := f.Root.Load(claimPath(id), maxFile)
	if folder.Missing(err) {
		err = ErrNoTask
	}
	k := decodeClaim(o)
	k.Task = id
	return k, err
}

// claims lists all claims that can be read, newest first. Ended is set if the task has a result.
func (f *files) claims() []Claim {
	names, _, _ := f.Root.List(claimsDir) // no folder: no claims
	var list []Claim
	for _, name := range names {
		if id, ok := strings.CutSuffix(name, ".json"); ok {
			if k, err := f.claimOf(id); err == nil {
				k.Ended = f.over(id)
				list = append(list, k)
			}
		}
	}
	slices.SortFunc(list, func(a, b Claim) int { return cmp.Or(b.At.Compare(a.At), strings.Compare(a.Task, b.Task)) })
	return list
}

// activeClaims lists an agent's claims whose tasks have no result, newest first.
func (f *files) activeClaims(agent string) []Claim {
	return slices.DeleteFunc(f.claims(), func(k Claim) bool { return k.Ended || k.Agent != agent })
}

// Claim takes a task. Exactly one of several claimants wins. A request that was meanwhile held, ended, changed or
// claimed gives ErrTaken. Claim writes current_task.json and logs the start of the task.
func (c *Client) Claim(ctx context.Context, w Work, k Claim, now time.Time) error {
	return c.guarded(ctx, now, func() error {
		p := c.p
		e := p.tasks.fresh(w.TaskID)
		if !e.takeable() || string(e.request.Sum) != w.Sum {
			return ErrTaken
		}
		k.Task, k.At, k.Attempt = w.TaskID, now.UTC(), e.record.next()
		if err := p.Root.Mkdir(claimsDir, 0o755); err != nil {
			return err
		}
		doc, err := jsonfile.Encode(k.file())
		if err != nil {
			return err
		}
		if err := p.Root.Create(e.claim.path, doc, 0o644); err != nil {
			if errors.Is(err, jsonfile.ErrExist) {
				return ErrTaken
			}
			return err
		}
		p.showCurrent(k.Agent)
		p.log.say("task_started", k.Task, k.Agent, w.Source, fmt.Sprintf("%s begins attempt %d", k.Agent, k.Attempt))
		return nil
	})
}

// Attach adds the runner process to the claim of a task.
func (c *Client) Attach(ctx context.Context, id string, runner protocol.Identity, now time.Time) error {
	return c.guarded(ctx, now, func() error {
		k, err := c.p.claimOf(id)
		if err != nil {
			return err
		}
		k.Runner = runner
		return c.p.Put(claimPath(id), k.file())
	})
}

// Unclaim gives back a claimed task of which nothing was executed.
func (c *Client) Unclaim(ctx context.Context, id string, now time.Time) error {
	return c.guarded(ctx, now, func() error {
		k, err := c.p.claimOf(id)
		if err != nil {
			return err
		}
		if err := c.p.Root.Remove(claimPath(id)); err != nil {
			return err
		}
		c.p.showCurrent(k.Agent)
		c.p.log.say(eventReturned, id, k.Agent, "", k.Agent+" gives it back untouched")
		return nil
	})
}

// Holds reports whether the task is claimed with that mark. A claim that cannot be read for the moment counts as
// held.
func (c *Client) Holds(id, mark string) bool {
	if c.p.Open() != nil {
		return true
	}
	k, err := c.p.claimOf(id)
	return err == nil && k.Mark == mark || err != nil && !errors.Is(err, ErrNoTask)
}

// Orphans lists the agent's claims whose processes are proved dead. Ended is set if the task has a result
// nevertheless: a crash came between the result and the removal of the claim, or another client wrote the result.
// Processes left over from such a run carry the Mark.
func (c *Client) Orphans(ctx context.Context, agent string, now time.Time) ([]Claim, error) {
	var list []Claim
	err := c.guarded(ctx, now, func() error {
		for _, k := range c.p.claims() {
			switch {
			case k.Agent != agent:
			case k.Ended && len(k.processes()) == 0:
				_ = c.p.Root.Remove(claimPath(k.Task)) // the agent worked by hand: no process is left
			case c.abandoned(k):
				list = append(list, k)
			}
		}
		return nil
	})
	return list, err
}

// Forget removes an orphaned claim whose task has ended.
func (c *Client) Forget(ctx context.Context, k Claim, now time.Time) error {
	return c.guarded(ctx, now, func() error {
		if now, err := c.p.claimOf(k.Task); err != nil || now.Mark != k.Mark || !c.abandoned(now) || !c.p.over(k.Task) {
			return nil
		}
		return c.p.Root.Remove(claimPath(k.Task))
	})
}

// abandoned reports whether it is proved that no process runs the claimed task any more.
func (c *Client) abandoned(k Claim) bool {
	all := k.processes()
	return len(all) > 0 && !slices.ContainsFunc(all, c.alive)
}

// Conclude ends an orphaned task with AGENT_LOST where no daemon does.
func (c *Client) Conclude(ctx context.Context, k Claim, why string, now time.Time) error {
	return c.guarded(ctx, now, func() error {
		p := c.p
		e := p.tasks.fresh(k.Task)
		if e.result.There || !e.claim.Good || e.claim.Value.Mark != k.Mark || !c.abandoned(e.claim.Value) {
			return ErrTaken
		}
		if err := p.synthesize(e, "AGENT_LOST", why, map[string]any{"may_have_run_twice": false, "lost_agent": k.Agent}); err != nil {
			return err
		}
		p.log.say("task_failed", k.Task, k.Agent, "", why)
		_ = p.Root.Remove(e.claim.path)
		p.showCurrent(k.Agent)
		return nil
	})
}

// showCurrent writes current_task.json: the agent's newest claimed task, and all its claimed tasks. Protocol 000
// defines no schema for the file; its name tells what pollers look for in it.
func (s *state) showCurrent(agent string) {
	var doc struct {
		TaskID  *string   `json:"task_id"`
		Agent   string    `json:"agent_name"`
		Started time.Time `json:"started_at,omitzero"`
		Attempt int       `json:"attempt,omitzero"`
		Tasks   []string  `json:"active_tasks"`
		Updated time.Time `json:"updated_at"`
	}
	doc.Agent, doc.Updated = agent, s.Now
	for _, k := range s.activeClaims(agent) {
		if doc.TaskID == nil {
			doc.TaskID, doc.Started, doc.Attempt = &k.Task, k.At, k.Attempt
		}
		doc.Tasks = append(doc.Tasks, k.Task)
	}
	s.agents.read()
	_ = s.Put(currentFile(s.agents.dirOf(agent)), doc, jsonfile.Volatile) // for display only: the claim decides
}

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

// offer returns the task as work for the agent, or nil if the agent may not take it now.
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
	o, blob, read := t.object(e.request.path)
	if !read || blob.Sum != e.request.Sum {
		return nil
	}
	w := &Work{Request: whole[Request](o), Raw: blob.Data, Attempt: e.record.next(), Sum: string(blob.Sum), Appeared: appeared(e.request.Stamp),
		Title: r.title, Problems: texts(r.issues)}
	w.TaskID = e.id
	return w
}
