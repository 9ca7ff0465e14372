package keep

import (
	"context"
	"slices"
	"time"

	"github.com/livhana/steward/platform/proc"
)

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
	if err != nil {
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
