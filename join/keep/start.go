package keep

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/livhana/steward/join/run"
	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/platform/service"
)

// obstacle says why the agent is not started now; "" when it can start.
func (l *life) obstacle(now time.Time) (state, why string) {
	if l.held = l.k.held(l.row); l.held {
		return "held", "the operator holds it"
	}
	if l.rec.NotBefore.After(now) {
		return "waiting", l.rec.Why
	}
	if ok, why := l.k.Deps.Admit(l.row, l.rec.Last); !ok {
		return "waiting", why
	}
	return "", ""
}

// start begins the next life, unless an obstacle exists. A life that cannot begin ends at once, with the reason.
//
// The life's number is on disk before it begins, so that a steward started after a kill knows what to search for.
// Normally the record of the previous life contains it already, so no disk write delays the restart.
func (l *life) start(ctx context.Context) bool {
	if state, why := l.obstacle(l.k.Now()); state != "" {
		if shown := l.public.Load(); why != "" && (shown.State != state || shown.Why != why) {
			l.k.Log.Info("agent waits", "agent", l.name, "why", why)
		}
		l.publish(state, why)
		return false
	}
	l.idle.Store(false)
	if l.saved < l.rec.Intent {
		l.k.hook("before the intent")
		l.save(false)
	}
	l.k.hook("after the intent")
	generation := l.rec.Intent
	unit, err := l.begin(ctx, l.rec.markOf(generation))
	l.k.hook("after the start")
	l.rec.Generation, l.rec.Intent, l.rec.Started, l.rec.NotBefore = generation, generation+1, l.k.Now(), time.Time{}
	if err != nil {
		l.path = "" // the program may have moved
		l.child = endedChild(Ending{At: l.k.Now(), Code: -1, Fault: err.Error()})
		return true
	}
	l.rec.Process, l.rec.Unit = l.child.id, unit
	l.save(false)
	l.k.hook("after the record")
	l.running("started")
	return true
}

// begin starts the main process of a life in the configured place.
func (l *life) begin(ctx context.Context, mark string) (unit string, err error) {
	if l.env == nil {
		l.env = environ(l.k.Environ, l.row, l.rec.Mark, stateMark(l.k.State), l.log)
	}
	if l.path == "" {
		search, _ := run.Variable(l.env, "PATH")
		if l.path, err = run.Find(l.row.Command[0], l.row.folder(), search); err != nil {
			return "", err
		}
	}
	env := append(l.env[:len(l.env):len(l.env)], proc.MarkName+"="+mark)
	units := l.k.units(ctx, "")
	switch {
	case units == nil && l.k.config().Place != PlaceService:
		l.child, err = spawn(l.path, l.row.Command, env, l.row.folder(), l.log, l.k.Now)
		return "", err
	case units == nil:
		return "", fmt.Errorf("keep.place is %q, and no service manager can be reached; %q or %q does without", PlaceService, PlaceAuto, PlaceSession)
	}
	unit = l.unitName(l.rec.Intent)
	pid, err := units.Start(ctx, service.Unit{Name: unit, Description: "agent " + l.row.Name + " of " + l.row.Dir, Path: l.path,
		Argv: l.row.Command, Dir: l.row.folder(), Env: env, Log: l.log, Stop: l.k.config().Stop})
	if err != nil {
		return "", err
	}
	id, err := proc.Inspect(pid)
	if err != nil { // the process has already ended; the manager knows its exit status
		l.child = endedChild(Ending{At: l.k.Now(), Code: -1, Unknown: true})
		return unit, nil
	}
	l.child = adopt(id, l.k.Now)
	return unit, nil
}

// unitName is the name of one life's transient service.
func (l *life) unitName(generation int) string {
	return fmt.Sprintf("steward-agent-%s-%s-%d.service", plain(l.row.Project, "-_."), plain(l.row.Name, "-_."), generation)
}

// unitStatus asks the manager for an exit status that the kernel did not report, and removes the unit.
func (k *Keeper) unitStatus(ctx context.Context, unit string, e Ending) Ending {
	units := k.units(ctx, unit)
	if units == nil {
		return e
	}
	if e.Unknown {
		if x, err := units.Exit(ctx, unit); err == nil {
			e.Code, e.Signal, e.Unknown = x.Code, "", false
			if x.Signal != 0 {
				e.Signal = run.SignalName(syscall.Signal(x.Signal))
			}
		}
	}
	k.wg.Go(func() {
		if err := units.Stop(ctx, unit); err != nil && ctx.Err() == nil {
			k.Log.Error("clear away the agent's unit", "unit", unit, "error", err)
		}
	})
	return e
}

// reap ends what a life has left behind, in the background. Only a few run at a time: each reads the whole process
// table.
func (k *Keeper) reap(ctx context.Context, root proc.Identity, mark string) {
	grace := k.config().Stop
	k.wg.Go(func() {
		select {
		case k.reaps <- struct{}{}:
		case <-ctx.Done():
			return
		}
		defer func() { <-k.reaps }()
		ended, left, err := proc.EndTree(ctx, root, mark, grace)
		switch {
		case ctx.Err() != nil:
		case err != nil || left > 0:
			k.Log.Error("end what the agent left behind", "mark", mark, "left", left, "error", err)
		case ended > 0:
			k.Log.Info("ended what the agent left behind", "mark", mark, "processes", ended)
		}
	})
}
