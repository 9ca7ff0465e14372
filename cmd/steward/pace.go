package main

import (
	"context"
	"fmt"
	"time"

	"github.com/livhana/steward/status/terminal"

	"github.com/livhana/steward/platform/service"
)

// pace waits after starts that came to nothing, longer each time, and gives up in the end. A panic loop must become
// neither a burst nor a loop of reboots, and launchd knows no limit of its own.
func (a *app) pace(ctx context.Context, line *service.Line) error {
	place, err := a.statePlace()
	if err != nil {
		return nil // the configuration is refused in its own words
	}
	failed := readTenure(place).failedStarts(time.Now(), hasCrashed(place))
	if failed >= mostFailedStarts {
		return &givenUp{failed}
	}
	wait := paceAfter(failed)
	if wait == 0 {
		return nil
	}
	text := fmt.Sprintf("%s in a row came to nothing; waiting %s", terminal.Plural(failed, "start"), terminal.Short(wait))
	a.logger().Warn(text)
	line.Waiting(text, wait)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return ctx.Err()
}

// mostFailedStarts is after how many of them steward stays down and says so.
const mostFailedStarts = 12

// paceAfter is the wait before the next start.
func paceAfter(failed int) time.Duration {
	if failed < 2 {
		return 0
	}
	return min(time.Second<<min(failed-2, 10), 30*time.Second)
}

// givenUp ends a loop of failed starts.
type givenUp struct{ starts int }

func (g *givenUp) Error() string {
	return fmt.Sprintf("%d starts in a row came to nothing, so steward stays down; look into its log, then: steward service start", g.starts)
}
