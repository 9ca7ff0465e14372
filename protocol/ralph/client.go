package ralph

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

// Client takes part in protocol 002 beside the program: it adds tasks to the kanban, shows them, and marks those that no
// worker runs. Chief Wiggum itself takes the tasks and reports on them, so the rest of the interface is unsupported.
type Client struct{ p *Project }

var _ protocol.Participant = (*Client)(nil)

// Connect returns a Client for the project at dir (absolute). It reads nothing yet. Without Options.Flock it writes nothing.
func Connect(dir string, o Options) *Client {
	o.NoWatch = true
	p := New(dir, o)
	p.write.patience = commandWait
	return &Client{p}
}

// Close closes the open files.
func (c *Client) Close() { c.p.Close() }

// errTakes says that only the program itself takes tasks.
func errTakes(verb string) error {
	return fmt.Errorf("%s: %w: Chief Wiggum gives the tasks of the kanban to its workers itself; `wiggum run` or `wiggum worker start ID` starts one", verb, protocol.ErrUnsupported)
}

// Accept returns ErrUnsupported: the program takes its tasks itself.
func (c *Client) Accept(context.Context, string, protocol.Acceptance, time.Time) (protocol.Receipt, error) {
	return protocol.Receipt{}, errTakes("accept")
}

// Join does nothing: the program lists its workers by their folders and pid files, which it writes itself.
func (c *Client) Join(context.Context, protocol.AgentRun, time.Time) error { return nil }

// Leave does nothing, as Join.
func (c *Client) Leave(context.Context, protocol.AgentRun, time.Time) error { return nil }

// look reads everything. A kanban that is being rewritten is read again for two seconds.
func (c *Client) look(ctx context.Context, now time.Time) error {
	return folder.Whole(ctx, func() error {
		p := c.p
		p.Begin(now)
		if err := p.Open(); folder.Missing(err) {
			return fmt.Errorf("%s is missing: %w", Base, protocol.ErrAbsent)
		} else if err != nil {
			return err
		}
		p.board.file = jsonfile.Reading[[]item]{} // no earlier reading delays the present one
		p.read(true, nil)
		p.judge()
		switch {
		case p.board.file.Good:
			return nil
		case !p.board.file.There:
			return fmt.Errorf("%s/%s is missing: %w", Base, kanbanFile, protocol.ErrAbsent)
		}
		_, err := p.Root.Read(kanbanFile, maxKanban)
		return cmp.Or(err, fmt.Errorf("%w: %s/%s cannot be read as text", jsonfile.ErrTorn, Base, kanbanFile))
	})
}

// guarded reads everything under steward's guard lock and runs act.
func (c *Client) guarded(ctx context.Context, now time.Time, act func() error) error {
	if err := c.look(ctx, now); err != nil {
		return err
	}
	return c.p.Guarded(ctx, func() error {
		return errors.Join(c.look(ctx, now), act())
	})
}

// Submit adds a task to the kanban, under the kanban's lock (protocol 002, Kanban State Communication and File Locking).
// Without an id it takes the one after the highest in use. Errors: *protocol.InvalidError, ErrExist, ErrNoTask if a
// dependency is unknown, ErrAbsent, ErrNoFlock, and an error if another process keeps the lock for five seconds.
func (c *Client) Submit(ctx context.Context, o protocol.Order, now time.Time) (r protocol.Receipt, err error) {
	e := entryOf(o)
	if e.id = o.ID; e.id != "" && !isTaskID(e.id) {
		e.problems = append(e.problems, fmt.Sprintf("%q is not a task id: two to ten letters, a hyphen, one to four digits", folder.Line(e.id, 80)))
	}
	if len(e.problems) > 0 {
		return r, &protocol.InvalidError{Problems: e.problems}
	}
	err = c.guarded(ctx, now, func() error {
		return c.p.write.editKanban(ctx, func(old []byte) ([]byte, error) { return c.place(e, o.ID, old) })
	})
	if err != nil {
		return r, fmt.Errorf("submit: %w", err)
	}
	return protocol.Receipt{ID: e.id, State: protocol.TaskPending, Path: c.kanban()}, nil
}

// place adds an entry to the text of the kanban, with an id that is free in this text.
func (c *Client) place(e *taskEntry, id string, old []byte) ([]byte, error) {
	if old == nil {
		return nil, fmt.Errorf("%s/%s is missing: %w", Base, kanbanFile, protocol.ErrAbsent)
	}
	folders := slices.Sorted(maps.Keys(c.p.workers.all))
	if e.id = id; id == "" {
		next, err := nextID(old, folders)
		if err != nil {
			return nil, err
		}
		e.id = next
	} else if isUsed(old, folders, id) {
		return nil, fmt.Errorf("task %s: %w", id, jsonfile.ErrExist)
	}
	for _, dep := range e.after() {
		if _, err := itemOf(old, dep); err != nil && !isArchived(old, dep) {
			return nil, fmt.Errorf("--after %s: %w", dep, protocol.ErrNoTask)
		}
	}
	return e.addTo(old)
}

func (c *Client) kanban() string { return folder.Absolute(c.p.Folder, kanbanFile) }

// Pending lists the tasks to do, the most urgent first. Only "" is an agent here: the program chooses the worker.
func (c *Client) Pending(ctx context.Context, agent string, now time.Time) ([]protocol.Assignment, error) {
	if agent != "" && agent != orchestratorName {
		return nil, errTakes("next for " + folder.Line(agent, 80))
	}
	if err := c.look(ctx, now); err != nil {
		return nil, err
	}
	var list []protocol.Assignment
	for _, e := range c.p.board.open {
		if e.marker == todo {
			list = append(list, c.assignment(e))
		}
	}
	return folder.MostUrgentFirst(list), nil
}

// Show returns a task with its worker. Its message has the kanban's text, the workers, and of the newest one the latest
// result of each step and the checkpoint.
func (c *Client) Show(ctx context.Context, id string, now time.Time) (protocol.Assignment, error) {
	if err := c.look(ctx, now); err != nil {
		return protocol.Assignment{}, err
	}
	e, err := c.find(id)
	if err != nil {
		return protocol.Assignment{}, err
	}
	a := c.assignment(e)
	a.Message, err = c.message(e)
	return a, err
}

func (c *Client) find(id string) (*entry, error) {
	e := c.p.board.byID[id]
	switch {
	case e == nil:
		return nil, fmt.Errorf("task %s: %w", folder.Line(id, 80), protocol.ErrNoTask)
	case e.duplicate:
		return nil, fmt.Errorf("two lines of the kanban carry the id %s: %w", id, errAmbiguous)
	}
	return e, nil
}

var stateOf = map[byte]protocol.TaskState{todo: protocol.TaskPending, working: protocol.TaskRunning, approval: protocol.TaskWaiting,
	complete: protocol.TaskDone, failed: protocol.TaskFailed, dropped: protocol.TaskDead}

func (c *Client) assignment(e *entry) protocol.Assignment {
	a := protocol.Assignment{ID: e.id, Title: e.title, State: stateOf[e.marker], Priority: e.priority, Path: c.kanban(), Waits: c.waits(e), Cancelled: e.marker == dropped}
	runs := 0
	for _, w := range c.p.workers.all {
		if w.task == e.id && !w.plan {
			runs++
		}
	}
	a.Attempt = max(1, runs)
	if w := c.p.workers.newest(e.id); w != nil {
		a.Agent, a.Worker = w.name, w.session.leader
	}
	return a
}

// waits says why a task is not started or not complete.
func (c *Client) waits(e *entry) string {
	switch e.marker {
	case approval:
		return "approval of its pull request"
	case todo:
		return strings.Join(c.p.view().unmet(e), ", ")
	}
	return ""
}

// workerReport is one worker in the message of Show.
type workerReport struct {
	Worker     string            `json:"worker"`
	Presence   protocol.Presence `json:"presence"`
	Evidence   string            `json:"evidence,omitempty"`
	Folder     string            `json:"folder"`
	Resume     string            `json:"resume,omitempty"`
	Steps      []protocol.Step   `json:"steps,omitempty"`
	Checkpoint json.RawMessage   `json:"checkpoint,omitempty"`
	Blocked    []string          `json:"blocked,omitempty"`
}

// message is the document about a task: the protocol has none, so it is put together from what the files say.
func (c *Client) message(e *entry) (json.RawMessage, error) {
	blob, err := c.p.Root.Read(kanbanFile, maxKanban)
	if err != nil {
		return nil, err
	}
	doc := struct {
		Kanban  string         `json:"kanban"`
		Workers []workerReport `json:"workers,omitempty"`
	}{Kanban: textOf(blob.Data, e.id)}
	for _, w := range c.p.write.judgeRuns(e.id) {
		w.readReports(c.p.Folder)
		r := workerReport{Worker: w.name, Presence: w.session.presence, Evidence: w.session.evidence, Steps: w.steps(), Blocked: w.blocked.Value,
			Folder: folder.Absolute(c.p.Folder, w.dir()), Resume: strings.TrimPrefix(cmp.Or(w.givenUp(), c.p.view().resumes(w)), "; ")}
		if w.session.presence == protocol.PresenceHere {
			r.Resume = ""
		}
		if w.checkpoint.Good {
			if doc, err := c.p.Root.Read(w.checkpoint.file, maxFile); err == nil && json.Valid(doc.Data) {
				r.Checkpoint = doc.Data
			}
		}
		doc.Workers = append(doc.Workers, r)
	}
	return json.Marshal(doc)
}
