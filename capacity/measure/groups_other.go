//go:build !linux

package measure

import (
	"runtime"
	"time"

	"github.com/livhana/steward/capacity"
)

// groups is empty: only Linux has control groups.
type groups struct{}

func (g *Gauge) addGroups(load *capacity.Load, m memory, _ time.Time) {
	load.Cores, load.MemoryTotal = float64(runtime.NumCPU()), m.total
}
