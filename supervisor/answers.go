package supervisor

import (
	"fmt"
	"strings"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor/decide"
)

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
			t.add(change, mayAct(c.Verb, snap, change.Subject)) // an adapter that yields to another program still writes what a person orders
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
