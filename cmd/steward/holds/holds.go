// Package holds releases held tasks and agents in the projects' files, where no daemon does.
package holds

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/config"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/supervisor"
)

// Hold is a task or an agent as read from its files while no steward runs.
type Hold struct {
	Subject protocol.Subject
	held    bool
	// by is the lease of a held task: after it any process may release the task.
	by      time.Time
	ref     protocol.Ref
	agent   string
	adapter protocol.Adapter
}

// List are the tasks and agents of some projects, and the adapters that can change them.
type List struct {
	all      []Hold
	closers  []func()
	troubles []error
}

func (l *List) Close() {
	for _, c := range l.closers {
		c()
	}
}

// Tasks are the held tasks.
func (l *List) Tasks() []*Hold {
	var found []*Hold
	for i := range l.all {
		if h := &l.all[i]; h.held && h.Subject.Kind == protocol.KindTask {
			found = append(found, h)
		}
	}
	return found
}

// isStale reports whether the hold's lease has expired. A notice that names no lease counts as expired.
func (h *Hold) isStale(now time.Time) bool { return now.After(h.by) }

// Free releases the hold in the files.
func (h *Hold) Free(ctx context.Context, reason protocol.Reason, why string) error {
	c := protocol.Change{Verb: protocol.VerbRelease, Subject: h.Subject, Reason: reason, Why: why, Judged: protocol.Judged{Ref: h.ref}, Agent: h.agent}
	if h.Subject.Kind == protocol.KindAgent {
		c.Verb = protocol.VerbResume
	}
	return h.adapter.Apply(ctx, c, time.Now())
}

// Read reads the projects' files. It omits what steward only observes, which it must not change.
func Read(ctx context.Context, a *cli.App) *List {
	l := &List{}
	cfg, paths, err := a.Settings()
	if err != nil {
		cfg = config.Defaults()
		l.troubles = append(l.troubles, err)
	}
	l.look(ctx, paths.State, a.KnownProjects(cfg, paths), cfg)
	return l
}

// look adds the projects' tasks and agents. state is steward's state folder.
func (l *List) look(ctx context.Context, state string, refs []config.ProjectRef, cfg config.Config) {
	_, modes, err := daemon.OrdersAbout(state, refs)
	if err != nil {
		l.troubles = append(l.troubles, err)
	}
	for _, ref := range refs {
		project := daemon.OpenProject(ref, cfg, false)
		for _, name := range project.Detect() {
			s, err := project.Open(name, modes[ref.Name][name].Mode)
			if err != nil {
				l.troubles = append(l.troubles, fmt.Errorf("open %s: %w", ref.Path, err))
				continue
			}
			l.closers = append(l.closers, s.Close)
			if s.Mode == protocol.ModeObserve {
				continue
			}
			now := time.Now()
			snap := s.Adapter.Observe(ctx, protocol.ScanOrder{Now: now, Since: now.Add(-cfg.Tasks.History)})
			snap.Name(ref.Name, name, true)
			l.add(&snap, s.Adapter)
		}
	}
}

func (l *List) add(snap *protocol.Snapshot, adapter protocol.Adapter) {
	for i := range snap.Tasks {
		t := &snap.Tasks[i]
		h := Hold{Subject: snap.Subject(protocol.KindTask, t.ID), ref: t.Ref, agent: t.Agent, adapter: adapter}
		if t.Hold != nil {
			h.held, h.by = true, t.Hold.ReleaseBy
		}
		l.all = append(l.all, h)
	}
	for i := range snap.Agents {
		g := &snap.Agents[i]
		l.all = append(l.all, Hold{Subject: snap.Subject(protocol.KindAgent, g.Name), held: g.Held != "", agent: g.Name, adapter: adapter})
	}
	for _, f := range snap.Faults {
		l.troubles = append(l.troubles, fmt.Errorf("read %s: %s", f.Path, f.Problem))
	}
}

// Named selects the holds that match a typed name; "" selects all held tasks.
func (l *List) Named(name string) ([]*Hold, error) {
	if name == "" {
		return l.Tasks(), nil
	}
	q := protocol.ParseQuery(name)
	var found []*Hold
	for i := range l.all {
		if q.Matches(l.all[i].Subject) {
			found = append(found, &l.all[i])
		}
	}
	switch {
	case len(found) == 0 && len(l.troubles) > 0:
		return nil, terminal.Report(supervisor.ErrNoSubject, "release %s: no such task or agent was found, and some projects could not be read: %v", name, errors.Join(l.troubles...))
	case len(found) == 0:
		return nil, terminal.Report(supervisor.ErrNoSubject, "release %s: there is no such task or agent in the projects of the configuration or the current folder", name)
	case len(found) > 1:
		return nil, terminal.Report(supervisor.ErrRefused, "release %s: %d things have this name; use project:kind/id", name, len(found))
	case !found[0].held:
		return nil, terminal.Report(supervisor.ErrRefused, "release %s: it is not held", name)
	}
	return found, nil
}
