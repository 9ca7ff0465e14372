package service

import (
	"context"
	"fmt"
	"time"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/platform/service"
	"github.com/livhana/steward/status/terminal"
)

// pauseBeforeStart backs off after failed starts, longer each time, and finally gives up. A panic loop must cause neither a burst of
// restarts nor a loop of reboots, and launchd has no limit of its own. See docs/decisions.md, "Two limits on starting".
func pauseBeforeStart(ctx context.Context, a *cli.App, line *service.Line) error {
	place, err := stateFolder(a)
	if err != nil {
		return nil // the invalid configuration is reported elsewhere
	}
	failed := daemon.ReadRun(place).FailedStarts(time.Now(), daemon.HasCrashed(place))
	if failed >= daemon.MostFailedStarts {
		return &givenUp{failed}
	}
	wait := daemon.PaceAfter(failed)
	if wait == 0 {
		return nil
	}
	text := fmt.Sprintf("%s in a row came to nothing; waiting %s", terminal.Plural(failed, "start"), terminal.Short(wait))
	a.Logger().Warn(text)
	line.Waiting(text, wait)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return ctx.Err()
}

// givenUp is the error that ends a loop of failed starts.
type givenUp struct{ starts int }

func (g *givenUp) Error() string {
	return fmt.Sprintf("%d starts in a row came to nothing, so steward stays down; look into its log, then: steward service start", g.starts)
}

// stateFolder returns the state folder, or an error if the configuration cannot be read.
func stateFolder(a *cli.App) (string, error) {
	_, paths, err := a.Settings()
	return paths.State, err
}
