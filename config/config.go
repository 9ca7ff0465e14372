// Package config holds the configuration: the defaults, the user's file merged over them, and the validation.
package config

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/supervisor/decide"
)

// Config is every setting. Its tables are those of config.toml; tables read by a policy use that policy's own type.
type Config struct {
	Human      Human            `toml:"human"`
	Supervisor Supervisor       `toml:"supervisor"`
	Projects   []Project        `toml:"project"`
	Agents     []Agent          `toml:"agent"`
	Roles      []Role           `toml:"role"`
	Keep       Keep             `toml:"keep"`
	Worker     Worker           `toml:"worker"`
	Heartbeat  heartbeat.Config `toml:"heartbeat"`
	Capacity   capacity.Config  `toml:"capacity"`
	Tasks      Tasks            `toml:"tasks"`
	// Retry holds all rows in matching order: the user's rows, then the built-in ones.
	Retry    []rules.Rule         `toml:"retry"`
	Escalate escalate.Config      `toml:"escalate"`
	Locks    heartbeat.LockConfig `toml:"locks"`
	// The settings of single protocols.
	Ralph    Ralph    `toml:"ralph"`
	Mailbox  Mailbox  `toml:"mailbox"`
	Envelope Envelope `toml:"envelope"`
	Status   Status   `toml:"status"`
	// Gone are notes about lines of the file whose keys are no longer settings.
	Gone []Problem `toml:"-"`
}

// Human is the user whom steward addresses.
type Human struct {
	Name string `toml:"name"`
}

// Supervisor holds the settings of the loop.
type Supervisor struct {
	LookEvery time.Duration `toml:"look_every"`
	// StateDir is "" for the platform's default. Use Expand before opening it.
	StateDir string `toml:"state_dir"`
}

// Project is a [[project]] row as it is written; Config.ProjectList resolves it.
type Project struct {
	Path      string            `toml:"path"`
	Name      string            `toml:"name"`
	Protocols []string          `toml:"protocols"`
	Mode      map[string]string `toml:"mode"`
}

// Tasks is the [tasks] table.
type Tasks struct {
	decide.TaskConfig
	// MaxAttempts is the maximum number of attempts per task, whatever the retry rules say.
	MaxAttempts int `toml:"max_attempts"`
}

// Ralph is the [ralph] table (protocol 002).
type Ralph struct {
	// Violations enables watching what changes outside the workers' own folders. ViolationAction is the reaction to a change
	// that is proved to be a worker's: tell, mark or end.
	Violations      bool   `toml:"violations"`
	ViolationAction string `toml:"violation_action"`
	// Grace is how long a worker may take to set up before a missing process counts against it.
	Grace time.Duration `toml:"grace"`
	// Resume is the command that makes the program resume a task, with {task} and {worker} in its arguments. If it is
	// empty, the task's marker is set back instead.
	Resume []string `toml:"resume"`
}

// Mailbox is the [mailbox] table (protocol 003): how long each role may be silent while working.
type Mailbox struct {
	Lead      time.Duration `toml:"lead"`
	Developer time.Duration `toml:"developer"`
	Review    time.Duration `toml:"review"`
}

// Envelope is the [envelope] table (protocol 004): where the messages are, and how long agents have to act on them.
type Envelope struct {
	Messages    string        `toml:"messages"` // a folder, relative to the project
	Log         string        `toml:"log"`      // a file, relative to the project
	Acknowledge time.Duration `toml:"-"`
	Clarify     time.Duration `toml:"clarify"`
	Escalate    time.Duration `toml:"escalate"`
	CallsPerDay int           `toml:"-"`
	Deployers   []string      `toml:"deployers"` // every task of these agents is a deployment
}

// Status says where the operator's page is served.
type Status struct {
	// Socket is "" for the platform's default. Use Expand before listening.
	Socket string `toml:"socket"`
	// MetricsListen is host:port, or "" for no TCP.
	MetricsListen string `toml:"metrics_listen"`
}

// Policies returns the part of the configuration that the supervisor and its policies use.
func (c Config) Policies() decide.Config {
	return decide.Config{
		LookEvery: c.Supervisor.LookEvery,
		Human:     c.Human.Name,
		Heartbeat: c.Heartbeat,
		Capacity:  c.Capacity,
		Tasks:     c.Tasks.TaskConfig,
		Locks:     c.Locks,
		Retry:     c.retry(),

		FaultAfter: c.Escalate.FaultAfter,
		Results:    c.Escalate.Results,
		Progress:   c.Escalate.Progress,
	}
}

func (c Config) retry() rules.RetryConfig {
	return rules.RetryConfig{Rules: c.Retry, MaxAttempts: c.Tasks.MaxAttempts, MaxTimeout: c.Tasks.MaxTimeout}
}

// Agent is an [[agent]] row: an agent that steward starts and restarts.
type Agent struct {
	Name    string   `toml:"name"`
	Project string   `toml:"project"` // the agent's project folder, as written; Expand resolves it
	Command []string `toml:"command"`
	// Restart is never, on-failure or always; "" is on-failure.
	Restart     string   `toml:"restart"`
	Directory   string   `toml:"directory"`   // "" for the project
	Environment []string `toml:"environment"` // KEY=value, in addition to the daemon's environment
	// Protocol registers the agent: one of the protocols, none, or "" for agentstatus where the project speaks it or no
	// other.
	Protocol string `toml:"protocol"`
}

// Role is a [[role]] row: an agent that steward starts whenever work waits for it.
type Role struct {
	Name    string `toml:"name"`
	Project string `toml:"project"` // as written, like Agent.Project
	// Protocol is "" for the only one that the project speaks.
	Protocol string `toml:"protocol"`
	// Command runs once for each task. It is empty for an orchestrator that steward plays, and for agentstatus, where
	// [worker.commands] says what runs.
	Command     []string      `toml:"command"`
	Jobs        int           `toml:"jobs"`    // runs at once; 0: one
	Timeout     time.Duration `toml:"timeout"` // of a run; 0: [tasks] max_timeout
	Directory   string        `toml:"directory"`
	Environment []string      `toml:"environment"`
}

// NoProtocol is Agent.Protocol of an agent that is registered nowhere.
const NoProtocol = "none"

// Acts reports whether the row is of an orchestrator that steward plays itself.
func (r Role) Acts() bool {
	return len(r.Command) == 0 && r.Protocol != agentsOwn && strings.EqualFold(r.Name, "orchestrator")
}

// Keep is the [keep] table: how agents are restarted.
type Keep struct {
	Place      string        `toml:"place"` // auto, session, service
	Backoff    time.Duration `toml:"backoff"`
	MaxBackoff time.Duration `toml:"max_backoff"`
	Burst      int           `toml:"burst"`
	Within     time.Duration `toml:"within"`
	Stop       time.Duration `toml:"stop"`
}

// Worker is the [worker] table.
type Worker struct {
	Poll        time.Duration  `toml:"poll"`
	Beat        time.Duration  `toml:"-"`
	Stop        time.Duration  `toml:"stop"`
	Output      int            `toml:"output"` // bytes per stream
	Keep        time.Duration  `toml:"keep"`   // for files with output
	Paths       []string       `toml:"paths"`
	Programs    []string       `toml:"programs"`
	Writable    []string       `toml:"writable"`
	Confine     bool           `toml:"confine"`
	Environment []string       `toml:"environment"` // names; a trailing * matches any suffix
	Commands    WorkerCommands `toml:"commands"`
}

// WorkerCommands are the commands for task types that are not scripts (protocol 000, Task Types & Payloads).
type WorkerCommands struct {
	Research     []string `toml:"research"`
	Validate     []string `toml:"validate"`
	Deploy       []string `toml:"deploy"`
	DeployDryRun []string `toml:"deploy_dry_run"`
}

// Problem is one error in a configuration file. Line is 0 if it concerns no single line.
type Problem struct {
	File string
	Line int
	Text string
}

// Problems splits the joined error of Load. An error of another type becomes a Problem without a line.
func Problems(err error) []Problem {
	list := []Problem{}
	var one Problem
	joined, several := err.(interface{ Unwrap() []error })
	switch {
	case err == nil:
	case several:
		for _, e := range joined.Unwrap() {
			list = append(list, Problems(e)...)
		}
	case errors.As(err, &one):
		list = append(list, one)
	default:
		list = append(list, Problem{Text: err.Error()})
	}
	return list
}

func (p Problem) Error() string {
	if p.Line == 0 {
		return fmt.Sprintf("%s: %s", p.File, p.Text)
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text)
}
