// Package config holds the configuration: the defaults, the user's file merged over them, and the validation.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/livhana/steward"
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
	// Violations enables watching the files that the workers' processes have open for writing.
	Violations bool `toml:"violations"`
	// Grace is how long a worker may take to set up before a missing process counts against it.
	Grace time.Duration `toml:"-"`
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
	Acknowledge time.Duration `toml:"acknowledge"`
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

// DefaultsText is config.toml as it is shipped, with its comments.
func DefaultsText() string { return steward.Defaults }

// Defaults returns the settings in config.toml. The file is embedded in the program and covered by tests, so a parse
// failure is a build defect: Defaults panics.
func Defaults() Config {
	s, err := read("config.toml", []byte(steward.Defaults))
	if err != nil {
		panic(fmt.Sprintf("read the embedded configuration: %v", err))
	}
	var c Config
	c.tune()
	s.lay(&c)
	if len(s.found) > 0 {
		panic(fmt.Sprintf("read the embedded configuration: %v", s.err()))
	}
	return c
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
	}
}

func (c Config) retry() rules.RetryConfig {
	return rules.RetryConfig{Rules: c.Retry, MaxAttempts: c.Tasks.MaxAttempts, MaxTimeout: c.Tasks.MaxTimeout}
}

// Validate reports every invalid value, one per line. It does not know the lines of a file; Parse does.
func (c Config) Validate() error {
	var errs []error
	for _, f := range append(c.flaws(), rowFlaws(c.Retry)...) {
		errs = append(errs, errors.New(f.text))
	}
	return errors.Join(errs...)
}

// TOML encodes the configuration; Parse restores it unchanged.
func (c Config) TOML() ([]byte, error) {
	var b bytes.Buffer
	enc := toml.NewEncoder(&b)
	enc.Indent = ""
	if err := enc.Encode(c); err != nil {
		return nil, fmt.Errorf("write the configuration: %w", err)
	}
	return withoutBlanks(b.String()), nil
}

// withoutBlanks drops empty values from rows and from tables keyed by name, where an absent key means the same. In
// other tables a zero is a value that overrides a default.
func withoutBlanks(text string) []byte {
	var b bytes.Buffer
	optional := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "[") {
			optional = strings.HasPrefix(line, "[[") || strings.HasPrefix(line, "[heartbeat.protocols.") ||
				strings.HasPrefix(line, "[heartbeat.agents.")
		}
		_, value, _ := strings.Cut(strings.TrimSpace(line), " = ")
		switch value {
		case `""`, `"0s"`, "0", "0.0":
			if optional {
				continue
			}
		}
		b.WriteString(line)
	}
	return b.Bytes()
}
