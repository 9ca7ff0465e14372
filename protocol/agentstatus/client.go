package agentstatus

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// ClientOptions configures a Client.
type ClientOptions struct {
	Guard folder.Guard // may be nil
	// Alive returns false only on proof that the process is dead. If Alive is nil, every process counts as alive.
	Alive func(protocol.Identity) bool
}

// Client acts for agents: it submits, claims, reports and ends tasks as protocol 000 requires, with files that every
// other client of the protocol understands. Steward's processes exclude each other by the guard lock. Only one
// goroutine at a time may use a Client.
type Client struct {
	p     *Project
	alive func(protocol.Identity) bool
}

// Connect returns a Client for the project at dir (absolute). It reads nothing yet.
func Connect(dir string, o ClientOptions) *Client {
	if o.Alive == nil {
		o.Alive = func(protocol.Identity) bool { return true }
	}
	return &Client{p: New(dir, Options{Guard: o.Guard}), alive: o.Alive}
}

// Close closes the open files.
func (c *Client) Close() { c.p.Close() }

// open starts an operation: the protocol's folder must exist.
func (c *Client) open(now time.Time) error {
	c.p.Begin(now)
	err := c.p.Open()
	if folder.Missing(err) {
		return ErrNotInitialized
	}
	if err == nil {
		c.p.probeAll()
	}
	return err
}

// guarded runs act under the guard lock, after a new probe of the folders.
func (c *Client) guarded(ctx context.Context, now time.Time, act func() error) error {
	if err := c.open(now); err != nil {
		return err
	}
	return c.p.Guarded(ctx, func() error {
		c.p.probeAll()
		return act()
	})
}

// NewTaskID returns a random UUID v4 (protocol 000, Task Request Schema).
func NewTaskID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

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
		return "", &InvalidError{Problems: []string{fmt.Sprintf("the request has %d bytes; the limit is %d", len(doc), maxRequest)}}
	}
	err = c.guarded(ctx, now, func() error {
		file, err = submitRequest(c.p, r, doc)
		return err
	})
	if err != nil {
		return "", err
	}
	return folder.Absolute(c.p.Folder, file), nil
}

func submitRequest(p *Project, r Request, doc []byte) (file string, err error) {
	e := p.tasks.fresh(r.TaskID)
	if e.exists() || p.Has(cancelledFile(r.TaskID)) || p.Has(attemptFile(r.TaskID, 1, "sched")) {
		return "", fmt.Errorf("task %s: %w", r.TaskID, jsonfile.ErrExist)
	}
	file = e.request.path
	if after := r.Coordination.After; len(after) > 0 {
		for _, id := range after { // each was requested here at some time
			if !plainID(id) || !p.tasks.fresh(id).exists() && !p.Has(attemptFile(id, 1, "result")) {
				return "", fmt.Errorf("--after %s: %w", folder.Line(id, 80), ErrNoTask)
			}
		}
		file = e.held.path
		// As with every hold, the notice comes first.
		err := p.putNotice(protocol.Change{Subject: protocol.Subject{Kind: protocol.KindTask, ID: e.id}, Hold: protocol.HoldBlocked,
			ReleaseBy: p.Now.Add(submitLease), Why: "waits for task " + folder.Line(after[0], 80)})
		if err != nil {
			return "", err
		}
	}
	if err := p.Root.Create(file, doc, 0o644); err != nil {
		return "", err
	}
	// The line is in the name of the requesting agent, which may be long dead. logged_by marks it as steward's, so
	// that a task submitted by hand is no sign of that agent's life.
	_ = p.log.write(logLine{EventType: eventCreated, TaskID: r.TaskID, Source: r.Source, Target: r.Target,
		Message: folder.Line(fmt.Sprintf("%s asks %s to %s", r.Source, r.Target, r.Type), 500), Metadata: map[string]any{"logged_by": ourName}})
	return file, nil
}

// Followed is one task that an orchestrator has delegated, as active_coordination.json lists it (protocol 000, File
// Locations; protocol 000 defines no schema for the file).
type Followed struct {
	Task     string    `json:"task_id"`
	Target   string    `json:"target_agent"`
	Type     string    `json:"request_type"`
	State    string    `json:"state"` // pending, held, running, ended
	Blocking bool      `json:"blocking"`
	Since    time.Time `json:"since"`
}

// coordinationFile is active_coordination.json.
type coordinationFile struct {
	Agent   string     `json:"agent_name"`
	Updated time.Time  `json:"updated_at"`
	Tasks   []Followed `json:"active_tasks"`
}

// Follow adds a delegated task to the orchestrator's active_coordination.json, whether or not the orchestrator waits
// for it. It removes the tasks that have ended.
func (c *Client) Follow(ctx context.Context, agent string, f Followed, now time.Time) error {
	return editCoordination(ctx, c, agent, f.Task, []Followed{f}, now)
}

// Unfollow removes a task from the orchestrator's active_coordination.json.
func (c *Client) Unfollow(ctx context.Context, agent, task string, now time.Time) error {
	return editCoordination(ctx, c, agent, task, nil, now)
}

func editCoordination(ctx context.Context, c *Client, agent, task string, add []Followed, now time.Time) error {
	if !plainID(agent) {
		return errors.New("no name for an agent")
	}
	return c.guarded(ctx, now, func() error {
		p := c.p
		p.agents.read()
		file := path.Join(p.agents.dirOf(agent), "active_coordination.json")
		o, _, err := p.Root.Load(file, maxFile)
		if err != nil && !unusable(err) {
			return err
		}
		var old coordinationFile
		folder.Fill(o, &old)
		doc := coordinationFile{Agent: agent, Updated: now.UTC()}
		for _, f := range old.Tasks {
			if f.Task != task && plainID(f.Task) && !p.Has(taskFile(f.Task, resultExt)) && !p.Has(archivedFile(f.Task, resultExt)) {
				doc.Tasks = append(doc.Tasks, f)
			}
		}
		doc.Tasks = append(doc.Tasks, add...)
		return p.Put(file, doc, jsonfile.Volatile)
	})
}

// abandoned reports whether it is proved that no process runs the claimed task any more.
func (c *Client) abandoned(k Claim) bool {
	all := k.processes()
	return len(all) > 0 && !slices.ContainsFunc(all, c.alive)
}
