package locks

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/config"
	"github.com/livhana/steward/join/lock"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/handoffs"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/supervisor"
)

// locksOf opens the locks of a project.
func locksOf(a *cli.App, project string) (*lock.Locks, config.Config, error) {
	dir, err := cli.ProjectDir("lock", project)
	if err != nil {
		return nil, config.Config{}, err
	}
	cfg, _, err := a.Settings()
	if err != nil {
		cfg = config.Defaults() // a command must not fail because of the daemon's configuration
	}
	granted := lock.Open(dir, lock.Options{Now: time.Now})
	m := handoffs.OpenMirror(dir, handoffs.MirrorOptions{
		Options: handoffs.Options{Guard: daemon.GuardLock, Granted: granted.Granted},
		TTL:     cfg.Locks.TTL, Watch: cfg.Locks.Watch, Life: cfg.Heartbeat.Of(handoffs.Name, &protocol.Agent{}).Dead,
	})
	return lock.Open(dir, lock.Options{Now: time.Now, Mirror: m}), cfg, nil
}

// nothing is an error with the exit code for a missing subject.
type nothing struct{ error }

func (n nothing) Unwrap() error { return n.error }

func (nothing) Is(target error) bool { return target == supervisor.ErrNoSubject }

// lockError maps a lock error to its exit code.
func lockError(err error) error {
	switch {
	case errors.Is(err, lock.ErrName):
		return cli.UsageError{Err: err}
	case errors.Is(err, lock.ErrHeld):
		return supervisor.Refuse(err)
	case errors.Is(err, lock.ErrNothing):
		return nothing{err}
	}
	return err
}

// userName is the name of the user that runs the command.
func userName() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return cmp.Or(os.Getenv("USER"), "unknown user")
}

// lockWords describes in one line the holder of a lock, and since when it holds the lock.
func lockWords(s lock.Status) string {
	if s.Kind == lock.KindContent {
		return terminal.Clean(s.Why)
	}
	if !s.Alive {
		return terminal.Clean(s.Why)
	}
	words := "held"
	if s.Agent != "" {
		words += " by " + terminal.Clean(s.Agent)
	}
	if s.PID != 0 {
		words += fmt.Sprintf(", process %d", s.PID)
	}
	if len(s.Command) > 0 {
		words += " (" + terminal.OneWord(strings.Join(s.Command, " ")) + ")"
	}
	if !s.Since.IsZero() {
		words += ", since " + s.Since.Local().Format(time.DateTime)
	}
	if s.Why != "held" {
		words += "; " + terminal.Clean(s.Why)
	}
	return words
}
