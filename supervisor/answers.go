package supervisor

import (
	"fmt"
	"strings"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor/decide"
)

// NoSteering says why an answer is refused that stops a task or changes its requirements.
const NoSteering = "the agent cannot be told to stop or given other requirements by this answer (--stop, --requirement)"

// answer turns a person's answer into changes: the protocol's own reply, and another run if the person chose that.
// Nil changes without an error mean that the subject is not in this snapshot.
func (t *translator) answer(snap *protocol.Snapshot) ([]protocol.Change, error) {
	c := &t.command
	change := protocol.Change{Verb: protocol.VerbAnswer, Reason: protocol.ReasonOperator, Answer: c.Answer,
		Why: fmt.Sprintf("%s answered: %s", c.Answer.By, decide.Clip(c.Answer.Label, decide.MaxSummary))}
	for i := range snap.Questions {
		p := &snap.Questions[i]
		if change.Subject = snap.Subject(protocol.KindQuestion, p.ID); c.Subject.Matches(change.Subject) {
			if c.Answer.Steers() && !p.Steers {
				return []protocol.Change{}, fmt.Errorf("%s %s: %w: %s; protocol %s has no such message", c.Verb, change.Subject, ErrRefused, NoSteering, snap.Protocol)
			}
			change.Ref, change.Agent = p.Ref, p.Agent
			return []protocol.Change{change}, acts(c, snap, change.Subject) // an adapter that yields to another program still writes what a person orders
		}
	}
	for i := range snap.Tasks {
		task := &snap.Tasks[i]
		if change.Subject = snap.Subject(protocol.KindTask, task.ID); c.Subject.Matches(change.Subject) {
			change.Ref, change.Agent = task.Ref, task.Agent
			if task.Outcome != nil {
				change.Ref = task.Outcome.Ref // the person decides about the way it ended
			}
			return t.answerTask(snap, task, change)
		}
	}
	for i := range snap.Agents {
		if subject := snap.Subject(protocol.KindAgent, snap.Agents[i].Name); c.Subject.Matches(subject) {
			return t.answerDeath(snap, subject)
		}
	}
	return nil, nil
}

// answerTask writes the decision beside the task, where the protocol has a place for it, and issues the task again.
// See docs/decisions.md, ""Run it again" records the decision before the retry".
func (t *translator) answerTask(snap *protocol.Snapshot, task *protocol.Task, change protocol.Change) ([]protocol.Change, error) {
	c := &t.command
	changes := []protocol.Change{}
	// A task that failed without a result of its own was asked about with the time of that failure after its sum.
	if c.Saw != "" && task.Outcome != nil && task.Outcome.Ref.Sum != c.Saw && !strings.HasPrefix(c.Saw, task.Outcome.Ref.Sum+" ") {
		return changes, fmt.Errorf("%s %s: %w: its result is no longer the one that was asked about", c.Verb, change.Subject, ErrRefused)
	}
	if err := mayWrite(c, snap, change.Subject); err != nil {
		if c.Answer.Option == decide.OptionRetry || c.Answer.Option == decide.OptionComplete {
			return changes, err
		}
		return changes, nil // leaving it as it is writes nothing
	}
	if task.Answers {
		if c.Try && c.Answer.Option == decide.OptionRetry { // later this answer itself may have issued it again
			if _, err := t.one("retry", "", snap, change.Subject); err != nil {
				return changes, err
			}
		}
		return append(changes, change), nil
	}
	if !task.Foreign {
		changes = append(changes, change)
	}
	if c.Answer.Option != decide.OptionRetry {
		return changes, nil
	}
	again, err := t.one("retry", change.Why, snap, change.Subject)
	return append(changes, again), err
}

// answerDeath settles the tasks of a dead agent.
func (t *translator) answerDeath(snap *protocol.Snapshot, agent protocol.Subject) ([]protocol.Change, error) {
	c := &t.command
	verb := map[string]string{decide.OptionRetry: "retry", decide.OptionGiveUp: "cancel"}[c.Answer.Option]
	changes := []protocol.Change{}
	if verb == "" {
		return changes, nil
	}
	if err := mayWrite(c, snap, agent); err != nil {
		return changes, err
	}
	var refused error
	for _, task := range decide.OpenTasksOf(snap, agent.ID) {
		change, err := t.one(verb, c.Answer.By+" answered: "+c.Answer.Label, snap, snap.Subject(protocol.KindTask, task.ID))
		if err != nil {
			refused = err
			continue
		}
		changes = append(changes, change)
	}
	if len(changes) == 0 {
		return changes, refused
	}
	return changes, nil
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

// mayWrite refuses where steward only observes, or yields to another program.
func mayWrite(c *Command, snap *protocol.Snapshot, subject protocol.Subject) error {
	if err := acts(c, snap, subject); err != nil {
		return err
	}
	if snap.Yield != "" {
		return fmt.Errorf("%s %s: %w: %s", c.Verb, subject, ErrRefused, snap.Yield)
	}
	return nil
}

func acts(c *Command, snap *protocol.Snapshot, subject protocol.Subject) error {
	if !snap.Act {
		return fmt.Errorf("%s %s: %w: steward only observes %s in this project; [project.mode] %s = \"act\" lets it write the answer",
			c.Verb, subject, ErrRefused, snap.Protocol, snap.Protocol)
	}
	return nil
}
