package supervisor

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
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
	// Occurrence is the one of the answered incident; an option that orders repairs is bound to it.
	Occurrence string
	// Mode is what "mode" sets for a protocol of a project; "" is the configured one.
	Mode protocol.Mode
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
	if c.Verb == "answer" && decide.IsRepair(c.Answer.Option) {
		return t.repair(), nil, t.refused
	}
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
		t.answer(snap)
	default:
		for _, subject := range subjectsOf(snap, c.Subject, c.Verb) {
			t.matched++
			t.add(t.one(c.Verb, c.Why, snap, subject))
		}
	}
}

// add takes a change, or why it is refused.
func (t *translator) add(c protocol.Change, err error) {
	if err != nil {
		t.refused = cmp.Or(t.refused, err)
		return
	}
	t.changes = append(t.changes, c)
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

func refuse(verb string, subject protocol.Subject, why string, args ...any) error {
	return fmt.Errorf("%s %s: %w: %s", verb, subject, ErrRefused, fmt.Sprintf(why, args...))
}

// mayAnswer refuses where nothing can be written. See docs/decisions.md, "A person's order is carried out in every mode".
func mayAnswer(verb string, snap *protocol.Snapshot, subject protocol.Subject) error {
	if snap.Hindered != "" {
		return refuse(verb, subject, "%s", snap.Hindered)
	}
	return nil
}

// mayWrite also refuses where an adapter yields to another program.
func mayWrite(verb string, snap *protocol.Snapshot, subject protocol.Subject) error {
	if err := mayAnswer(verb, snap, subject); err != nil || snap.Yield == "" {
		return err
	}
	return refuse(verb, subject, "%s", snap.Yield)
}

// one is the change that a verb means for one agent or task.
func (t *translator) one(verb, why string, snap *protocol.Snapshot, subject protocol.Subject) (change protocol.Change, err error) {
	change = protocol.Change{Subject: subject, Reason: protocol.ReasonOperator, Why: cmp.Or(why, "asked for by you")}
	if err := mayWrite(verb, snap, subject); err != nil {
		return change, err
	}
	if subject.Kind == protocol.KindAgent {
		change.Agent = subject.ID
		change.Verb = map[string]protocol.Verb{"hold": protocol.VerbPause, "release": protocol.VerbResume}[verb]
		if change.Verb == "" {
			return change, refuse(verb, subject, "%s is an agent; name a task", subject.ID)
		}
		return change, nil
	}
	i := slices.IndexFunc(snap.Tasks, func(task protocol.Task) bool { return task.ID == subject.ID })
	task, state := &snap.Tasks[i], t.plan.Tasks.Of(subject).State
	change.Ref, change.Agent = task.Ref, task.Agent
	switch verb {
	case "cancel":
		if state == protocol.TaskDone || task.Cancelled {
			return change, refuse(verb, subject, "the task is over (%s)", state)
		}
		change.Verb = protocol.VerbCancel
		return change, nil
	case "release":
		if task.Hold == nil {
			return change, refuse(verb, subject, "the task is not held (%s)", state)
		}
		change.Verb, change.Hold = protocol.VerbRelease, task.Hold.Reason
		return change, nil
	case "retry":
		return t.retry(change, task, state)
	}
	return change, refuse(verb, subject, "only agents can be held by hand; tasks are held by the capacity gate")
}

// retry issues a task again at the operator's request, beyond what the rules allow.
func (t *translator) retry(change protocol.Change, task *protocol.Task, state protocol.TaskState) (protocol.Change, error) {
	no := func(why string, args ...any) (protocol.Change, error) {
		return change, refuse("retry", change.Subject, why, args...)
	}
	agent := t.plan.Agents.Of(protocol.Subject{Project: change.Subject.Project, Protocol: change.Subject.Protocol, Kind: protocol.KindAgent, ID: task.Agent})
	dead := agent.State == protocol.AgentDead
	switch {
	case task.Hold != nil && task.Hold.Reason == protocol.HoldBlocked:
		return no("it is held, not failed (%s); 'steward release %s' releases it all the same", cmp.Or(task.Block, "blocked"), task.ID)
	case task.Hold != nil:
		change.Verb = protocol.VerbRelease
		return change, nil
	case task.Foreign && (state == protocol.TaskDone || state == protocol.TaskPending):
		return no("there is nothing to retry (%s)", state)
	case task.Foreign && state == protocol.TaskRunning && task.Lost == "" && task.Outcome == nil && !dead:
		return no("it is in hand (%s), and %s is %s", task.Named, cmp.Or(task.Agent, "its agent"), cmp.Or(agent.State, protocol.AgentUnknown))
	case task.Foreign:
		change.Verb, change.Action, change.Rule, change.Code = protocol.VerbRequeue, protocol.ActionRetry, decide.RuleOperator, "OPERATOR"
		change.Attempt = len(task.Committed()) + 1
		return change, nil
	case task.Outcome != nil && !task.Outcome.Succeeded() && task.Ref.Path != "":
		c := decide.ManualRetry(task, t.now, t.lease)
		c.Subject, c.Reason, c.Why = change.Subject, change.Reason, change.Why
		return c, nil
	case state == protocol.TaskRunning && !dead:
		return no("it is in flight and its agent %s is %s", task.Agent, agent.State)
	case state == protocol.TaskRunning:
		t.wanted = append(t.wanted, change.Subject)
		change.Verb, change.Code, change.Twice = protocol.VerbConclude, rules.CodeAgentLost, !agent.Proof
		return change, nil
	case task.Ref.Path == "":
		return no("its request is gone")
	}
	return no("there is nothing to retry (%s)", state)
}

// NoSteering says why an answer is refused that stops a task or changes its requirements.
const NoSteering = "the agent cannot be told to stop or given other requirements by this answer (--stop, --requirement)"

// answer turns a person's answer into changes: the protocol's own reply, and another run if the person chose that.
func (t *translator) answer(snap *protocol.Snapshot) {
	c := &t.command
	change := protocol.Change{Verb: protocol.VerbAnswer, Reason: protocol.ReasonOperator, Answer: c.Answer,
		Why: fmt.Sprintf("%s answered: %s", c.Answer.By, rules.Shorten(c.Answer.Label, rules.MaxSummary))}
	matches := func(kind protocol.Kind, id string) bool {
		change.Subject = snap.Subject(kind, id)
		return c.Subject.Matches(change.Subject)
	}
	for i := range snap.Questions {
		if p := &snap.Questions[i]; matches(protocol.KindQuestion, p.ID) {
			t.matched++
			change.Ref, change.Agent = p.Ref, p.Agent
			if c.Answer.Steers() && !p.Steers {
				t.add(change, refuse(c.Verb, change.Subject, "%s; protocol %s has no such message", NoSteering, snap.Protocol))
				return
			}
			t.add(change, mayAnswer(c.Verb, snap, change.Subject)) // an adapter that yields to another program still writes what a person orders
			return
		}
	}
	for i := range snap.Tasks {
		if task := &snap.Tasks[i]; matches(protocol.KindTask, task.ID) {
			t.matched++
			change.Ref, change.Agent = task.Ref, task.Agent
			if task.Outcome != nil {
				change.Ref = task.Outcome.Ref // the person decides about the way it ended
			}
			t.answerTask(snap, task, change)
			return
		}
	}
	for i := range snap.Agents {
		if matches(protocol.KindAgent, snap.Agents[i].Name) {
			t.matched++
			t.answerDeath(snap, change.Subject)
			return
		}
	}
}

// answerTask writes the decision beside the task, where the protocol has a place for it, and issues the task again.
// See docs/decisions.md, ""Run it again" records the decision before the retry".
func (t *translator) answerTask(snap *protocol.Snapshot, task *protocol.Task, change protocol.Change) {
	c := &t.command
	retry := c.Answer.Option == decide.OptionRetry
	// A task that failed without a result of its own was asked about with the time of that failure after its sum.
	if c.Saw != "" && task.Outcome != nil && task.Outcome.Ref.Sum != c.Saw && !strings.HasPrefix(c.Saw, task.Outcome.Ref.Sum+" ") {
		t.refused = refuse(c.Verb, change.Subject, "its result is no longer the one that was asked about")
		return
	}
	if err := mayWrite(c.Verb, snap, change.Subject); err != nil {
		if retry || c.Answer.Option == decide.OptionComplete {
			t.refused = err
		}
		return // leaving it as it is writes nothing
	}
	if task.Answers || !task.Foreign {
		t.changes = append(t.changes, change)
	}
	switch {
	case retry && !task.Answers:
		t.add(t.one("retry", change.Why, snap, change.Subject))
	case retry && c.Try: // later this answer itself may have issued it again
		_, t.refused = t.one("retry", "", snap, change.Subject)
	}
}

// answerDeath settles the tasks of a dead agent: those that can be. It is refused if none can.
func (t *translator) answerDeath(snap *protocol.Snapshot, agent protocol.Subject) {
	c := &t.command
	verb := map[string]string{decide.OptionRetry: "retry", decide.OptionGiveUp: "cancel"}[c.Answer.Option]
	if verb == "" {
		return
	}
	if t.refused = mayWrite(c.Verb, snap, agent); t.refused != nil {
		return
	}
	for _, task := range decide.OpenTasksOf(snap, agent.ID) {
		t.add(t.one(verb, c.Answer.By+" answered: "+c.Answer.Label, snap, snap.Subject(protocol.KindTask, task.ID)))
	}
	if len(t.changes) > 0 {
		t.refused = nil
	}
}

// repair makes the changes that an option of an incident stands for those that a person asked for. The last decision planned
// them, and the adapter compares the files with what was judged before it writes.
func (t *translator) repair() []protocol.Change {
	a := t.command.Answer
	for _, o := range t.plan.Offers {
		switch {
		case o.Key != a.Key || o.Option != a.Option:
			continue
		case o.Occurrence != t.command.Occurrence:
			t.refused = fmt.Errorf("answer %s: %w: the waiting changes differ from those that the incident showed; read them with 'steward explain incident/%s' and answer again", a.Key, ErrRefused, a.Key)
			return nil
		}
		changes := slices.Clone(o.Changes)
		for i := range changes {
			changes[i].Reason, changes[i].Why = protocol.ReasonOperator, changes[i].Why+"; "+a.By+" answered: "+a.Label
		}
		return changes
	}
	if t.refused = fmt.Errorf("answer %s: %w: the repair that this option orders is no longer needed", a.Key, ErrRefused); t.unscanned {
		t.refused = t.answerGone()
	}
	return nil
}

// answerGone judges an answer about a subject that no snapshot shows any more. An answer that only settles an incident
// needs no reader; a subject in a project that was not scanned yet may still appear.
func (t *translator) answerGone() error {
	c := &t.command
	if t.unscanned {
		return fmt.Errorf("answer %s: the project %s has not been scanned yet", c.Subject.ID, c.Subject.Project)
	}
	switch c.Answer.Option {
	case decide.OptionDone, decide.OptionLeave, decide.OptionWait:
		if c.Subject.Kind != protocol.KindQuestion {
			return nil
		}
	}
	return fmt.Errorf("answer %q: %w", c.Subject.ID, ErrNoSubject)
}
