package decide

import (
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// The options that steward itself offers for a task that needs a decision.
const (
	OptionRetry    = "retry"    // issue it again, whatever the rules say
	OptionComplete = "complete" // the work itself is done: what waits for it may begin
	OptionLeave    = "leave"    // leave it as it is
	OptionDone     = "done"     // the human has taken care of it
	OptionWait     = "wait"     // for the rules to take their course
	OptionGiveUp   = "give_up"  // end the tasks of a dead agent
)

// ofFailure, ofDecision and ofDeath are what steward itself offers: for a task that failed for good, one that leaves
// something for the human to do, and an agent that died at its tasks.
func ofFailure(t *protocol.Task, act bool) []rules.Option {
	if !act {
		return []rules.Option{{ID: OptionLeave, Label: "Leave it"}}
	}
	list := []rules.Option{{ID: OptionRetry, Label: "Run it again"}, {ID: OptionLeave, Label: "Leave it"}}
	if t.Answers {
		list = append(list, rules.Option{ID: OptionComplete, Label: "It is done"})
	}
	return list
}

func ofDecision(act bool) []rules.Option {
	if !act {
		return []rules.Option{{ID: OptionDone, Label: "Taken care of"}}
	}
	return []rules.Option{{ID: OptionDone, Label: "Taken care of"}, {ID: OptionRetry, Label: "Run it again"}}
}

func ofDeath() []rules.Option {
	return []rules.Option{{ID: OptionRetry, Label: "Issue its tasks again"}, {ID: OptionWait, Label: "Wait"},
		{ID: OptionGiveUp, Label: "Give its tasks up", Dangerous: true}}
}

// CareOptions is offered where steward itself can do nothing: it settles the incident, with the human's reason.
func CareOptions() []rules.Option {
	return []rules.Option{{ID: OptionDone, Label: "Taken care of"}}
}
