package measure

import (
	"fmt"
	"time"

	"github.com/livhana/steward/capacity"
)

const (
	// inotifyEvery: who counts watches must look at every descriptor of every process of the user.
	inotifyEvery = time.Minute
	// followedFor: for so long after the last question about agents, their limits count.
	followedFor = time.Minute
	// inotifyNear: what a desktop, its editors and its browsers hold stands there for as long as they run. That is no load,
	// and no reason to wait, until hardly anything is left.
	inotifyNear = 0.95
)

// inotifyGauge counts what this user takes of the kernel's watches on folders. When they run out, no tool of an agent
// can watch files any more, and most stop with an error that says "no space left".
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

// look asks at its own slow pace, in a goroutine: it may take long, and no sample waits for it.
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

// count counts only what is nearly used up. By then the last count may be two minutes old, and still is the best word that
// there is: who holds instances mostly does so for as long as it runs, so little changes between two counts. If it is wrong,
// tasks wait until the next count; if it were dropped, they would start and fail.
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
