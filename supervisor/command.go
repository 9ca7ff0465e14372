package supervisor

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor/decide"
)

// request is a call into the loop.
type request struct {
	command  *Command
	config   *decide.Config
	projects []Project
	spoken   string // the project of a task that was spoken about
	reply    chan answer
}

// answer is the loop's immediate reply. The outcomes of the ordered changes follow on pending.
type answer struct {
	err     error
	pending <-chan error
	n       int
}

// answer handles a request.
func (l *loop) answer(q request) {
	var a answer
	switch {
	case q.config != nil:
		l.reload(*q.config, q.projects)
	case q.spoken != "":
		l.countSpoken(q.spoken)
	case q.command.Verb == "pause", q.command.Verb == "resume":
		a.err = l.pause(q.command.Subject, q.command.Verb == "pause", q.command.Why)
	case q.command.Verb == "mode":
		a.err = l.setMode(*q.command)
	default:
		a = l.command(*q.command)
	}
	q.reply <- a
}

// command orders the changes that a command means, and remembers the wishes that no file can hold.
func (l *loop) command(c Command) answer {
	d := l.projects[c.Subject.Project]
	changes, wanted, err := translate(c, translation{now: l.now(), lease: l.cfg.Tasks.Lease, plan: &l.plan,
		snapshots: l.projects.scanned(), unscanned: d != nil && d.scannedAt.IsZero()})
	if err != nil || c.Try {
		return answer{err: err}
	}
	for _, subject := range wanted {
		m := l.memory.Tasks.Of(subject)
		m.Wanted = true
		l.memory.Tasks = l.memory.Tasks.With(subject, m)
	}
	remember := len(wanted) > 0
	for _, c := range changes {
		var more bool
		l.memory, more = l.memory.Ordered(c, l.now())
		remember = remember || more
	}
	if remember {
		if err := l.save(); err != nil {
			return answer{err: fmt.Errorf("remember the wish: %w", err)}
		}
	}
	l.memory = l.projects.countByHand(l.memory, c.Verb, changes)
	outcomes := make(chan error, len(changes))
	for _, c := range changes {
		next := &l.projects[c.Subject.Project].next
		next.commands = append(next.commands, command{change: c, reply: outcomes})
	}
	return answer{pending: outcomes, n: len(changes)}
}

// pause makes steward only observe a project (or all) until it is resumed. Holds are released first.
func (l *loop) pause(q protocol.Query, pause bool, why string) error {
	wanted := cmp.Or(q.ID, q.Project)
	found := false
	var failed []error
	for name, d := range l.projects.inOrder() {
		if wanted != "" && wanted != name {
			continue
		}
		found = true
		var err error
		if pause {
			err = l.deps.Orders.pauseProject(d, l.projects, cmp.Or(why, "paused by you"), &l.deps, l.now())
		} else {
			err = l.deps.Orders.resumeProject(d, l.projects, "", &l.deps)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("record the order about %s: %w", name, err))
		}
	}
	if !found {
		return fmt.Errorf("project %q: %w", wanted, ErrNoSubject)
	}
	for _, d := range l.projects {
		if !d.busy {
			d.next.changes = append(d.next.changes, failOpen(d, nil, l.deps.Orders.pausedWhy(d, l.projects) != "", l.now())...)
		}
		d.next.full = true
	}
	l.decide()
	return errors.Join(failed...)
}

// setMode records a person's order about a mode. Until the adapter is opened again in that mode, steward only observes.
func (l *loop) setMode(c Command) error {
	d := l.projects[c.Subject.Project]
	switch {
	case d == nil:
		return fmt.Errorf("project %q: %w", c.Subject.Project, ErrNoSubject)
	case !slices.ContainsFunc(d.speaks, func(s Spoken) bool { return s.Protocol == c.Subject.Protocol }):
		return fmt.Errorf("mode %s %s: %w: the project does not speak this protocol", c.Subject.Project, c.Subject.Protocol, ErrNoSubject)
	}
	if err := l.deps.Orders.setMode(d, l.projects, c, &l.deps, l.now()); err != nil {
		return fmt.Errorf("record the order about %s: %w", c.Subject.Project, err)
	}
	subject := decide.ProjectOf(c.Subject.Project)
	subject.Protocol = c.Subject.Protocol
	l.record.note(Entry{At: l.now(), Kind: "change", Subject: subject, Verb: "mode", State: string(c.Mode), Reason: string(protocol.ReasonOperator),
		Text: fmt.Sprintf("the mode of %s is %s now; %s", c.Subject.Protocol, cmp.Or(c.Mode, "the configured one"), cmp.Or(c.Why, "asked for by you"))})
	d.next.full = true
	l.decide()
	return nil
}

// countByHand counts the orders that carried tasks on which should have gone on by themselves.
func (all projects) countByHand(m decide.Memory, verb string, changes []protocol.Change) decide.Memory {
	for _, c := range changes {
		if verb != "cancel" && c.Subject.Kind == protocol.KindTask && all[c.Subject.Project].manages(c.Subject) {
			m = m.Tallied(c.Subject.Project, decide.Tally{ByHand: 1})
		}
	}
	return m
}

// countSpoken adds to the tally. The next decision saves the memory.
func (l *loop) countSpoken(project string) {
	l.memory = l.memory.Tallied(project, decide.Tally{Spoken: 1})
	l.decide()
}

// reload replaces settings at once, and adds and removes projects. Modes and adapter settings may have changed, so all
// adapters are opened again.
func (l *loop) reload(cfg decide.Config, projects []Project) {
	l.cfg = cfg
	wanted := map[string]Project{}
	for _, p := range projects {
		wanted[p.Name] = p
	}
	for name, d := range l.projects.inOrder() {
		if p, ok := wanted[name]; !ok || p.Path != d.project.Path {
			l.remove(d)
			gate := &l.memory.Gate
			gate.Held = maps.Clone(gate.Held) // the State shares the old one
			maps.DeleteFunc(gate.Held, func(subject protocol.Subject, _ capacity.Held) bool { return subject.Project == name })
		}
	}
	for name, p := range wanted {
		if l.projects[name] == nil {
			l.projects[name] = newProjectState(p)
		}
		d := l.projects[name]
		d.project, d.next.reopen = p, true
	}
	l.schedule.begin(l.now(), l.intervals())
	l.decide()
}
