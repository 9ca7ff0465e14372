package supervisor

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/livhana/steward/escalate/rules"
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

// translation is what the loop knows when it translates a command.
type translation struct {
	now       time.Time
	lease     time.Duration
	plan      *decide.Plan // the verdicts of the last decision
	snapshots iter.Seq[*protocol.Snapshot]
	unscanned bool // the project of the command's subject was not scanned yet
}

// translator turns a person's command into changes to files. It only reads.
type translator struct {
	translation
	command Command
	changes []protocol.Change
	matched int // the subjects that the command names
	refused error
	// wanted are the tasks without a result of which the person wants another run (TaskEnd.Wanted).
	wanted []protocol.Subject
}

// translate turns a command into changes, and into wishes for another run that no file can hold.
func translate(c Command, known translation) (changes []protocol.Change, wanted []protocol.Subject, err error) {
	t := &translator{translation: known, command: c}
	for snap := range known.snapshots {
		t.snapshot(snap)
	}
	switch nothing := t.matched == 0; {
	case nothing && c.Subject.ID == "" && c.Subject.Project == "" && c.Verb == "release":
		return nil, nil, nil // no projects, so nothing is held
	case nothing && c.Verb == "answer":
		return nil, nil, t.answerGone()
	case nothing:
		return nil, nil, fmt.Errorf("%s %q: %w", c.Verb, cmp.Or(c.Subject.ID, c.Subject.Project), ErrNoSubject)
	case t.matched > 1 && c.Subject.ID != "":
		return nil, nil, fmt.Errorf("%s %s: %w: several match; name it as project:kind/id or project:protocol:kind/id", c.Verb, c.Subject.ID, ErrRefused)
	}
	return t.changes, t.wanted, t.refused
}

// snapshot adds what the command changes in one snapshot.
func (t *translator) snapshot(snap *protocol.Snapshot) {
	c := &t.command
	switch {
	case c.Verb == "release" && c.Subject.ID == "" && c.Subject.Kind == "":
		if c.Subject.Project == "" || c.Subject.Project == snap.Project {
			t.changes = append(t.changes, byOperator(releases(snap), cmp.Or(c.Why, "released by you"))...)
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
		for _, subject := range subjectsOf(snap, c.Subject, c.Verb) {
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

// subjectsOf lists the agents and tasks of a snapshot that match a query. If both match, the kind counts that the verb
// applies to.
func subjectsOf(snap *protocol.Snapshot, q protocol.Query, verb string) []protocol.Subject {
	var tasks, agents []protocol.Subject
	for i := range snap.Tasks {
		if s := snap.Subject(protocol.KindTask, snap.Tasks[i].ID); q.Matches(s) {
			tasks = append(tasks, s)
		}
	}
	for i := range snap.Agents {
		if s := snap.Subject(protocol.KindAgent, snap.Agents[i].Name); q.Matches(s) {
			agents = append(agents, s)
		}
	}
	switch {
	case verb == "release" || len(tasks) == 0 || len(agents) == 0:
		return append(tasks, agents...)
	case verb == "hold":
		return agents
	}
	return tasks
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
	if i := slices.IndexFunc(snap.Tasks, func(t protocol.Task) bool { return t.ID == id }); i >= 0 {
		return &snap.Tasks[i]
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
