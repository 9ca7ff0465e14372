// Package service installs steward with the machine's service manager, and speaks with that manager while steward
// runs under it. kardianos/service is the outermost layer; what it writes is rendered here.
package service

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The names that the service managers know steward by.
const (
	Name  = "steward"             // the systemd unit, the Windows service
	Label = "com.livhana.steward" // the launchd label
)

// ErrNotInstalled: there is nothing to start, stop or remove.
var ErrNotInstalled = errors.New("the service is not installed; install it with: steward service install")

// Lack is something that the caller has to provide first: root, a user manager, a session.
type Lack struct {
	What string // "no user manager is running for jesse"
	Do   string // "log in once, or run: sudo loginctl enable-linger jesse"
}

func (l *Lack) Error() string { return l.What + "; " + l.Do }

// Spec is the service that is wanted.
type Spec struct {
	Binary string // absolute path of the program
	System bool   // a machine unit, which needs root to install; else the user's own service
	// The account that the service runs as, and whose home holds its files.
	User string
	UID  int
	Home string
	// Projects are the folders (absolute) that a hardened machine unit may write beside its own.
	Projects []string
	// Args come after "run --service" (a --config, for example).
	Args []string
	// Env are variables that say where the user's files lie (XDG_CONFIG_HOME and the like), as NAME=value.
	Env []string
	// LogDir is where launchd puts what is printed; it exists already.
	LogDir string
}

// Outcome tells what an install or an uninstall has done.
type Outcome struct {
	Changed bool     `json:"changed"`
	Wrote   []string `json:"wrote,omitempty"`
	Removed []string `json:"removed,omitempty"`
	Unit    string   `json:"unit"` // the file that defines the service
	Notes   []string `json:"notes,omitempty"`
}

// Status is what the service manager knows.
type Status struct {
	Manager   string    `json:"manager"` // "systemd (user)", "launchd (user)", …
	Installed bool      `json:"installed"`
	Unit      string    `json:"unit"`   // the file that defines the service; "" if there is none
	Binary    string    `json:"binary"` // what it starts
	Enabled   bool      `json:"enabled"`
	State     string    `json:"state"` // active, activating, inactive, failed, unknown; the manager's own words in Detail
	Detail    string    `json:"detail,omitempty"`
	PID       int       `json:"pid"` // 0: not running
	Since     time.Time `json:"since,omitzero"`
	Restarts  int       `json:"restarts"` // by the manager, since it was started
	// Lingers tells whether the user's services outlive the user's sessions; nil where that is no question.
	Lingers *bool `json:"lingers,omitempty"`
}

// Running reports whether there is a process, or is about to be one.
func (s Status) Running() bool { return s.State == "active" || s.State == "activating" }

// Host is one machine's way to run services. Every call is idempotent and bounded by its context.
type Host interface {
	// Install writes, verifies, enables and starts the service. If one of these fails, what stood there before stands
	// there again, and runs again if it ran. A service that runs an older program, or is defined otherwise, is replaced;
	// handOver is called right before a running one is stopped for that.
	Install(ctx context.Context, spec Spec, handOver func()) (Outcome, error)
	// Uninstall stops, disables and removes what Install wrote.
	Uninstall(ctx context.Context) (Outcome, error)
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
	Restart(ctx context.Context) error
	Status(ctx context.Context) (Status, error)
	// Render gives the files that Install would write, first the one that defines the service.
	Render(spec Spec) ([]File, error)
}

// File is a file as it is to be written.
type File struct {
	Path string `json:"path"`
	Text string `json:"text"`
}

// doing says what a failed step was for.
func doing(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
