package supervisor

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor/decide"
)

// translate turns a command into changes to files.
func (s *loop) translate(c Command) ([]protocol.Change, error) {
	var changes []protocol.Change
	var refused error
	matched := 0
	for _, name := range s.names() {
		for i := range s.projects[name].snapshots {
			snap := &s.projects[name].snapshots[i]
			if c.Verb == "release" && c.Subject.ID == "" && c.Subject.Kind == "" {
				if c.Subject.Project == "" || c.Subject.Project == snap.Project {
					changes = append(changes, byOperator(releases(snap), c.Why)...)
					matched++
				}
				continue
			}
			if c.Verb == "answer" {
				list, err := s.translateAnswer(c, snap)
				refused = cmp.Or(refused, err)
				if list != nil || err != nil {
					matched++
				}
				changes = append(changes, list...)
				continue
			}
			for _, subject := range meant(c.Verb, subjectsOf(snap, c.Subject)) {
				matched++
				change, err := s.translateOne(c, snap, subject)
				if err != nil {
					refused = err
					continue
				}
				changes = append(changes, change)
			}
		}
	}
	switch {
	case matched == 0 && c.Subject.ID == "" && c.Subject.Project == "" && c.Verb == "release":
		return nil, nil // no projects, so nothing is held
	case matched == 0 && c.Verb == "answer":
		return nil, s.answerNobody(c)
	case matched == 0:
		return nil, fmt.Errorf("%s %q: %w", c.Verb, cmp.Or(c.Subject.ID, c.Subject.Project), ErrNoSubject)
	case matched > 1 && c.Subject.ID != "":
		return nil, fmt.Errorf("%s %s: %w: several match; name it as project:kind/id or project:protocol:kind/id", c.Verb, c.Subject.ID, ErrRefused)
	case refused != nil:
		return nil, refused
	}
	return changes, nil
}

func byOperator(changes []protocol.Change, why string) []protocol.Change {
	for i := range changes {
		changes[i].Reason, changes[i].Why = protocol.ReasonOperator, cmp.Or(why, "released by you")
	}
	return changes
}

// subjectsOf lists the agents and tasks of a snapshot that match a query.
func subjectsOf(snap *protocol.Snapshot, q protocol.Query) []protocol.Subject {
	var found []protocol.Subject
	for i := range snap.Tasks {
		if s := snap.Subject(protocol.KindTask, snap.Tasks[i].ID); q.Matches(s) {
			found = append(found, s)
		}
	}
	for i := range snap.Agents {
		if s := snap.Subject(protocol.KindAgent, snap.Agents[i].Name); q.Matches(s) {
			found = append(found, s)
		}
	}
	return found
}

// meant drops the kind of subject that a verb never applies to, if a subject of the other kind has the same name.
func meant(verb string, found []protocol.Subject) []protocol.Subject {
	kind := protocol.KindTask
	switch verb {
	case "release":
		return found
	case "hold":
		kind = protocol.KindAgent
	}
	fit := slices.DeleteFunc(slices.Clone(found), func(s protocol.Subject) bool { return s.Kind != kind })
	if len(fit) == 0 {
		return found
	}
	return fit
}

func (s *loop) translateOne(c Command, snap *protocol.Snapshot, subject protocol.Subject) (protocol.Change, error) {
	change := protocol.Change{Subject: subject, Reason: protocol.ReasonOperator, Why: cmp.Or(c.Why, "asked for by you")}
	refuse := func(why string, args ...any) (protocol.Change, error) {
		return change, fmt.Errorf("%s %s: %w: %s", c.Verb, subject, ErrRefused, fmt.Sprintf(why, args...))
	}
	if !snap.Act {
		return refuse("steward only observes %s in this project", snap.Protocol)
	}
	if snap.Yield != "" {
		return refuse("%s", snap.Yield)
	}
	if subject.Kind == protocol.KindAgent {
		a, _ := snap.Agent(subject.ID)
		change.Agent = a.Name
		switch c.Verb {
		case "hold":
			change.Verb = protocol.VerbPause
		case "release":
			change.Verb = protocol.VerbResume
		default:
			return refuse("%s is an agent; name a task", subject.ID)
		}
		return change, nil
	}
	t := taskOf(snap, subject.ID)
	change.Ref, change.Agent = t.Ref, t.Agent
	state := s.plan.Tasks.Of(subject).State
	switch c.Verb {
	case "cancel":
		if state == protocol.TaskDone || t.Cancelled {
			return refuse("the task is over (%s)", state)
		}
		change.Verb = protocol.VerbCancel
		return change, nil
	case "release":
		if t.Hold == nil {
			return refuse("the task is not held (%s)", state)
		}
		change.Verb, change.Hold = protocol.VerbRelease, t.Hold.Reason
		return change, nil
	case "retry":
		return s.translateRetry(change, t, state, refuse)
	}
	return refuse("only agents can be held by hand; tasks are held by the capacity gate")
}

func taskOf(snap *protocol.Snapshot, id string) *protocol.Task {
	for i := range snap.Tasks {
		if snap.Tasks[i].ID == id {
			return &snap.Tasks[i]
		}
	}
	return &protocol.Task{ID: id}
}

// translateRetry issues a task again at the operator's request, beyond what the rules allow.
func (s *loop) translateRetry(change protocol.Change, t *protocol.Task, state protocol.TaskState, refuse func(string, ...any) (protocol.Change, error)) (protocol.Change, error) {
	now := s.now()
	switch {
	case t.Hold != nil && t.Hold.Reason == protocol.HoldBlocked:
		return refuse("it is held, not failed (%s); 'steward release %s' releases it all the same", cmp.Or(t.Block, "blocked"), t.ID)
	case t.Hold != nil:
		change.Verb = protocol.VerbRelease
		return change, nil
	case t.Foreign:
		if state == protocol.TaskDone || state == protocol.TaskPending {
			return refuse("there is nothing to retry (%s)", state)
		}
		if look := s.plan.Agents.Of(agentOf(change.Subject, t)); state == protocol.TaskRunning && t.Lost == "" && t.Outcome == nil && look.State != protocol.AgentDead {
			return refuse("it is in hand (%s), and %s is %s", t.Named, cmp.Or(t.Agent, "whoever has it"), cmp.Or(look.State, protocol.AgentUnknown))
		}
		change.Verb, change.Action, change.Rule, change.Code = protocol.VerbRequeue, protocol.ActionRetry, decide.RuleOperator, "OPERATOR"
		change.Attempt = len(decide.Committed(t)) + 1
		return change, nil
	case t.Outcome != nil && !t.Outcome.Succeeded() && t.Ref.Path != "":
		c := decide.ManualRetry(t, now, s.cfg.Tasks.Lease)
		c.Subject, c.Reason, c.Why = change.Subject, change.Reason, change.Why
		return c, nil
	case state == protocol.TaskRunning:
		look := s.plan.Agents.Of(agentOf(change.Subject, t))
		if look.State != protocol.AgentDead {
			return refuse("it is in flight and its agent %s is %s", t.Agent, look.State)
		}
		if err := s.want(change.Subject); err != nil {
			return change, err
		}
		change.Verb, change.Code, change.Twice = protocol.VerbConclude, rules.CodeAgentLost, !look.Proof
		return change, nil
	case t.Ref.Path == "":
		return refuse("its request is gone")
	}
	return refuse("there is nothing to retry (%s)", state)
}

func agentOf(task protocol.Subject, t *protocol.Task) protocol.Subject {
	return protocol.Subject{Project: task.Project, Protocol: task.Protocol, Kind: protocol.KindAgent, ID: t.Agent}
}

// want records that the operator asked for another run of a task without a result. When the result of its lost agent is
// written, the rules do not decide on it.
func (s *loop) want(subject protocol.Subject) error {
	m := s.memory.Tasks.Of(subject)
	m.Wanted = true
	s.memory.Tasks = s.memory.Tasks.With(subject, m)
	if err := s.save(); err != nil {
		return fmt.Errorf("remember the wish: %w", err)
	}
	return nil
}
