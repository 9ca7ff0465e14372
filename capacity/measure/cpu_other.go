//go:build !linux

package measure

import (
	"errors"
	"fmt"

	"github.com/shirou/gopsutil/v4/cpu"
)

// allowedSet is empty: only Linux restricts a process to some of the processors.
type allowedSet struct{}

// cpuReader is empty: gopsutil reads the counters.
type cpuReader struct{}

func (g *cpuGauge) cores() int { return 0 }

func (g *Gauge) readTicks() (ticks, error) {
	times, err := cpu.Times(false)
	if err != nil {
		return ticks{}, fmt.Errorf("read processor counters: %w", err)
	}
	if len(times) == 0 {
		return ticks{}, errors.New("read processor counters: nothing usable is there")
	}
	t := times[0]
	idle := t.Idle + t.Iowait
	return ticks{idle: idle, total: idle + t.User + t.Nice + t.System + t.Irq + t.Softirq + t.Steal}, nil
}
