package supervisor

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor/decide"
)

// translator turns a person's command into changes to files. It only reads.
type translator struct {
	command   Command
	now       time.Time
	lease     time.Duration
	plan      *decide.Plan // the verdicts of the last decision
	unscanned bool         // the project of the command's subject was not scanned yet

	changes []protocol.Change
	matched int // the subjects that the command names
	refused error
	// wanted are the tasks without a result of which the person wants another run (TaskEnd.Wanted).
	wanted []protocol.Subject
}

// translate turns a command into changes, and remembers the wishes that no file can hold.
func (s *loop) translate(c Command) ([]protocol.Change, error) {
	t := &translator{command: c, now: s.now(), lease: s.cfg.Tasks.Lease, plan: &s.plan}
	if d := s.projects[c.Subject.Project]; d != nil {
		t.unscanned = d.scannedAt.IsZero()
	}
	for snap := range s.scanned() {
		t.snapshot(snap)
	}
	changes, err := t.result()
	if err != nil || len(t.wanted) == 0 || c.Try {
		return changes, err
	}
	for _, subject := range t.wanted {
		m := s.memory.Tasks.Of(subject)
		m.Wanted = true
		s.memory.Tasks = s.memory.Tasks.With(subject, m)
	}
	if err := s.save(); err != nil {
		return nil, fmt.Errorf("remember the wish: %w", err)
	}
	return changes, nil
}

// snapshot adds what the command changes in one snapshot.
func (t *translator) snapshot(snap *protocol.Snapshot) {
	c := &t.command
	switch {
	case c.Verb == "release" && c.Subject.ID == "" && c.Subject.Kind == "":
		if c.Subject.Project == "" || c.Subject.Project == snap.Project {
			t.changes = append(t.changes, byOperator(releases(snap), c.Why)...)
			t.matched++
		}
	case c.Verb == "answer":
		list, err := t.answer(snap)
		t.refused = cmp.Or(t.refused, err)
		if list != nil || err != nil {
			t.matched++
		}
		t.changes = append(t.changes, list...)
	default:
		for _, subject := range meant(c.Verb, subjectsOf(snap, c.Subject)) {
			t.matched++
			change, err := t.one(c.Verb, c.Why, snap, subject)
			if err != nil {
				t.refused = err
				continue
			}
			t.changes = append(t.changes, change)
		}
	}
}

func (t *translator) result() ([]protocol.Change, error) {
	switch c := &t.command; {
	case t.matched == 0 && c.Subject.ID == "" && c.Subject.Project == "" && c.Verb == "release":
		return nil, nil // no projects, so nothing is held
	case t.matched == 0 && c.Verb == "answer":
		return nil, t.answerGone()
	case t.matched == 0:
		return nil, fmt.Errorf("%s %q: %w", c.Verb, cmp.Or(c.Subject.ID, c.Subject.Project), ErrNoSubject)
	case t.matched > 1 && c.Subject.ID != "":
		return nil, fmt.Errorf("%s %s: %w: several match; name it as project:kind/id or project:protocol:kind/id", c.Verb, c.Subject.ID, ErrRefused)
	case t.refused != nil:
		return nil, t.refused
	}
	return t.changes, nil
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

// one is the change that a verb means for one agent or task.
func (t *translator) one(verb, why string, snap *protocol.Snapshot, subject protocol.Subject) (protocol.Change, error) {
	change := protocol.Change{Subject: subject, Reason: protocol.ReasonOperator, Why: cmp.Or(why, "asked for by you")}
	refuse := func(why string, args ...any) (protocol.Change, error) {
		return change, fmt.Errorf("%s %s: %w: %s", verb, subject, ErrRefused, fmt.Sprintf(why, args...))
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
		switch verb {
		case "hold":
			change.Verb = protocol.VerbPause
		case "release":
			change.Verb = protocol.VerbResume
		default:
			return refuse("%s is an agent; name a task", subject.ID)
		}
		return change, nil
	}
	task := taskOf(snap, subject.ID)
	change.Ref, change.Agent = task.Ref, task.Agent
	state := t.plan.Tasks.Of(subject).State
	switch verb {
	case "cancel":
		if state == protocol.TaskDone || task.Cancelled {
			return refuse("the task is over (%s)", state)
		}
		change.Verb = protocol.VerbCancel
		return change, nil
	case "release":
		if task.Hold == nil {
			return refuse("the task is not held (%s)", state)
		}
		change.Verb, change.Hold = protocol.VerbRelease, task.Hold.Reason
		return change, nil
	case "retry":
		return t.retry(change, task, state, refuse)
	}
	return refuse("only agents can be held by hand; tasks are held by the capacity gate")
}

func taskOf(snap *protocol.Snapshot, id string) *protocol.Task {
	for i := range snap.Tasks {
		if snap.Tasks[i].ID == id {
			return &snap.Tasks[i]
		}
	}
	return &protocol.Task{Request: protocol.Request{ID: id}}
}

// retry issues a task again at the operator's request, beyond what the rules allow.
func (t *translator) retry(change protocol.Change, task *protocol.Task, state protocol.TaskState, refuse func(string, ...any) (protocol.Change, error)) (protocol.Change, error) {
	switch {
	case task.Hold != nil && task.Hold.Reason == protocol.HoldBlocked:
		return refuse("it is held, not failed (%s); 'steward release %s' releases it all the same", cmp.Or(task.Block, "blocked"), task.ID)
	case task.Hold != nil:
		change.Verb = protocol.VerbRelease
		return change, nil
	case task.Foreign:
		if state == protocol.TaskDone || state == protocol.TaskPending {
			return refuse("there is nothing to retry (%s)", state)
		}
		if look := t.plan.Agents.Of(agentOf(change.Subject, task)); state == protocol.TaskRunning && task.Lost == "" && task.Outcome == nil && look.State != protocol.AgentDead {
			return refuse("it is in hand (%s), and %s is %s", task.Named, cmp.Or(task.Agent, "its agent"), cmp.Or(look.State, protocol.AgentUnknown))
		}
		change.Verb, change.Action, change.Rule, change.Code = protocol.VerbRequeue, protocol.ActionRetry, decide.RuleOperator, "OPERATOR"
		change.Attempt = len(decide.Committed(task)) + 1
		return change, nil
	case task.Outcome != nil && !task.Outcome.Succeeded() && task.Ref.Path != "":
		c := decide.ManualRetry(task, t.now, t.lease)
		c.Subject, c.Reason, c.Why = change.Subject, change.Reason, change.Why
		return c, nil
	case state == protocol.TaskRunning:
		look := t.plan.Agents.Of(agentOf(change.Subject, task))
		if look.State != protocol.AgentDead {
			return refuse("it is in flight and its agent %s is %s", task.Agent, look.State)
		}
		t.wanted = append(t.wanted, change.Subject)
		change.Verb, change.Code, change.Twice = protocol.VerbConclude, rules.CodeAgentLost, !look.Proof
		return change, nil
	case task.Ref.Path == "":
		return refuse("its request is gone")
	}
	return refuse("there is nothing to retry (%s)", state)
}

func agentOf(task protocol.Subject, t *protocol.Task) protocol.Subject {
	return protocol.Subject{Project: task.Project, Protocol: task.Protocol, Kind: protocol.KindAgent, ID: t.Agent}
}
