package decide

import (
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
)

// View is everything that a decision may depend on.
type View struct {
	// Now is the moment of the decision. Its offset from UTC is that of times of day in messages ("resets 3pm").
	Now       time.Time           `json:"now"`
	Load      capacity.Load       `json:"load"`
	Snapshots []protocol.Snapshot `json:"snapshots"`
	// Processes are the watched identities and their states.
	Processes []Process `json:"processes,omitempty"`
	// Usage is what the watched process trees use, by the last measurement, which may be some seconds old.
	Usage []capacity.Usage `json:"usage,omitempty"`
	// Promised is what was admitted lately and no file shows yet.
	Promised []Promise `json:"promised,omitempty"`
	// Doubt counts the reasons to mistrust this scan: 0 none; 1 it came late, or files could not be read; 2 both.
	Doubt int `json:"doubt,omitempty"`
	// Incidents are the heads of the incidents: what the user was told already.
	Incidents map[string]rules.Head `json:"incidents,omitempty"`
	// Looked are the projects that were scanned since steward started, whatever protocol they speak. Troubles are the faults
	// outside all snapshots.
	Looked   []string  `json:"looked,omitempty"`
	Troubles []Trouble `json:"troubles,omitempty"`
	// Paused says why the user has projects only observed.
	Paused map[string]string `json:"paused,omitempty"`
	// Once: this is the only scan (steward run --once, steward plan), so nothing may stay held after it.
	Once bool `json:"once,omitempty"`
	// Resumed: the machine slept, or its clock was set, since the last decision. Only a running loop can tell; a start is no
	// resume.
	Resumed bool `json:"resumed,omitempty"`
}

// Process is a watched identity and its state.
type Process struct {
	Identity protocol.Identity      `json:"identity"`
	State    heartbeat.ProcessState `json:"state"`
	// Claimed: it was found under a pid that only a file names. A pid without a process has the number alone.
	Claimed bool `json:"claimed,omitempty"`
}

// Plan is everything that a decision asks for.
type Plan struct {
	Changes []protocol.Change `json:"changes"`
	Alerts  []rules.Alert     `json:"alerts"`
	// Logged are the incidents behind lines of the shared log, by the codes of those changes.
	Logged map[string]rules.Alert `json:"-"`
	// Ends are the hung agents whose processes are to be ended. They are listed as long as they hang.
	Ends   []End  `json:"ends,omitempty"`
	Memory Memory `json:"-"`
	// Wake is the next moment at which the same files would lead to another decision; zero if never.
	Wake time.Time `json:"wake,omitzero"`
	// Looks says when each project must be scanned again at the latest: silence grows only while steward scans, so that
	// another decision on the same files would not do.
	Looks map[string]time.Time `json:"looks,omitempty"`
	// Tasks, Agents and Locks are the verdicts behind the changes, for the status page and explain.
	Tasks  Book[TaskVerdict]           `json:"-"`
	Agents Book[heartbeat.Verdict]     `json:"-"`
	Locks  Book[heartbeat.LockVerdict] `json:"-"`
	// Open: a task has neither ended nor been lost.
	Open bool `json:"-"`
	// Claims are the tasks that have room, or were promised it.
	Claims []capacity.Reservation `json:"-"`
	// Says is what the user is told aloud without a question.
	Says []Saying `json:"-"`
	// Waiting are the changes that are not made because steward asks first, only observes, is paused, or yields. Offers are
	// those of them that a person can order with an option of an incident.
	Waiting []protocol.Change `json:"-"`
	Offers  []Offer           `json:"-"`
}

// Empty reports whether the plan asks for nothing.
func (p Plan) Empty() bool { return len(p.Changes)+len(p.Alerts) == 0 }

// TaskVerdict is where a task stands, and why.
type TaskVerdict struct {
	State protocol.TaskState `json:"state"`
	protocol.Cause
	// NotBefore is when a waiting task is due.
	NotBefore time.Time `json:"not_before,omitzero"`
}

// Config holds the settings of the loop and of all policies.
type Config struct {
	// LookEvery is the interval of full scans.
	LookEvery time.Duration
	// Human is the name used when addressing the person.
	Human string
	// FaultAfter is how long a fault must last until it is an incident.
	FaultAfter time.Duration
	// Results and Progress say how much of the results and of the progress of tasks is spoken.
	Results  string
	Progress string

	Heartbeat heartbeat.Config
	Capacity  capacity.Config
	Tasks     TaskConfig
	Locks     heartbeat.LockConfig
	Retry     rules.RetryConfig
}

// LookUnwatched is the interval of full scans of a project whose folders cannot be watched: steward must see a request
// before it is too old to be held (Tasks.Judge). See docs/decisions.md, "Without file watches a project is scanned every half of judge".
func (c Config) LookUnwatched() time.Duration {
	return min(c.LookEvery, max(c.Tasks.Judge/2, leastUnwatched))
}

// leastUnwatched bounds the cost of scanning without events.
const leastUnwatched = 500 * time.Millisecond

// TaskConfig holds what is decided about tasks outside the retry rules.
type TaskConfig struct {
	// Timeout applies to tasks that state none; MaxTimeout caps all (protocol 000: 300 s, 3600 s).
	Timeout    time.Duration `toml:"timeout"`
	MaxTimeout time.Duration `toml:"max_timeout"`
	// Settle is how long a client's own `deferred` result stays readable before it is lifted.
	Settle time.Duration `toml:"settle"`
	// Judge is how long after its appearance a request may still be held.
	Judge time.Duration `toml:"judge"`
	// Presume is how long a request must lie visible to a live agent that never names its tasks until it counts as taken,
	// and how long a task must no longer be named until it counts as dropped.
	Presume time.Duration `toml:"presume"`
	// Lease is how long a hold lasts unless the daemon renews it.
	Lease time.Duration `toml:"lease"`
	// LogAfter is how long the client has to log an event before steward does.
	LogAfter time.Duration `toml:"-"`
	// RetriesPerHour bounds the retries by rule in one project.
	RetriesPerHour int `toml:"retries_per_hour"`
	// History is how long an ended task stays listed and may still be judged.
	History time.Duration `toml:"history"`
}

// Promise is an admission that no file shows yet.
type Promise struct {
	Subject protocol.Subject `json:"subject"` // the task; the machine for work that is no task
	At      time.Time        `json:"at"`
}

// UsageEvery is the interval at which all processes are measured while some of them are known to be agents. Asked earlier,
// the gauge answers with its last measurement.
const UsageEvery = 2 * time.Second
