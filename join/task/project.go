package task

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
)

// Project gives access to one project's tasks: a client for its files, and the daemon that supervises it, if any.
type Project struct {
	Dir    string
	Files  *agentstatus.Client
	Daemon *status.Client
	Now    func() time.Time
	// Agents scans the project's agents. It also returns the silence after which an agent counts as dead.
	Agents func(context.Context) (protocol.Snapshot, time.Duration, error)
	// MayLive returns false only for a process that is proved to be gone.
	MayLive func(protocol.Identity) bool
}

// Task reads one task; the beginning of its id is enough.
func (p *Project) Task(ctx context.Context, id string) (agentstatus.Detail, error) {
	return p.Files.Task(ctx, id, p.Now())
}

// Supervision gets the status from the supervising daemon, and the project's name there. supervised is false if no daemon
// runs, or it only observes.
func (p *Project) Supervision(ctx context.Context) (doc status.Document, project string, supervised bool) {
	if p.Daemon.Get(ctx, "/v1/status", &doc) != nil {
		return doc, "", false
	}
	for _, r := range doc.Projects {
		if r.Mode[agentstatus.Name] == "act" && platform.SameFolder(r.Path, p.Dir) {
			return doc, r.Name, true
		}
	}
	return doc, "", false
}

// Argument is the project argument for a command line to paste: "" if the current folder is the project.
func (p *Project) Argument() string {
	if here, err := filepath.Abs("."); err == nil && platform.SameFolder(here, p.Dir) {
		return ""
	}
	return p.Dir
}

// waitEvery is the poll interval of Wait without hints: a poll costs a few stat calls, and the bar shows a running clock.
const waitEvery = time.Second

// Wait waits for a task's end, see Waiter. File hints for the task folder shorten the wait; without them it only polls.
func (p *Project) Wait(ctx context.Context, id string, limit time.Duration, say func(News)) (agentstatus.Detail, error) {
	w := &Waiter{Now: p.Now, Every: waitEvery, Limit: limit, Say: say, Trouble: p.trouble, Decided: p.decided, Other: p.Task,
		Look: func(ctx context.Context) (agentstatus.Detail, error) { return p.Task(ctx, id) }}
	hints, stop, _ := Hints(Folders(p.Dir))
	defer stop()
	w.Hints = hints
	return w.Run(ctx)
}

// decided reports whether a failed task will not be retried. Without a daemon there are no retries.
func (p *Project) decided(ctx context.Context, detail agentstatus.Detail) bool {
	doc, project, supervised := p.Supervision(ctx)
	if !supervised {
		return true
	}
	for _, t := range doc.Tasks {
		if t.ID == detail.ID && t.Project == project && t.Protocol == agentstatus.Name {
			return t.State == protocol.TaskFailed || t.State == protocol.TaskDead || t.State == protocol.TaskDone
		}
	}
	return false
}

// trouble describes what prevents a task's agent from working on it; inError: the agent itself reports an error.
func (p *Project) trouble(ctx context.Context, detail agentstatus.Detail) (text string, inError bool) {
	if detail.Request == nil {
		return "", false
	}
	name := detail.Request.Target
	if doc, project, supervised := p.Supervision(ctx); supervised {
		return troubleSeen(doc, project, name)
	}
	return p.troubleInFiles(ctx, name)
}

func troubleSeen(doc status.Document, project, name string) (text string, inError bool) {
	for _, g := range doc.Agents {
		if g.Name != name || g.Project != project || g.Protocol != agentstatus.Name {
			continue
		}
		switch {
		case g.State == protocol.AgentDead, g.State == protocol.AgentHung:
			return fmt.Sprintf("%s is %s: %s", terminal.Clean(name), g.State, terminal.Clean(g.Why)), false
		case g.Status == "error":
			return joined(": ", terminal.Clean(name)+" says that it is in error", terminal.Clean(g.Error)), true
		}
		return "", false
	}
	return "", false
}

// troubleInFiles judges the agent by its own heartbeat and the configured limits.
func (p *Project) troubleInFiles(ctx context.Context, name string) (text string, inError bool) {
	snap, dead, err := p.Agents(ctx)
	if err != nil {
		return "", false
	}
	g, ok := snap.Agent(name)
	switch {
	case !ok || g.Beat.Mark == "":
		return terminal.Clean(name) + " has never shown a heartbeat here", false
	case g.Status == "error":
		return joined(": ", terminal.Clean(name)+" says that it is in error", terminal.Clean(g.Complaint)), true
	case g.Idle:
		return "", false
	}
	if silent := p.Now().Sub(g.Beat.Last()); silent > dead && !(g.Process.Proves() && p.MayLive(g.Process)) {
		return fmt.Sprintf("%s has shown no heartbeat for %s", terminal.Clean(name), Span(silent)), false
	}
	return "", false
}

// Complete finishes an order with what other tasks say: the next action that it takes up ("TASK[:N]", "" for none), and
// the full ids of the tasks that it comes after.
func (p *Project) Complete(ctx context.Context, o *Order, nextOf string, approved bool, after []string) error {
	if nextOf != "" {
		if err := p.takeUp(ctx, o, nextOf, approved); err != nil {
			return err
		}
	}
	for _, id := range after {
		before, err := p.Task(ctx, id)
		if err != nil {
			return fmt.Errorf("--after %s: %w", id, err)
		}
		o.After = append(o.After, before.ID)
	}
	return nil
}

func (p *Project) takeUp(ctx context.Context, o *Order, nextOf string, approved bool) error {
	id, n, err := ParseNext(nextOf)
	if err != nil {
		return &agentstatus.InvalidError{Problems: []string{"--next-of " + err.Error()}}
	}
	before, err := p.Task(ctx, id)
	if err != nil {
		return fmt.Errorf("--next-of %s: %w", id, err)
	}
	next, err := Next(before, n, approved)
	if errors.Is(err, ErrNeedsHuman) {
		return fmt.Errorf("next action %d of %s: %w; when it is agreed to, add --approved", n, before.ID, err)
	}
	if err != nil {
		return fmt.Errorf("next action %d of %s: %w", n, before.ID, err)
	}
	o.Follow(before, next)
	return nil
}

// ParseParameters reads KEY=VALUE pairs of a flag; nil for none.
func ParseParameters(flag string, pairs []string) (map[string]any, error) {
	var all map[string]any
	for _, pair := range pairs {
		key, value, err := Parameter(pair)
		if err != nil {
			return nil, &agentstatus.InvalidError{Problems: []string{flag + " " + err.Error()}}
		}
		if all == nil {
			all = map[string]any{}
		}
		all[key] = value
	}
	return all, nil
}
