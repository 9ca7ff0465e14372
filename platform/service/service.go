// Package service installs steward with the machine's service manager, and talks to that manager while steward runs
// under it. It renders the definitions itself; kardianos/service installs them, except for launchd.
package service

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Names of steward in the service managers.
const (
	Name  = "steward"             // the systemd unit
	Label = "com.livhana.steward" // the launchd label
)

// ErrNotInstalled means that there is no service to start, stop or remove.
var ErrNotInstalled = errors.New("the service is not installed; install it with: steward service install")

// Lack is an error about a precondition that the caller must provide first: root, a user manager, a session.
type Lack struct {
	What string // "no user manager is running for jesse"
	Do   string // "log in once, or run: sudo loginctl enable-linger jesse"
}

func (l *Lack) Error() string { return l.What + "; " + l.Do }

// Spec describes the wanted service.
type Spec struct {
	Binary string // absolute path of the program
	System bool   // a machine-wide unit, which only root can install; else the user's own service
	// The account that the service runs as; its home contains the service's files.
	User string
	UID  int
	Home string
	// Projects are the folders (absolute) that a hardened machine-wide unit may write in addition to its own.
	Projects []string
	// Args are appended to "run --service" (a --config, for example).
	Args []string
	// Env are variables with the locations of the user's files (XDG_CONFIG_HOME and the like), as NAME=value.
	Env []string
	// LogDir is the existing folder for launchd's log of steward's output.
	LogDir string
}

// Outcome reports what an install or an uninstall changed.
type Outcome struct {
	Changed bool     `json:"changed"`
	Wrote   []string `json:"wrote,omitempty"`
	Removed []string `json:"removed,omitempty"`
	Unit    string   `json:"unit"` // the file that defines the service
	Notes   []string `json:"notes,omitempty"`
}

// Status is the service manager's view of the service.
type Status struct {
	Manager   string    `json:"manager"` // "systemd (user)", "launchd (user)", …
	Installed bool      `json:"installed"`
	Unit      string    `json:"unit"`   // the file that defines the service; "" if none exists
	Binary    string    `json:"binary"` // the program it starts
	Enabled   bool      `json:"enabled"`
	State     string    `json:"state"` // active, activating, inactive, failed, unknown; the manager's own words in Detail
	Detail    string    `json:"detail,omitempty"`
	PID       int       `json:"pid"` // 0: not running
	Since     time.Time `json:"since,omitzero"`
	Restarts  int       `json:"restarts"` // restarts by the manager since the service was started
	// Lingers reports whether the user's services outlive the user's sessions; nil where this does not apply.
	Lingers *bool `json:"lingers,omitempty"`
}

// Running reports whether the service has a process or is about to have one.
func (s Status) Running() bool { return s.State == "active" || s.State == "activating" }

// Host is the service manager of one machine. Every call is idempotent and limited by its context.
type Host interface {
	// Install writes, verifies, enables and starts the service. If a step fails, it restores the previous state, and
	// restarts the previous service if that ran. It replaces a service that runs an older program or has a different
	// definition, and calls handOver immediately before it stops a running one for that.
	Install(ctx context.Context, spec Spec, handOver func()) (Outcome, error)
	// Uninstall stops, disables and removes what Install wrote.
	Uninstall(ctx context.Context) (Outcome, error)
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
	Restart(ctx context.Context) error
	Status(ctx context.Context) (Status, error)
	// Render returns the files that Install would write, first the one that defines the service.
	Render(spec Spec) ([]File, error)
}

// File is a file to be written.
type File struct {
	Path string `json:"path"`
	Text string `json:"text"`
}

// doing adds the purpose of a failed step to its error.
func doing(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
