package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/config"
	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status"
)

// hold is a task or an agent as read from its files while no steward runs.
type hold struct {
	subject protocol.Subject
	held    bool
	// by is the lease of a held task: after it any process may release the task.
	by      time.Time
	ref     protocol.Ref
	agent   string
	adapter protocol.Adapter
}

// holds are the tasks and agents of some projects, and the adapters that can change them.
type holds struct {
	all      []hold
	closers  []func()
	troubles []error
}

func (l *holds) close() {
	for _, c := range l.closers {
		c()
	}
}

// tasks are the held tasks.
func (l *holds) tasks() []*hold {
	var found []*hold
	for i := range l.all {
		if h := &l.all[i]; h.held && h.subject.Kind == protocol.KindTask {
			found = append(found, h)
		}
	}
	return found
}

// isStale reports whether the hold's lease has expired. A notice that names no lease counts as expired.
func (h *hold) isStale(now time.Time) bool { return now.After(h.by) }

// free releases the hold in the files.
func (h *hold) free(ctx context.Context, reason protocol.Reason, why string) error {
	c := protocol.Change{Verb: protocol.VerbRelease, Subject: h.subject, Reason: reason, Why: why, Ref: h.ref, Agent: h.agent}
	if h.subject.Kind == protocol.KindAgent {
		c.Verb = protocol.VerbResume
	}
	return h.adapter.Apply(ctx, c, time.Now())
}

// lookForHolds reads the projects' files. It omits what steward only observes, which it must not change.
func (a *app) lookForHolds(ctx context.Context) *holds {
	l := &holds{}
	cfg, paths, err := a.settings()
	if err != nil {
		cfg = config.Defaults()
		l.troubles = append(l.troubles, err)
	}
	l.look(ctx, a.knownProjects(cfg, paths), cfg)
	return l
}

// look adds the projects' tasks and agents.
func (l *holds) look(ctx context.Context, refs []config.ProjectRef, cfg config.Config) {
	for _, ref := range refs {
		project := daemon.OpenProject(ref, cfg, false)
		for _, name := range project.Detect() {
			s, err := project.Open(name)
			if err != nil {
				l.troubles = append(l.troubles, fmt.Errorf("open %s: %w", ref.Path, err))
				continue
			}
			l.closers = append(l.closers, s.Close)
			if !s.Act {
				continue
			}
			now := time.Now()
			snap := s.Adapter.Observe(ctx, protocol.Look{Now: now, Since: now.Add(-cfg.Tasks.History)})
			snap.Name(ref.Name, name, true)
			l.add(&snap, s.Adapter)
		}
	}
}

func (l *holds) add(snap *protocol.Snapshot, adapter protocol.Adapter) {
	for i := range snap.Tasks {
		t := &snap.Tasks[i]
		h := hold{subject: snap.Subject(protocol.KindTask, t.ID), ref: t.Ref, agent: t.Agent, adapter: adapter}
		if t.Hold != nil {
			h.held, h.by = true, t.Hold.ReleaseBy
		}
		l.all = append(l.all, h)
	}
	for i := range snap.Agents {
		g := &snap.Agents[i]
		l.all = append(l.all, hold{subject: snap.Subject(protocol.KindAgent, g.Name), held: g.Held != "", agent: g.Name, adapter: adapter})
	}
	for _, f := range snap.Faults {
		l.troubles = append(l.troubles, fmt.Errorf("read %s: %s", f.Path, f.Problem))
	}
}

// knownProjects are the folders that a steward of this user supervises: the folders of the configuration or else the
// current folder, and the folders of the last run, which may have come from its flags.
func (a *app) knownProjects(cfg config.Config, paths platform.Paths) []config.ProjectRef {
	refs, _, _ := daemon.Projects(cfg, nil, false) // with two rows for one folder, use only the projects of the last run
	return withLast(refs, cfg, paths)
}

// withLast adds the projects of the last run.
func withLast(refs []config.ProjectRef, cfg config.Config, paths platform.Paths) []config.ProjectRef {
	var last status.Document
	if _, err := status.ReadSnapshot(filepath.Join(paths.State, "status.json"), &last); err != nil {
		return refs
	}
	cfg.Projects = nil
	for _, r := range last.Projects {
		if !filepath.IsAbs(r.Path) || slices.ContainsFunc(refs, func(ref config.ProjectRef) bool { return platform.SameFolder(ref.Path, r.Path) }) {
			continue
		}
		row := config.Project{Path: r.Path, Name: r.Name, Mode: map[string]string{}}
		for name, mode := range r.Mode {
			if _, spoken := daemon.AdapterNamed(name); spoken {
				row.Mode[name] = mode
			}
		}
		cfg.Projects = append(cfg.Projects, row)
	}
	more, _ := cfg.ProjectList("", "")
	return append(refs, more...)
}
