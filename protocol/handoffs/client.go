package handoffs

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Client acts in protocol 001 for its agents and for the orchestrator. Steward's processes exclude each other by the guard
// lock; against other clients a rename decides who takes a handoff. An action that a crash cut short is completed by the
// next action of any Client. Only one goroutine at a time may use a Client.
type Client struct {
	p     *Project
	act   performer
	write composer
}

var _ protocol.Orchestrator = (*Client)(nil)
var _ protocol.Participant = (*Client)(nil)

// Connect returns a Client for the project at dir (absolute). It reads nothing yet.
func Connect(dir string, o Options) *Client {
	p := New(dir, o)
	return &Client{p, performer{p}, composer{p}}
}

// Close closes the open files.
func (c *Client) Close() { c.p.Close() }

// open starts an operation. The folder must exist.
func (c *Client) open(ctx context.Context, now time.Time) error {
	p := c.p
	if _, there := p.Scan(ctx, protocol.ScanOrder{Now: now}); !there {
		if err := p.Open(); !folder.Missing(err) {
			return err
		}
		return protocol.ErrAbsent
	}
	if p.Needs(boxDir) != nil {
		return protocol.ErrAbsent
	}
	c.read()
	return nil
}

func (c *Client) read() {
	p := c.p
	p.state.read()
	p.log.read()
	p.attempts.Refresh(p.Root, &p.Patience, p.Now)
	p.claims.read()
	p.boxes.read(nil)
	if p.began.IsZero() {
		p.began = p.Now
	}
	p.boxes.retire()
}

// guarded runs act under the guard lock, on the present files, after the completion of actions that a crash cut short. A
// state file must be a JSON document, because an action that cannot update it would be half done.
func (c *Client) guarded(ctx context.Context, now time.Time, act func() error) error {
	if err := c.open(ctx, now); err != nil {
		return err
	}
	if _, _, err := c.p.state.whole(ctx); err != nil && !folder.Missing(err) {
		return fmt.Errorf("state: %w", err)
	}
	return c.p.Guarded(ctx, func() error {
		c.read()
		c.act.repair()
		return act()
	})
}

// settled opens the folder for a reader. It completes actions that a crash cut short.
func (c *Client) settled(ctx context.Context, now time.Time) error {
	if err := c.open(ctx, now); err != nil {
		return err
	}
	for _, k := range c.p.claims.records {
		if k.Intent != nil {
			return c.guarded(ctx, now, func() error { return nil })
		}
	}
	return nil
}

// Submit writes a message and updates the state file (protocol 001, Agent Lifecycle, Completion). Without From and To it is
// the user's request to the orchestrator. A task handoff begins a workflow if none runs.
func (c *Client) Submit(ctx context.Context, o protocol.Order, now time.Time) (r protocol.Receipt, err error) {
	if len(o.After) > 0 {
		return r, fmt.Errorf("%w: protocol 001 has no order between handoffs; submit it when %s is completed", protocol.ErrUnsupported, o.After[0])
	}
	err = c.guarded(ctx, now, func() error {
		doc, err := c.write.compose(o)
		if err != nil {
			return err
		}
		v, _ := jsonfile.Parse(doc)
		m := decodeMessage(v, "")
		if c.p.boxes.exists(m.id) {
			return fmt.Errorf("handoff %s: %w", m.id, jsonfile.ErrExist)
		}
		r = c.receipt(m.id, protocol.TaskPending, "")
		return c.act.carryOut(claimRecord{Intent: c.write.sending(&m, doc)})
	})
	return c.located(r), err
}

// sending is the action that creates a message.
func (p composer) sending(m *handoffMessage, doc []byte) *intent {
	in := &intent{At: p.Now, Messages: rawList(doc)}
	if !m.isWork() {
		return in
	}
	in.State = stateChange{Last: m.id, Iteration: m.work.iteration}
	if w := &p.state.current().workflow; !w.running() && m.kind == typeTask && !strings.EqualFold(m.to, orchestrator) {
		in.State.Begin = &workflowDoc{cmp.Or(m.work.id, workflowOf(m.id)), cmp.Or(m.work.kind, workflowFeature), jsonfile.FormatTime(p.Now), m.work.spec}
		in.State.Iteration = max(m.work.iteration, 1)
	}
	return in
}

// Pending lists the handoffs that wait for an agent. For the orchestrator it also lists the messages that it must act on.
func (c *Client) Pending(ctx context.Context, agent string, now time.Time) ([]protocol.Assignment, error) {
	if err := c.settled(ctx, now); err != nil {
		return nil, err
	}
	var list []protocol.Assignment
	v := c.p.view()
	for _, h := range v.handoffs {
		m := &h.Value
		wanted := m.isWork() || strings.EqualFold(m.to, orchestrator) && (m.kind == typeCompletion || m.kind == typeAnswer)
		if wanted && h.where() == pending && !m.stopped() && (agent == "" || strings.EqualFold(m.to, agent)) {
			list = append(list, c.assignment(v, h))
		}
	}

	return folder.MostUrgentFirst(list), nil
}

// Show returns a message in any state.
func (c *Client) Show(ctx context.Context, id string, now time.Time) (a protocol.Assignment, err error) {
	if err := c.settled(ctx, now); err != nil {
		return a, err
	}
	h, err := c.find(id)
	if err != nil {
		return a, err
	}
	return c.assignment(c.p.view(), h), nil
}

// find returns the message with that id, also one that ended long ago.
func (c *Client) find(id string) (*handoff, error) {
	b := c.p.boxes
	if h := c.p.view().find(id); h != nil {
		return h, nil
	}
	for file, k := range b.closed {
		if k.message == nil || k.message.id != id {
			continue
		}
		h := b.newHandoff(k.box, file)
		if b.load(h); h.counts() {
			return h, nil
		}
	}
	return nil, fmt.Errorf("handoff %s: %w", folder.Line(id, 80), protocol.ErrNoTask)
}

// assignment describes a message.
func (c *Client) assignment(v *view, h *handoff) protocol.Assignment {
	m := &h.Value
	a := protocol.Assignment{ID: m.id, Agent: m.to, Source: m.from, Type: m.kind, Title: m.title, Priority: m.priority, State: protocol.TaskPending,
		Created: capped(m.created.By(h.appeared), v.now), Attempt: 1 + len(c.p.attempts.Of(m.id)), Path: folder.Absolute(c.p.Folder, h.file)}
	a.Message = c.text(h)
	for _, answer := range v.answers(h) {
		a.Feedback = append(a.Feedback, c.text(answer))
	}
	switch at := h.where(); {
	case m.status == statusRejected:
		a.State, a.Waits = protocol.TaskWaiting, awaitsRejected(m)
	case m.status == statusFailed, m.status == statusCancelled:
		a.State, a.Cancelled = protocol.TaskFailed, m.status == statusCancelled
	case at == completed:
		a.State = protocol.TaskDone
	case at == accepted:
		a.State = protocol.TaskRunning
		if k, ok := c.p.claims.records[m.id]; ok && k.worker(h) != nil {
			a.Worker = *k.worker(h)
		}
	default:
		if a.Waits = v.waits(h); a.Waits != "" {
			a.State = protocol.TaskWaiting
		}
	}
	return a
}

// text returns a message as it stands in its file; nil if that has changed.
func (c *Client) text(h *handoff) []byte {
	blob, err := c.p.Root.Read(h.file, maxFile)
	if err != nil || blob.Sum != h.Sum {
		return nil
	}
	return blob.Data
}

// receipt describes what was done; its path is found by located.
func (c *Client) receipt(id string, state protocol.TaskState, note string) protocol.Receipt {
	return protocol.Receipt{ID: id, State: state, Note: note}
}

// located completes a receipt with the present place of its message.
func (c *Client) located(r protocol.Receipt) protocol.Receipt {
	if r.ID == "" || c.p.Root == nil {
		return r
	}
	c.p.boxes.read(nil)
	if h, err := c.find(r.ID); err == nil {
		r.Path = folder.Absolute(c.p.Folder, h.file)
	}
	switch _, err := c.p.Root.Stat(stateFile); {
	case folder.Missing(err):
		r.Note = strings.TrimPrefix(r.Note+"; .claude/state.json does not exist and was not created (steward boot creates it)", "; ")
	case !c.p.state.current().ours:
		r.Note = strings.TrimPrefix(r.Note+"; .claude/state.json belongs to another tool and was not changed", "; ")
	}
	return r
}
