// Package supervisor looks, decides and acts: one loop reads what every project's files say, the pure
// function Decide says what should change and why, and the loop carries it out.
package decide

import (
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
)

// View is all that a decision may rest on.
type View struct {
	// Now is the moment of the decision. Its offset from UTC is that of times of day in messages ("resets 3pm").
	Now       time.Time           `json:"now"`
	Load      capacity.Load       `json:"load"`
	Snapshots []protocol.Snapshot `json:"snapshots"`
	// Processes says what became of each identity that is being watched.
	Processes []Process `json:"processes,omitempty"`
	// Usage is what the trees of processes take that were asked for, by the last scan; it may be some seconds old.
	Usage []capacity.Usage `json:"usage,omitempty"`
	// Promised is what was admitted lately that no file shows.
	Promised []Promise `json:"promised,omitempty"`
	// Doubt counts what speaks against our own eyes at this look: 0 nothing, 1 a look that came late or files that could
	// not be read, 2 both.
	Doubt int `json:"doubt,omitempty"`
	// Incidents are the heads of the incident ledger: what the human was told already.
	Incidents map[string]rules.Head `json:"incidents,omitempty"`
	// Looked are the projects that were looked at since steward started, whether or not any protocol is spoken there;
	// Troubles are the faults that lie outside all snapshots.
	Looked   []string  `json:"looked,omitempty"`
	Troubles []Trouble `json:"troubles,omitempty"`
	// Paused says why projects are only observed by a person's order.
	Paused map[string]string `json:"paused,omitempty"`
	// Once: this is the only look (steward run --once, steward plan), so nothing may stay held after it.
	Once bool `json:"once,omitempty"`
	// Resumed: the machine slept, or its clock was set, since the last decision. Only a loop that was running
	// can tell; our own start is no resume.
	Resumed bool `json:"resumed,omitempty"`
}

// Process is a watched identity and its state.
type Process struct {
	Identity protocol.Identity      `json:"identity"`
	State    heartbeat.ProcessState `json:"state"`
	// Claimed: it was found under a pid that only a file names. One that nobody carries has the pid alone.
	Claimed bool `json:"claimed,omitempty"`
}

// Plan is all that a decision asks for.
type Plan struct {
	Changes []protocol.Change `json:"changes"`
	Alerts  []rules.Alert     `json:"alerts"`
	// Remarks are to be said aloud once, by whoever can.
	Remarks []rules.Remark `json:"remarks,omitempty"`
	// Ends are the hung agents whose processes are to be ended: as long as they hang, however often it was asked.
	Ends   []End  `json:"ends,omitempty"`
	Memory Memory `json:"-"`
	// Wake is the next moment at which the same files would lead to another decision; zero if never.
	Wake time.Time `json:"wake,omitzero"`
	// Looks says per project when it must be looked at again at the latest: silence grows only while somebody
	// looks, so deciding anew on the same files would not do.
	Looks map[string]time.Time `json:"looks,omitempty"`
	// Tasks, Agents and Locks are the verdicts behind the changes, for the status page and explain.
	Tasks  Book[TaskVerdict]           `json:"-"`
	Agents Book[heartbeat.Verdict]     `json:"-"`
	Locks  Book[heartbeat.LockVerdict] `json:"-"`
	// Open: a task is neither ended nor lost.
	Open bool `json:"-"`
	// Claims is the work that has room, or was promised it.
	Claims []capacity.Claim `json:"-"`
	// Waiting are the changes that would be made if steward might: where it only observes, is paused, or yields.
	Waiting []protocol.Change `json:"-"`
}

// Empty reports whether the plan asks for nothing.
func (p Plan) Empty() bool { return len(p.Changes)+len(p.Alerts)+len(p.Remarks) == 0 }

// TaskVerdict is where a task stands, and why.
type TaskVerdict struct {
	State  protocol.TaskState `json:"state"`
	Reason protocol.Reason    `json:"reason"`
	Why    string             `json:"why"`
	// NotBefore is when it is due, for one that waits.
	NotBefore time.Time `json:"not_before,omitzero"`
}

// Config holds the settings of the loop and of all policies.
type Config struct {
	// LookEvery is the interval of full looks.
	LookEvery time.Duration
	// Human is the name used when addressing the person.
	Human string
	// FaultAfter is how long a fault must stay until it is an incident. Progress is how much of tasks' progress is spoken.
	FaultAfter time.Duration
	Progress   rules.Progress

	Heartbeat heartbeat.Config
	Capacity  capacity.Config
	Tasks     TaskConfig
	Locks     heartbeat.LockConfig
	Retry     rules.RetryConfig
}

// LookUnwatched is the interval of full looks at a project whose folders cannot be watched: a request must be seen in good
// time before it counts as too late to hold (Tasks.Judge).
func (c Config) LookUnwatched() time.Duration {
	return min(c.LookEvery, max(c.Tasks.Judge/2, leastUnwatched))
}

// leastUnwatched bounds what looking costs where nothing says when to look.
const leastUnwatched = 500 * time.Millisecond

// TaskConfig holds what is decided about tasks outside the retry rules.
type TaskConfig struct {
	// Timeout serves tasks that name none; MaxTimeout caps all (protocol 000: 300 s, 3600 s).
	Timeout    time.Duration `toml:"timeout"`
	MaxTimeout time.Duration `toml:"max_timeout"`
	// Settle is how long a client's own `deferred` result stays readable before it is lifted.
	Settle time.Duration `toml:"settle"`
	// Judge is how long after its appearance a request may still be held.
	Judge time.Duration `toml:"judge"`
	// Presume is how long a request must lie visible to a live agent that never names its tasks until it
	// counts as taken, and how long a named task must be unnamed until it counts as dropped.
	Presume time.Duration `toml:"presume"`
	// Lease is how long a hold lasts unless the living daemon renews it.
	Lease time.Duration `toml:"lease"`
	// LogAfter is how long the client has to log an event before steward does.
	LogAfter time.Duration `toml:"log_after"`
	// RetriesPerHour bounds what the rules may spend in one project.
	RetriesPerHour int `toml:"retries_per_hour"`
	// History is how long an ended task stays listed and may still be judged.
	History time.Duration `toml:"history"`
}

// Promise is what was admitted by a word of ours that no file shows yet.
type Promise struct {
	Subject protocol.Subject `json:"subject"` // the task; of what is none, the machine's
	At      time.Time        `json:"at"`
}

// UsageEvery is how often all processes are looked through while some of them are known to be agents. Asked earlier, the
// gauge would answer with its last scan, and the next one would come late.
const UsageEvery = 2 * time.Second
