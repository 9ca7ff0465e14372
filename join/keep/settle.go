package keep

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/livhana/steward/platform/proc"
)

func unsupported(err error) bool { return errors.Is(err, errors.ErrUnsupported) }

// adoptLeft finds what an earlier steward has left of this agent, before anything is started.
func (l *life) adoptLeft(ctx context.Context) {
	boot := self().Boot
	if id := l.rec.Process; id.PID > 0 && id.Boot == boot && proc.Check(id) != proc.Gone {
		l.adopt(id, l.rec.Generation)
		return
	}
	if l.rec.Process.PID > 0 && l.rec.Process.Boot != boot || l.rec.State == rested && l.rec.Boot != boot {
		l.rec.Process, l.rec.Unit = proc.Identity{}, "" // the machine was rebooted, so no process of the agent is left
		l.resetHistory()
		l.save(false)
		return
	}
	if id, ok := l.unrecorded(ctx); ok {
		l.adopt(id, l.rec.Intent)
		return
	}
	switch {
	case l.rec.Process.PID > 0:
		l.handleEnd(ctx, Ending{At: l.k.Now(), Code: -1, Unknown: true})
	case l.rec.State == failed:
		l.publish(string(failed), l.rec.Why)
		l.alert() // in case steward was killed before it could alert
	case l.rec.State == rested:
		l.publish(string(rested), l.rec.Why)
	}
}

// adopt takes over a process that already runs.
func (l *life) adopt(id proc.Identity, generation int) {
	known := l.rec.Process == id
	l.child = adopt(id, l.k.Now)
	if !known {
		l.rec.Process, l.rec.Generation, l.rec.Intent = id, generation, generation+1
		l.rec.State, l.rec.Started, l.rec.NotBefore = active, l.k.Now(), time.Time{}
		l.save(false)
	}
	l.running("adopted")
}

// unrecorded finds the main process of a life that began, but that the previous steward did not record.
func (l *life) unrecorded(ctx context.Context) (proc.Identity, bool) {
	if l.saved > 0 {
		unit := l.unitName(l.rec.Intent)
		if units := l.k.units(ctx, l.rec.Unit); units != nil {
			if pid, err := units.Main(ctx, unit); err == nil && pid > 0 {
				if id, err := proc.Inspect(pid); err == nil {
					l.rec.Unit = unit
					return id, true
				}
			}
		}
	}
	all, err := l.k.leftProcesses()
	if err != nil && !unsupported(err) {
		l.k.Log.Error("look for the agent's processes", "agent", l.name, "error", err)
	}
	if l.saved > 0 {
		return leader(proc.MarkedAmong(all, proc.MarkName, l.rec.markOf(l.rec.Intent)))
	}
	// Without a record only the marks are left. The marked processes may belong to any life, so the next life gets a
	// number that none of them can have had.
	found := proc.MarkedAmong(all, envKept, l.rec.Mark)
	if len(found) > 0 {
		l.rec.Intent = int(l.k.Now().Unix())
	}
	id, ok := leader(found)
	for _, p := range found {
		if !ok {
			l.k.reap(ctx, p.Identity, "") // left behind by a main process that is gone
		}
	}
	return id, ok
}

// leader is the oldest process that leads a session: processes that its children start are younger.
func leader(found []proc.Process) (proc.Identity, bool) {
	found = slices.DeleteFunc(slices.Clone(found), func(p proc.Process) bool { return p.Session != p.PID })
	if len(found) == 0 {
		return proc.Identity{}, false
	}
	return slices.MinFunc(found, func(a, b proc.Process) int { return int(int64(a.Start) - int64(b.Start)) }).Identity, true
}

// remove ends an agent whose row is gone, and reports whether it has ended.
func (l *life) remove(ctx context.Context) bool {
	if !l.end(ctx, "its row was taken out of the configuration") {
		return false
	}
	l.k.store.drop(l.row)
	l.k.Deps.Recovered(l.row)
	l.k.Log.Info("agent dismissed", "agent", l.name)
	return true
}

// replace ends an agent so that the row is started again. It reports whether the old life has ended.
func (l *life) replace(ctx context.Context, row Row, why string) bool {
	if !l.end(ctx, why) {
		return false
	}
	if l.rec.State == failed {
		l.k.Deps.Recovered(l.row)
	}
	l.row, l.env, l.path = row, nil, ""
	l.rec.Row, l.rec.Dir = row.checksum(), row.Dir
	l.resetHistory()
	l.save(false)
	return true
}

// restart replaces the agent at the operator's request, and notifies each caller when the next life has begun or waits.
func (l *life) restart(ctx context.Context, row Row) {
	if !l.replace(ctx, row, "the operator restarted it") {
		return
	}
	l.start(ctx)
	l.k.mu.Lock()
	defer l.k.mu.Unlock()
	for _, done := range l.restarts {
		close(done)
	}
	l.restarts = nil
}

// endAgain is the pause before another attempt to end an agent.
const endAgain = time.Second

// end ends the whole tree of the agent: SIGTERM, [keep] stop, then SIGKILL.
func (l *life) end(ctx context.Context, why string) bool {
	l.idle.Store(false)
	l.publish("ending", why)
	id, unit := l.rec.Process, l.rec.Unit
	if err := l.k.finish(ctx, &l.rec); err != nil {
		if ctx.Err() == nil {
			l.k.Log.Error("end the agent", "agent", l.name, "error", err)
			sleep(ctx, endAgain)
		}
		return false
	}
	if l.child != nil {
		l.child.leave()
		l.child = nil
	}
	e := Ending{At: l.k.Now(), Asked: true}
	l.rec.Process, l.rec.Unit, l.rec.Last, l.rec.Why = proc.Identity{}, "", &e, why
	if id.PID > 0 || unit != "" {
		l.k.presence.ended(l.row, id, e, false, why)
	}
	return true
}

// finish ends the processes of a record.
func (k *Keeper) finish(ctx context.Context, r *Record) error {
	if r.Unit != "" {
		if units := k.units(ctx, r.Unit); units != nil {
			if err := units.Stop(ctx, r.Unit); err != nil {
				return err
			}
		}
	}
	for _, generation := range []int{r.Generation, r.Intent} {
		root := r.Process
		if generation != r.Generation {
			root = proc.Identity{}
		}
		_, left, err := proc.EndTree(ctx, root, r.markOf(generation), k.config().Stop)
		if unsupported(err) && root.PID > 0 {
			err = proc.Terminate(ctx, root, k.config().Stop)
		}
		if err != nil && !unsupported(err) {
			return err
		}
		if left > 0 {
			return errors.New("some of its processes would not end")
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// EndAll ends all agents that a steward with this state folder has started, before steward is removed. No keeper may
// run.
func EndAll(ctx context.Context, o Options, stop time.Duration) (ended int, err error) {
	k := New(o)
	k.cfg.Stop = stop
	defer k.closeUnits()
	for _, r := range k.store.all() {
		living := proc.Check(r.Process) != proc.Gone && r.Process.PID > 0
		if e := k.finish(ctx, r); e != nil {
			err = errors.Join(err, e)
			continue
		}
		if living {
			ended++
		}
		k.store.drop(r.row())
	}
	return ended, err
}
