package keep

import (
	"context"
	"errors"
	"time"

	"github.com/livhana/steward/platform/proc"
)

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
	l.rec.Row, l.rec.Dir, l.rec.Protocol = row.checksum(), row.Dir, row.Protocol
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
		if err != nil {
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
