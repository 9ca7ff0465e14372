package task

import (
	"fmt"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status/terminal"
)

// Stage describes the state of a task of the protocols 001 to 004 in a few words.
func Stage(t protocol.Assignment) string {
	agent := terminal.Clean(t.Agent)
	if agent == "" {
		agent = "an agent"
	}
	switch {
	case t.Cancelled:
		return "cancelled"
	case t.State == protocol.TaskDead:
		return "given up"
	case t.Waits != "":
		return joined(": ", string(t.State), terminal.Clean(t.Waits))
	case t.State == protocol.TaskPending:
		return "waits for " + agent + " to take it"
	case t.State == protocol.TaskRunning && t.Attempt > 1:
		return fmt.Sprintf("%s works on it, attempt %d", agent, t.Attempt)
	case t.State == protocol.TaskRunning:
		return agent + " works on it"
	}
	return string(t.State)
}

// AssignmentCode is the exit code of `steward task wait` for an ended task of the protocols 001 to 004.
func AssignmentCode(t protocol.Assignment) int {
	switch {
	case t.State == protocol.TaskDone:
		return 0
	case t.Cancelled:
		return ExitCancelled
	}
	return ExitFailed
}

// AssignmentFacts lists what is known about a task of the protocols 001 to 004, for people.
func AssignmentFacts(t protocol.Assignment, now time.Time) []Fact {
	var f facts
	f.add("title", terminal.Clean(t.Title))
	f.add("type", terminal.Clean(t.Type))
	f.add("agent", terminal.Clean(t.Agent))
	f.add("from", terminal.Clean(t.Source))
	f.add("priority", t.Priority.String())
	f.add("created", ago(t.Created, now))
	if t.Worker.Proves() {
		f.add("process", fmt.Sprint(t.Worker.PID))
	}
	f.add("file", terminal.Clean(t.Path))
	return f
}
