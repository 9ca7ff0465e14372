package measure

import (
	"bytes"
	"errors"
	"fmt"
)

// clockTicks per second is the same on every Linux that Go runs on.
const clockTicks = 100

func (g *Gauge) readTicks() (ticks, error) {
	text, err := g.kept("stat").read(g.buf)
	if err != nil {
		return ticks{}, fmt.Errorf("read processor counters: %w", err)
	}
	return parseTicks(text)
}

// parseTicks reads the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal. What follows
// is guest time, which the kernel has counted under user and nice already.
func parseTicks(text []byte) (ticks, error) {
	line, _, _ := bytes.Cut(text, []byte{'\n'})
	rest, ok := bytes.CutPrefix(line, []byte("cpu "))
	if !ok {
		return ticks{}, errors.New("read processor counters: nothing usable is there")
	}
	var t ticks
	for i := range 8 {
		n, after, ok := number(rest)
		if !ok && i >= 4 && len(bytes.TrimSpace(rest)) == 0 {
			break // the oldest kernels tell four
		}
		if !ok {
			return ticks{}, fmt.Errorf("read processor counters: number %d of %q makes no sense", i+1, line)
		}
		seconds := float64(n) / clockTicks
		t.total += seconds
		if i == 3 || i == 4 {
			t.idle += seconds
		}
		rest = after
	}
	return t, nil
}
