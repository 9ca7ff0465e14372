package measure

import (
	"errors"
	"fmt"
	"time"

	"github.com/livhana/steward/capacity"
)

const (
	// shortest is the minimum window: the kernel counts in ticks of 10 ms, so over less time a share is mostly rounding
	// error.
	shortest = 100 * time.Millisecond
	// longest is the maximum window: over more time (a suspend, a stall) the mean says nothing about the present.
	longest = 10 * time.Second
	// wobble is the tolerated decrease: Linux documents that iowait may decrease slightly. Rejecting that would make
	// the processor unknown just when it is busiest.
	wobble = 0.02
)

// cpuGauge computes the used share between two readings of the processor counters.
type cpuGauge struct {
	allowedSet
	last   ticks
	lastAt time.Time
	share  capacity.Share // of the last full window
	window time.Duration
}

// ticks are seconds summed over all cores.
type ticks struct{ idle, total float64 }

func (g *cpuGauge) add(cur ticks, now time.Time) (float64, error) {
	if g.lastAt.IsZero() {
		g.restart(cur, now)
		return 0, errors.New("first sample: nothing to compare with yet")
	}
	gap := now.Sub(g.lastAt)
	if gap > 0 && gap < shortest {
		if v, known := g.share.Value(); known {
			return v, nil
		}
		return 0, errors.New("the samples are too close together")
	}
	last := g.last
	g.restart(cur, now)
	if gap <= 0 || gap > longest {
		return 0, fmt.Errorf("the samples are %v apart", gap)
	}
	used, err := usedBetween(last, cur)
	if err == nil {
		g.share, g.window = capacity.Used(used), gap
	}
	return used, err
}

// restart makes this reading the base of the next comparison.
func (g *cpuGauge) restart(cur ticks, now time.Time) {
	*g = cpuGauge{allowedSet: g.allowedSet, last: cur, lastAt: now}
}

// usedBetween returns the share that was not idle. Stolen time counts as used, because it was not available to this
// machine.
func usedBetween(a, b ticks) (float64, error) {
	idle, total := b.idle-a.idle, b.total-a.total
	switch {
	case !(total > 0): // NaN too
		return 0, errors.New("the processor counters stand still or run backwards")
	case idle < 0 && -idle <= wobble*total:
		idle = 0
	case idle < 0 || idle > total*(1+wobble):
		return 0, fmt.Errorf("the processor counters are impossible: %.2f s idle of %.2f s", idle, total)
	}
	return max(0, 1-idle/total), nil
}
