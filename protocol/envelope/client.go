package envelope

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
)

// Client acts in the protocol for an agent or for the orchestrator: it sends the document's messages. Steward's processes
// exclude each other by the guard lock. Only one goroutine at a time may use a Client.
type Client struct{ p *Project }

var _ protocol.Participant = (*Client)(nil)

// Connect returns a Client for the project at dir (absolute). It reads nothing yet.
func Connect(dir string, o Options) *Client {
	if o.Alive == nil {
		o.Alive = func(protocol.Identity) bool { return true }
	}
	return &Client{New(dir, o)}
}

// Close closes the open files.
func (c *Client) Close() { c.p.Close() }

// Join does nothing: the document has no list of agents.
func (c *Client) Join(context.Context, protocol.AgentRun, time.Time) error { return nil }

// Leave does nothing, for the same reason.
func (c *Client) Leave(context.Context, protocol.AgentRun, time.Time) error { return nil }

// open starts an operation. The message folder or the log must exist.
func (c *Client) open(now time.Time) error {
	p := c.p
	p.Begin(now)
	if err := p.Open(); err != nil {
		return err
	}
	files := folder.Files{Folder: p.Folder}
	if !files.Has(p.opts.Messages) && !files.Has(p.opts.Log) {
		return protocol.ErrAbsent
	}
	return nil
}

// read reads all messages. Messages of other processes may be a moment younger than the operation: its time follows them.
func (c *Client) read() {
	p := c.p
	p.inbox.readAll()
	p.notices.read()
	p.update("")
	for _, t := range p.board.live {
		for _, m := range t.messages {
			if m.at.Sub(p.Now) < time.Minute {
				p.Now = folder.Later(p.Now, m.at)
			}
		}
	}
}

// guarded runs act under the guard lock, after reading all messages.
func (c *Client) guarded(ctx context.Context, now time.Time, act func() error) error {
	if err := c.open(now); err != nil {
		return err
	}
	return c.p.Guarded(ctx, func() error {
		c.read()
		return act()
	})
}

// on runs act under the guard lock with an assigned task.
func (c *Client) on(ctx context.Context, id string, now time.Time, act func(*task) (string, error)) (r protocol.Receipt, err error) {
	err = c.guarded(ctx, now, func() error {
		t := c.p.board.tasks[id]
		if id == "" || t == nil || t.assigned == nil {
			return fmt.Errorf("task %s: %w", folder.Line(id, 80), protocol.ErrNoTask)
		}
		file, err := act(t)
		if err == nil {
			r = c.receipt(id, file)
		}
		return err
	})
	return r, err
}

// receipt says how a task stands after an action that wrote the file.
func (c *Client) receipt(id, file string) protocol.Receipt {
	r := protocol.Receipt{ID: id, State: protocol.TaskPending, Path: folder.Absolute(c.p.Folder, file)}
	c.p.notices.read()
	if t := c.p.update(id); t != nil && t.assigned != nil {
		a := c.assignment(t)
		r.State, r.Note = a.State, a.Waits
	}
	return r
}

// Show returns one task in any state. It returns ErrNoTask if no message assigns it.
func (c *Client) Show(_ context.Context, id string, now time.Time) (protocol.Assignment, error) {
	if err := c.open(now); err != nil {
		return protocol.Assignment{}, err
	}
	c.read()
	t := c.p.board.tasks[id]
	if id == "" || t == nil || t.assigned == nil {
		return protocol.Assignment{}, fmt.Errorf("task %s: %w", folder.Line(id, 80), protocol.ErrNoTask)
	}
	return c.withMessages(t), nil
}

// Pending lists the work that waits for an agent: new assignments, rejected work, and work that became free again. Work
// that may not be started now is listed last, with what it waits for.
func (c *Client) Pending(_ context.Context, agent string, now time.Time) ([]protocol.Assignment, error) {
	if err := c.open(now); err != nil {
		return nil, err
	}
	c.read()
	var list []protocol.Assignment
	for _, t := range c.p.board.live {
		if t.assigned != nil && (agent == "" || t.assigned.isFor(agent)) && c.free(t) {
			list = append(list, c.withMessages(t))
		}
	}
	return folder.MostUrgentFirst(list), nil
}

// free reports whether no agent has the task and its agent must act, now or once it need not wait any more.
func (c *Client) free(t *task) bool {
	if k := t.claim(); k != nil && (!k.Waiting || c.p.opts.Alive(k.Worker)) {
		return false
	}
	return !t.over() && !t.stopped && t.failed() == nil && (t.stage == stageAssigned || t.stage == stageRejected)
}

// waits says why a free task may not be started now; "" if it may be.
func (c *Client) waits(t *task) string {
	v := c.p.view()
	switch _, awaits := t.inHand(); {
	case awaits != "":
		return "waits for " + awaits
	case t.held() && v.block(t) == "":
		return "is held; release it with: steward release " + t.id
	}
	return v.block(t)
}

// isFor reports whether the assignment is for the agent.
func (m *message) isFor(agent string) bool {
	is := func(name string) bool { return agentName(name) == agentName(agent) }
	return is(m.to) || slices.ContainsFunc(m.also, is)
}

// assignment describes a task.
func (c *Client) assignment(t *task) protocol.Assignment {
	m := t.assigned
	a := protocol.Assignment{ID: t.id, Agent: m.to, Source: m.from, Type: strings.ToLower(m.word), Title: m.assignment.title,
		Priority: m.assignment.priority, Created: m.at, Attempt: 1, Path: folder.Absolute(c.p.Folder, m.file), State: protocol.TaskRunning}
	for _, lost := range c.p.works.attempts.Of(t.id) {
		a.Attempt = lost.N + 1
	}
	if k := t.claim(); k != nil {
		a.Worker = k.Worker
	}
	switch _, awaits := t.inHand(); {
	case t.cancelled != nil:
		a.State, a.Cancelled = protocol.TaskFailed, true
	case t.over():
		a.State = protocol.TaskDone
	case t.failed() != nil:
		a.State = protocol.TaskFailed
	case c.free(t):
		a.State = protocol.TaskPending
		if a.Waits = c.waits(t); a.Waits != "" {
			a.State = protocol.TaskWaiting
		}
	case awaits != "":
		a.State, a.Waits = protocol.TaskWaiting, "waits for "+awaits
	}
	return a
}

// withMessages is assignment with the texts: what was assigned, and what its agent must heed since then.
func (c *Client) withMessages(t *task) protocol.Assignment {
	a := c.assignment(t)
	a.Message, _ = t.assigned.text(c.p.Root)
	for _, m := range distinct(slices.Clone(t.messages)) {
		if m.compare(t.assigned) > 0 && (m.kind == rejects || m.kind == resolves) {
			if text, err := m.text(c.p.Root); err == nil {
				a.Feedback = append(a.Feedback, json.RawMessage(text))
			}
		}
	}
	return a
}
