package measure

import (
	"fmt"
	"time"

	"github.com/livhana/steward/capacity"
)

const (
	// inotifyEvery is the interval of the count, which must read every descriptor of every process of the user.
	inotifyEvery = time.Minute
	// followedFor is how long the limits of agents count after the last query about them.
	followedFor = time.Minute
	// inotifyNear is the share from which inotify use counts. A desktop, its editors and its browsers hold watches as
	// long as they run. That is no load and no reason to wait until hardly any are left.
	inotifyNear = 0.95
)

// inotifyGauge counts this user's share of the kernel's inotify watches and instances. When they run out, an agent's
// tools can no longer watch files, and most stop with an error that says "no space left".
type inotifyGauge struct {
	asked    time.Time
	pending  chan inotifyUse
	use      inotifyUse
	whenUsed time.Time
}

type inotifyUse struct {
	watches, instances files
	err                error
}

// look starts a count at its own slow interval, in a goroutine: it may take long, and no sample waits for it.
func (g *inotifyGauge) look(proc string, now time.Time) {
	if g.pending != nil {
		select {
		case g.use = <-g.pending:
			g.whenUsed, g.pending = now, nil
		default:
			return
		}
	}
	if age := now.Sub(g.asked); g.asked.IsZero() || age < 0 || age >= inotifyEvery {
		g.asked = now
		answer := make(chan inotifyUse, 1)
		go func() { answer <- countInotify(proc) }()
		g.pending = answer
	}
}

// count reports only nearly exhausted limits. The last count may be two minutes old and is still the best available:
// programs mostly hold instances as long as they run, so little changes between two counts. If it is wrong, tasks wait
// until the next count; if it were dropped, they would start and fail.
func (g *inotifyGauge) count(load *capacity.Load) {
	if g.whenUsed.IsZero() || g.use.err != nil || load.At.Sub(g.whenUsed) > 2*inotifyEvery {
		return
	}
	for _, one := range []struct {
		what string
		files
	}{{"watches", g.use.watches}, {"instances", g.use.instances}} {
		if used := one.used(); used >= inotifyNear && used > load.Files.Or(0) {
			load.Files = capacity.Used(used)
			because(load, capacity.DimFiles, fmt.Sprintf("of %d inotify %s that this user may have, most are taken", one.limit, one.what))
		}
	}
}
