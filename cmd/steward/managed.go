package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"time"

	"github.com/livhana/steward/status/terminal"

	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/platform/service"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/status"
)

// The service managers that units name in STEWARD_SERVICE.
const (
	managerSystemd = "systemd"
	managerLaunchd = "launchd"
)

// exitHopeless is how the daemon ends under a service manager when another start would come to nothing too: a bad
// configuration, or too many failed starts. The units name it.
const exitHopeless = 78

// hopeless is an error that another start would meet again.
type hopeless struct{ error }

func (h hopeless) Unwrap() error { return h.error }

// runManaged is `run --service`.
func (a *app) runManaged(ctx context.Context, dirs []string) error {
	manager := cmp.Or(os.Getenv("STEWARD_SERVICE"), "service")
	line := service.Connect()
	var given *givenUp
	switch err := a.pace(ctx, line); {
	case errors.As(err, &given):
		return a.giveUp(ctx, manager, given)
	case err != nil:
		return nil // it was stopped while it waited
	}
	h, err := a.furnish(dirs, false, under{manager, line})
	if err != nil {
		if err = a.noteFailedStart(manager, err); manager == managerLaunchd && errors.As(err, new(hopeless)) {
			return a.giveUp(ctx, manager, err)
		}
		return err
	}
	defer h.close()
	return h.run(ctx)
}

// noteFailedStart counts a start that came to nothing before it had a runRecord of its own.
func (a *app) noteFailedStart(manager string, cause error) error {
	place, err := a.statePlace()
	if err != nil { // the configuration is refused
		place, cause = a.place().State, hopeless{cause}
	}
	if errors.Is(cause, platform.ErrLocked) || atWork(place) {
		return cause // run.json belongs to the steward that runs
	}
	root, err := jsonfile.Open(place)
	if err != nil {
		return cause
	}
	defer root.Close()
	now := time.Now().UTC()
	before := readTenure(place)
	t := &runRecord{PID: os.Getpid(), Version: version(), Manager: manager, Started: now, Failed: before.failedStarts(now, hasCrashed(place)),
		Ended: now, How: endFailed, Why: terminal.OneWord(oneLine(cause))}
	if before != nil {
		t.Last = before.Last
	}
	_ = t.write(root)
	return cause
}

// giveUp ends a service that cannot start. launchd would start it again for ever unless it ends well, so what systemd
// does with its companion unit is done here.
func (a *app) giveUp(ctx context.Context, manager string, why error) error {
	if manager != managerLaunchd {
		return hopeless{why}
	}
	a.logger().Error(oneLine(why))
	return a.serviceFailed(ctx, oneLine(why))
}

// statePlace is the state folder, if the configuration can be read.
func (a *app) statePlace() (string, error) {
	_, paths, err := a.settings()
	return paths.State, err
}

// self is what the running steward says of itself.
func (h *daemon) self() status.Self {
	s := status.Self{Version: version(), Manager: h.manager}
	if h.tenure != nil {
		s.LastEnd = h.tenure.Last
	}
	return s
}

// settleIn is done once the first looks are over.
func (h *daemon) startUp() {
	h.tenure.Ready = time.Now().UTC()
	if err := h.tenure.write(h.state); err != nil {
		h.log.Error("write run.json", "error", err)
	}
	if h.manager != "" {
		h.tellOfCrash()
	}
	down := downAlert()
	down.Resolve, down.Detail = true, "steward runs again"
	_ = h.tell(down)
	h.snapshot()
	h.sayReady()
}

// sayReady tells the service manager what is looked after.
func (h *daemon) sayReady() {
	text := "no project is configured"
	if p := h.loop.State(); p != nil && len(p.Projects) > 0 {
		text = "looks after " + terminal.Plural(len(p.Projects), "project")
	}
	h.line.Ready(text)
}
