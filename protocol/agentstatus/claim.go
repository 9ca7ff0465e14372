package agentstatus

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// claimsDir holds one file per task that a steward worker has claimed. Protocol 000 defines no claims: a foreign
// executor does not see them and may run the task as well.
const claimsDir = "steward/claims"

func claimFile(id string) string { return claimsDir + "/" + id + ".json" }

// Claim records which agent works on a task. Worker took the task and Runner executes it: once both are proved dead,
// the run is over. Both may be zero, for an agent that works by hand.
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

// identityFile is an identity on disk. Start is a string because a JSON number would lose bits of the 64-bit token.
type identityFile struct {
	PID   int    `json:"pid"`
	Start string `json:"start"`
	Boot  string `json:"boot"`
	UID   int    `json:"uid"`
}

func identityOn(id protocol.Identity) *identityFile {
	if !id.Proves() {
		return nil
	}
	return &identityFile{id.PID, strconv.FormatUint(id.Start, 10), id.Boot, id.UID}
}

func identityFrom(o jsonfile.Object) protocol.Identity {
	pid, _ := o.Int("pid")
	uid, _ := o.Int("uid")
	id := protocol.Identity{PID: int(pid), UID: int(uid), Boot: text(o, "boot")}
	id.Start, _ = strconv.ParseUint(text(o, "start"), 10, 64)
	return id
}

// claimOnDisk is <id>.json in steward/claims.
type claimOnDisk struct {
	Claim
	Worker *identityFile `json:"worker,omitempty"`
	Runner *identityFile `json:"runner,omitempty"`
}

func decodeClaim(o jsonfile.Object) Claim {
	k := Claim{Task: text(o, "task_id"), Agent: text(o, "agent"), Mark: text(o, "mark")}
	n, _ := o.Int("attempt")
	k.Attempt = int(n)
	k.At, _ = o.Time("claimed_at")
	worker, _ := o.Object("worker")
	runner, _ := o.Object("runner")
	k.Worker, k.Runner = identityFrom(worker), identityFrom(runner)
	return k
}

func (k Claim) task() string { return k.Task }

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
	c.p.probe(".", tasksDir, archiveDir, attemptsDir, claimsDir, agentsDir, sharedDir)
	list, err := c.offered(ctx, agent)
	slices.SortStableFunc(list, func(a, b Work) int {
		pa, pb := rank(a.Priority), rank(b.Priority)
		return cmp.Or(cmp.Compare(pb, pa), a.Appeared.Compare(b.Appeared), strings.Compare(a.TaskID, b.TaskID))
	})
	return list, err
}

func rank(word string) protocol.Priority {
	p, _ := protocol.ParsePriority(word)
	return p
}

// takeable reports whether the request is open and nothing prevents a claim.
func (e *entry) takeable() bool {
	o, _ := e.ended()
	return e.request.Good && o == nil && !e.result.There && !e.held.There && !e.claim.There && !e.inHand() &&
		!e.cancelledInVain(o) && e.record.pending == ""
}

func (p *Project) work(e *entry) (Work, bool) {
	o, blob, err := p.Root.Load(e.files.request, maxFile)
	if err != nil || blob.Sum != e.request.Sum {
		return Work{}, false
	}
	w := Work{Request: requestOf(o), Raw: blob.Data, Attempt: e.attempt(), Sum: string(blob.Sum), Appeared: appeared(e.request.Stamp),
		Title: e.request.Value.title}
	w.TaskID = e.id
	for _, i := range e.request.Value.issues {
		w.Problems = append(w.Problems, i.text)
	}
	return w, true
}

// attempt returns the number of the next run, from 1, as the ledger counts.
func (e *entry) attempt() int {
	n := 1
	for _, k := range e.record.takings {
		if k.Committed {
			n++
		}
	}
	return n
}

// Claim takes a task. Exactly one of several claimants wins. A request that was meanwhile held, ended, changed or
// claimed gives ErrTaken. Claim writes current_task.json and logs the start of the task.
func (c *Client) Claim(ctx context.Context, w Work, k Claim, now time.Time) error {
	return c.guarded(ctx, now, func() error {
		p := c.p
		e := p.fresh(w.TaskID)
		if !e.takeable() || string(e.request.Sum) != w.Sum {
			return ErrTaken
		}
		k.Task, k.At, k.Attempt = w.TaskID, now.UTC(), e.attempt()
		if err := p.Root.Mkdir(claimsDir, 0o755); err != nil {
			return err
		}
		doc, err := jsonfile.Encode(claimOnDisk{k, identityOn(k.Worker), identityOn(k.Runner)})
		if err != nil {
			return err
		}
		if err := p.Root.Create(claimFile(k.Task), doc, 0o644); err != nil {
			if errors.Is(err, jsonfile.ErrExist) {
				return ErrTaken
			}
			return err
		}
		p.showCurrent(k.Agent)
		p.say("task_started", k.Task, k.Agent, w.Source, fmt.Sprintf("%s begins attempt %d", k.Agent, k.Attempt))
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
		return c.p.put(claimFile(id), claimOnDisk{k, identityOn(k.Worker), identityOn(k.Runner)})
	})
}

// Unclaim gives back a claimed task of which nothing was executed.
func (c *Client) Unclaim(ctx context.Context, id string, now time.Time) error {
	return c.guarded(ctx, now, func() error {
		k, err := c.p.claimOf(id)
		if err != nil {
			return err
		}
		if err := c.p.Root.Remove(claimFile(id)); err != nil {
			return err
		}
		c.p.showCurrent(k.Agent)
		c.p.say(eventReturned, id, k.Agent, "", k.Agent+" gives it back untouched")
		return nil
	})
}

// eventReturned is the log's event type for a claimed task that was given back: the task no longer counts as started.
const eventReturned = "task_returned"

// Holds reports whether the task is claimed with that mark. A claim that cannot be read for the moment counts as
// held.
func (c *Client) Holds(id, mark string) bool {
	if c.p.Open() != nil {
		return true
	}
	k, err := c.p.claimOf(id)
	if errors.Is(err, ErrNoTask) {
		return false
	}
	return err != nil || k.Mark == mark
}

// claimOf reads a task's claim. It returns ErrNoTask if there is none.
func (p *Project) claimOf(id string) (Claim, error) {
	if !plainID(id) {
		return Claim{}, ErrNoTask
	}
	o, _, err := p.Root.Load(claimFile(id), maxFile)
	if folder.Missing(err) {
		return Claim{}, ErrNoTask
	}
	if err != nil {
		return Claim{}, err
	}
	k := decodeClaim(o)
	k.Task = id
	return k, nil
}

// claims lists the claims whose task has no result, newest first.
func (p *Project) claims() []Claim {
	files, _, err := p.Root.List(claimsDir)
	if err != nil {
		return nil
	}
	var list []Claim
	for _, name := range files {
		id, ok := strings.CutSuffix(name, ".json")
		if !ok || p.over(id) {
			continue
		}
		if k, err := p.claimOf(id); err == nil {
			list = append(list, k)
		}
	}
	slices.SortFunc(list, func(a, b Claim) int { return cmp.Or(b.At.Compare(a.At), strings.Compare(a.Task, b.Task)) })
	return list
}
