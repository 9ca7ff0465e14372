package protocol

import "strings"

// Severity is how much something matters to the operator.
type Severity string

// The severities, least first.
const (
	Info     Severity = "info"
	Low      Severity = "low"
	Medium   Severity = "medium"
	High     Severity = "high"
	Critical Severity = "critical"
)

var severityRank = map[Severity]int{Info: 0, Low: 1, Medium: 2, High: 3, Critical: 4}

// Rank is 0 for info up to 4 for critical; an unknown word ranks as info.
func (s Severity) Rank() int { return severityRank[s] }

// Mode says what steward does in one protocol of a project without a person's word.
type Mode string

// The modes.
const (
	ModeObserve Mode = "observe" // it shows what is wrong
	ModeAsk     Mode = "ask"     // it offers each repair as an option of an incident, and makes it when a person chooses it
	ModeAct     Mode = "act"     // it repairs
)

// Priority orders waiting tasks, low first.
type Priority int

// The priorities of protocol 000, Task Request Schema.
const (
	PriorityLow Priority = iota
	PriorityMedium
	PriorityHigh
	PriorityCritical
)

var priorityWords = [...]string{"low", "medium", "high", "critical"}

// String gives the protocol's word.
func (p Priority) String() string {
	if p < PriorityLow || p > PriorityCritical {
		return "medium"
	}
	return priorityWords[p]
}

// MarshalText writes the protocol's word.
func (p Priority) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads the protocol's word.
func (p *Priority) UnmarshalText(b []byte) error {
	*p, _ = ParsePriority(string(b))
	return nil
}

// ParsePriority reads a priority word; a word outside the enum counts as medium and is reported as not known.
func ParsePriority(word string) (Priority, bool) {
	for i, w := range priorityWords {
		if strings.EqualFold(w, word) {
			return Priority(i), true
		}
	}
	return PriorityMedium, false
}

// AgentState is the state of an agent.
type AgentState string

// The agent states.
const (
	AgentStarting AgentState = "starting"
	AgentAlive    AgentState = "alive"
	AgentLate     AgentState = "late"
	AgentDead     AgentState = "dead"
	AgentHung     AgentState = "hung"
	AgentPaused   AgentState = "paused"
	AgentUnknown  AgentState = "unknown"
)

// TaskState is the state of a task.
type TaskState string

// The task states. Deferred waits for capacity; waiting waits for anything else (a retry's due time, a
// dependency, a gate); dead is a failed task without attempts left.
const (
	TaskPending  TaskState = "pending"
	TaskDeferred TaskState = "deferred"
	TaskRunning  TaskState = "running"
	TaskWaiting  TaskState = "waiting"
	TaskDone     TaskState = "done"
	TaskFailed   TaskState = "failed"
	TaskDead     TaskState = "dead"
)

// Open reports whether the task has not ended yet.
func (s TaskState) Open() bool {
	switch s {
	case TaskDone, TaskFailed, TaskDead:
		return false
	}
	return true
}

// LockState is the state of a lock.
type LockState string

// The lock states. Overdue: expired, but its holder is alive. Stale: releasable.
const (
	LockHeld    LockState = "held"
	LockOverdue LockState = "overdue"
	LockStale   LockState = "stale"
)
