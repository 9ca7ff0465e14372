package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"time"

	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/status/terminal"

	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/platform/service"
	"github.com/livhana/steward/protocol/jsonfile"
)

// exitHopeless is the daemon's exit code under a service manager when a restart would fail again: an invalid
// configuration, or too many failed starts. The unit files refer to it.
const exitHopeless = 78

// hopeless is an error that a restart cannot fix.
type hopeless struct{ error }

func (h hopeless) Unwrap() error { return h.error }

// runManaged implements `run --service`.
func (a *app) runManaged(ctx context.Context, dirs []string) error {
	manager := cmp.Or(os.Getenv("STEWARD_SERVICE"), "service")
	line := service.Connect()
	if err := checkDirs(dirs, false); err != nil {
		return err
	}
	var given *givenUp
	switch err := a.pace(ctx, line); {
	case errors.As(err, &given):
		return a.giveUp(ctx, manager, given)
	case err != nil:
		return nil // stopped while waiting
	}
	d, err := daemon.New(a.daemonOptions(dirs, false, manager, line))
	if err != nil {
		if err = a.noteFailedStart(manager, err); manager == daemon.ManagerLaunchd && errors.As(err, new(hopeless)) {
			return a.giveUp(ctx, manager, err)
		}
		return err
	}
	defer d.Close()
	return d.Run(ctx)
}

// noteFailedStart counts a start that failed before it wrote its own run record.
func (a *app) noteFailedStart(manager string, cause error) error {
	place, err := a.statePlace()
	if err != nil { // the configuration is invalid
		place, cause = a.place().State, hopeless{cause}
	}
	if errors.Is(cause, platform.ErrLocked) || atWork(place) {
		return cause // run.json belongs to the running steward
	}
	root, err := jsonfile.Open(place)
	if err != nil {
		return cause
	}
	defer root.Close()
	now := time.Now().UTC()
	before := daemon.ReadRun(place)
	t := &daemon.RunRecord{PID: os.Getpid(), Version: version(), Manager: manager, Started: now, Failed: before.FailedStarts(now, daemon.HasCrashed(place)),
		Ended: now, How: daemon.EndFailed, Why: terminal.OneWord(terminal.ErrorText(cause))}
	if before != nil {
		t.Last = before.Last
	}
	_ = t.Write(root)
	return cause
}

// giveUp ends a service that cannot start. launchd restarts a service forever unless it exits with 0, so giveUp does
// here what systemd does with its OnFailure unit.
func (a *app) giveUp(ctx context.Context, manager string, why error) error {
	if manager != daemon.ManagerLaunchd {
		return hopeless{why}
	}
	a.logger().Error(terminal.ErrorText(why))
	return a.serviceFailed(ctx, terminal.ErrorText(why))
}

// statePlace returns the state folder, or an error if the configuration cannot be read.
func (a *app) statePlace() (string, error) {
	_, paths, err := a.settings()
	return paths.State, err
}
