package rules

import "github.com/livhana/steward/protocol"

// Notice is what an Alert tells, as facts: status/words makes Summary, Detail and Spoken of it.
type Notice struct {
	Phrase protocol.Phrase
	// Cause is the verdict that the notice is about.
	Cause protocol.Cause
	protocol.Facts
	Title string   // of the task
	Quote string   // the operator's own words behind the task's request
	List  []string // of tasks, or of what is asked
	Names []string // of agents, or lines of a fault
	// Repairs are the changes that wait for the operator's word, and that an option orders.
	Repairs []protocol.Change
	// Follows says what steward does about it.
	Follows protocol.Phrase
	Failure *Failure
}

// Failure is a task that needs a person, with the ruling on its result. Lost is the proof that an attempt ended without a
// result of its own.
type Failure struct {
	Task   protocol.Task
	Ruling Ruling
	Lost   protocol.Cause
}
