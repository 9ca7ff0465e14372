package supervisor

import (
	"fmt"

	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/protocol"
)

// The options that steward itself offers for a task that needs a decision.
const (
	OptionRetry  = "retry"   // issue it again, whatever the rules say
	OptionLeave  = "leave"   // leave it as it is
	OptionDone   = "done"    // the human has taken care of it
	OptionWait   = "wait"    // for the rules to take their course
	OptionGiveUp = "give_up" // end the tasks of a dead agent
)

// ofFailure, ofDecision and ofDeath are what steward itself offers: for a task that failed for good, one that leaves
// something for the human to do, and an agent that died at its tasks.
func ofFailure() []escalate.Option {
	return []escalate.Option{{ID: OptionRetry, Label: "Run it again"}, {ID: OptionLeave, Label: "Leave it"}}
}

func ofDecision() []escalate.Option {
	return []escalate.Option{{ID: OptionDone, Label: "Taken care of"}, {ID: OptionRetry, Label: "Run it again"}}
}

func ofDeath() []escalate.Option {
	return []escalate.Option{{ID: OptionRetry, Label: "Issue its tasks again"}, {ID: OptionWait, Label: "Wait"},
		{ID: OptionGiveUp, Label: "Give its tasks up", Dangerous: true}}
}

// translateAnswer turns a human's answer into changes: the protocol's own reply, and another run if that was chosen.
// Nil changes without an error: the subject is not in this snapshot.
func (s *Supervisor) translateAnswer(c Command, snap *protocol.Snapshot) ([]protocol.Change, error) {
	change := protocol.Change{Verb: protocol.VerbAnswer, Reason: protocol.ReasonOperator, Answer: c.Answer,
		Why: fmt.Sprintf("%s answered: %s", c.Answer.By, clip(c.Answer.Label, maxSummary))}
	for i := range snap.Pleas {
		p := &snap.Pleas[i]
		if change.Subject = snap.Subject(protocol.KindPlea, p.ID); c.Subject.Matches(change.Subject) {
			change.Ref, change.Agent = p.Ref, p.Agent
			return []protocol.Change{change}, acts(c, snap, change.Subject) // a yielding adapter writes what a human wishes
		}
	}
	for i := range snap.Tasks {
		t := &snap.Tasks[i]
		if change.Subject = snap.Subject(protocol.KindTask, t.ID); c.Subject.Matches(change.Subject) {
			change.Ref, change.Agent = t.Ref, t.Agent
			return s.answerTask(c, snap, t, change)
		}
	}
	for i := range snap.Agents {
		if subject := snap.Subject(protocol.KindAgent, snap.Agents[i].Name); c.Subject.Matches(subject) {
			return s.answerDeath(c, snap, subject)
		}
	}
	return nil, nil
}

// answerTask has the decision written beside the task, where the protocol has a place for it, and the task issued again.
func (s *Supervisor) answerTask(c Command, snap *protocol.Snapshot, t *protocol.Task, change protocol.Change) ([]protocol.Change, error) {
	changes := []protocol.Change{}
	if err := s.mayWrite(c, snap, change.Subject); err != nil {
		if c.Answer.Option == OptionRetry {
			return changes, err
		}
		return changes, nil // to leave it as it is needs no leave to write
	}
	if !t.Foreign {
		changes = append(changes, change)
	}
	if c.Answer.Option != OptionRetry {
		return changes, nil
	}
	again, err := s.translateOne(Command{Verb: "retry", Why: change.Why}, snap, change.Subject)
	return append(changes, again), err
}

// answerDeath settles the tasks of a dead agent.
func (s *Supervisor) answerDeath(c Command, snap *protocol.Snapshot, agent protocol.Subject) ([]protocol.Change, error) {
	verb := map[string]string{OptionRetry: "retry", OptionGiveUp: "cancel"}[c.Answer.Option]
	changes := []protocol.Change{}
	if verb == "" {
		return changes, nil
	}
	if err := s.mayWrite(c, snap, agent); err != nil {
		return changes, err
	}
	var refused error
	for _, id := range openTasksOf(snap, agent.ID) {
		change, err := s.translateOne(Command{Verb: verb, Why: c.Answer.By + " answered: " + c.Answer.Label}, snap, snap.Subject(protocol.KindTask, id))
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

// mayWrite refuses where steward only observes, or yields to somebody.
func (s *Supervisor) mayWrite(c Command, snap *protocol.Snapshot, subject protocol.Subject) error {
	if err := acts(c, snap, subject); err != nil {
		return err
	}
	if snap.Yield != "" {
		return fmt.Errorf("%s %s: %w: %s", c.Verb, subject, ErrRefused, snap.Yield)
	}
	return nil
}

func acts(c Command, snap *protocol.Snapshot, subject protocol.Subject) error {
	if !snap.Act {
		return fmt.Errorf("%s %s: %w: steward only observes %s in this project; [project.mode] %s = \"act\" lets it write the answer",
			c.Verb, subject, ErrRefused, snap.Protocol, snap.Protocol)
	}
	return nil
}
