package measure

import (
	"errors"
	"fmt"
	"time"

	"github.com/livhana/steward/capacity"
)

const (
	// shortest: the kernel counts in ticks of 10 ms, so over less than this a share is mostly rounding.
	shortest = 100 * time.Millisecond
	// longest: over more than this (a suspend, a stall) the mean says nothing about now.
	longest = 10 * time.Second
	// wobble: Linux documents that iowait may run backwards by a little. Were that an impossible reading,
	// the processor would become unknown just when it is busiest.
	wobble = 0.02
)

// cpuGauge turns two readings of the processors' counters into the share that was used in between.
type cpuGauge struct {
	allowedSet
	last   ticks
	lastAt time.Time
	share  capacity.Share // of the last full window
	window time.Duration
}

// ticks are seconds over all cores, summed.
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

// restart makes this reading the one that the next is compared with.
func (g *cpuGauge) restart(cur ticks, now time.Time) {
	*g = cpuGauge{allowedSet: g.allowedSet, last: cur, lastAt: now}
}

// usedBetween is the share that was not idle. Stolen time counts as used: the machine could not give it to us.
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
