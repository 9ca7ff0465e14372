package service

import (
	"cmp"
	"context"
	"errors"
	"os"
	"time"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/platform/service"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/status/terminal"
)

// Run implements `run --service`.
func Run(ctx context.Context, a *cli.App, assemble func(manager string, line *service.Line) (*daemon.Daemon, error)) error {
	manager := cmp.Or(os.Getenv("STEWARD_SERVICE"), "service")
	line := service.Connect()
	var given *givenUp
	switch err := pauseBeforeStart(ctx, a, line); {
	case errors.As(err, &given):
		return giveUp(ctx, a, manager, given)
	case err != nil:
		return nil // stopped while waiting
	}
	d, err := assemble(manager, line)
	if err != nil {
		if err = noteFailedStart(a, manager, err); manager == daemon.ManagerLaunchd && errors.As(err, new(cli.Hopeless)) {
			return giveUp(ctx, a, manager, err)
		}
		return err
	}
	defer d.Close()
	return d.Run(ctx)
}

// noteFailedStart counts a start that failed before it wrote its own run record.
func noteFailedStart(a *cli.App, manager string, cause error) error {
	place, err := stateFolder(a)
	if err != nil { // the configuration is invalid
		place, cause = a.Paths().State, cli.Hopeless{Err: cause}
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
	t := &daemon.RunRecord{PID: os.Getpid(), Version: a.Version, Manager: manager, Started: now, Failed: before.FailedStarts(now, daemon.HasCrashed(place)),
		Ended: now, How: daemon.EndFailed, Why: terminal.OneWord(terminal.ErrorText(cause))}
	if before != nil {
		t.Last = before.Last
	}
	_ = t.Write(root)
	return cause
}

// giveUp ends a service that cannot start. launchd restarts a service forever unless it exits with 0, so giveUp does
// here what systemd does with its OnFailure unit.
func giveUp(ctx context.Context, a *cli.App, manager string, why error) error {
	if manager != daemon.ManagerLaunchd {
		return cli.Hopeless{Err: why}
	}
	a.Logger().Error(terminal.ErrorText(why))
	return tellDown(ctx, a, terminal.ErrorText(why))
}
