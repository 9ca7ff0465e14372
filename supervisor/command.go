package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor/decide"
)

// Errors of an operator's command.
var (
	ErrNoSubject = errors.New("no such subject")
	ErrRefused   = errors.New("refused")
	ErrStopped   = errors.New("steward is stopping")
)

// Refuse makes an error one of what was refused. It reads as before.
func Refuse(err error) error { return refused{err} }

type refused struct{ error }

func (r refused) Unwrap() error { return r.error }

func (refused) Is(target error) bool { return target == ErrRefused }

// command is a change that a person asked for, and the channel for its outcome.
type command struct {
	change protocol.Change
	reply  chan error
}

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

// Command is an operator's command. retry, cancel and release apply to tasks (release without a subject: to everything
// held), hold and release to agents, pause and resume to projects (without a subject: to all), answer to the question
// or task of an incident. See docs/decisions.md, "Commands bypass Decide".
type Command struct {
	Verb    string
	Subject protocol.Query
	Why     string
	// Answer is what "answer" writes to the asker: about a question, or about a task (OptionRetry issues it again).
	Answer *protocol.Answer
	// Saw is the result that the answer refers to (the occurrence of an incident); "": the current one.
	Saw string
	// Try only checks whether the command could be carried out.
	Try bool
}

// Do carries out an operator's command and returns its outcome.
func (s *Supervisor) Do(ctx context.Context, c Command) error {
	return s.put(ctx, request{command: &c, reply: make(chan answer, 1)})
}

// Reload replaces settings and projects.
func (s *Supervisor) Reload(ctx context.Context, cfg decide.Config, projects []Project) error {
	return s.put(ctx, request{config: &cfg, projects: projects, reply: make(chan answer, 1)})
}

// Spoken counts a spoken message about a task of the project (Goals).
func (s *Supervisor) Spoken(ctx context.Context, project string) error {
	return s.put(ctx, request{spoken: project, reply: make(chan answer, 1)})
}

// put sends a request to the loop. The caller returns when its ctx ends, whatever hangs.
func (s *Supervisor) put(ctx context.Context, q request) error {
	select {
	case s.ask <- q:
	case <-s.stopped:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
	a := <-q.reply // the loop replies at once
	var errs []error
	for range a.n {
		select {
		case err := <-a.pending:
			errs = append(errs, err)
		case <-ctx.Done():
			return fmt.Errorf("the project does not answer yet; the change may still be made: %w", ctx.Err())
		case <-s.stopped:
			select {
			case err := <-a.pending:
				errs = append(errs, err)
			default:
				return ErrStopped
			}
		}
	}
	return cmp.Or(a.err, errors.Join(errs...))
}

// answer handles a request in the loop.
func (s *loop) answer(q request) {
	if q.config != nil {
		s.reload(*q.config, q.projects)
		q.reply <- answer{}
		return
	}
	if q.spoken != "" {
		s.countSpoken(q.spoken)
		q.reply <- answer{}
		return
	}
	if v := q.command.Verb; v == "pause" || v == "resume" {
		q.reply <- answer{err: s.pause(q.command.Subject, v == "pause", q.command.Why)}
		return
	}
	changes, err := s.translate(*q.command)
	if err != nil || q.command.Try {
		q.reply <- answer{err: err}
		return
	}
	replies := make(chan error, len(changes))
	for _, c := range changes {
		d := s.projects[c.Subject.Project]
		d.commands = append(d.commands, command{change: c, reply: replies})
	}
	q.reply <- answer{pending: replies, n: len(changes)}
}

// countSpoken adds to the tally. The next decision saves the memory.
func (s *loop) countSpoken(project string) {
	p, known := s.memory.Projects[project]
	if !known {
		return
	}
	p.Tally.Spoken++
	s.memory.Projects = maps.Clone(s.memory.Projects) // the State shares the old one
	s.memory.Projects[project] = p
	s.decide()
}

// reload replaces settings at once, and adds and removes projects.
func (s *loop) reload(cfg decide.Config, projects []Project) {
	s.cfg = cfg
	wanted := map[string]Project{}
	for _, p := range projects {
		wanted[p.Name] = p
	}
	for _, name := range s.names() {
		if p, ok := wanted[name]; !ok || p.Path != s.projects[name].project.Path {
			s.remove(s.projects[name])
			s.forget(name)
		}
	}
	for _, p := range projects {
		d, ok := s.projects[p.Name]
		if !ok {
			d = newProjectState(p)
			s.projects[p.Name] = d
		}
		// Modes and adapter settings may have changed: the scanner reopens the adapters.
		d.project, d.reopen, d.full = p, true, true
	}
	s.decide()
}

// forget drops what the capacity gate remembers of a removed project.
func (s *loop) forget(project string) {
	gate := s.memory.Gate
	gate.Held = maps.Clone(gate.Held) // the State shares the old one
	maps.DeleteFunc(gate.Held, func(subject protocol.Subject, _ capacity.Held) bool { return subject.Project == project })
	s.memory.Gate = gate
}
