// Package measure reads how full the machine is. It never starts another program.
package measure

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/shirou/gopsutil/v4/common"

	"github.com/livhana/steward/capacity"
)

// Gauge takes samples of the machine's load. It is safe for use by several goroutines at once.
type Gauge struct {
	mu       sync.Mutex
	proc     string // the procfs; only tests read another one
	paths    []string
	binding  string
	problems map[string]string
	cpu      cpuGauge
	disk     diskGauge
	scan     scanner
}

// New makes a Gauge. Paths are the folders whose file systems count as disk: those of the projects.
func New(paths ...string) *Gauge {
	g := &Gauge{proc: "/proc", problems: map[string]string{}}
	g.SetPaths(paths...)
	return g
}

// SetPaths changes the folders whose file systems count; what is known of the processor stays.
func (g *Gauge) SetPaths(paths ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.paths = slices.Compact(slices.Sorted(slices.Values(paths)))
	g.disk = diskGauge{}
}

// Sample reads every dimension. What cannot be read is unknown, and Problems says why. The processor is known
// from the second sample on, for its reading is what happened in between. Consumers stay empty.
func (g *Gauge) Sample(now time.Time) capacity.Load {
	g.mu.Lock()
	defer g.mu.Unlock()
	ctx := g.context()
	load := capacity.Load{At: now}
	load.CPU = g.note(capacity.DimCPU)(g.cpu.read(ctx, now))
	load.Disk = g.note(capacity.DimDisk)(g.disk.read(ctx, g.paths, now))

	m, err := readMemory(ctx)
	load.Memory = g.note(capacity.DimMemory)(m.used(), err)
	if load.Memory.Known() {
		mb := int64((m.total - m.available) >> 20)
		load.MemoryUsedMB = &mb
	}
	f, err := readFiles(g.proc)
	load.Files = g.note(capacity.DimFiles)(f.used(), err)
	if load.Files.Known() {
		open := int64(f.open)
		load.OpenFiles = &open
	}
	g.binding = scarce(load)
	return load
}

// Problems says of every dimension that the last sample could not read why, and of "consumers" likewise. It is
// never nil.
func (g *Gauge) Problems() map[string]string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.problems)
}

// note turns a reading into a share and keeps the reason when it is none.
func (g *Gauge) note(what string) func(float64, error) capacity.Share {
	return func(v float64, err error) capacity.Share {
		if err == nil && !(v >= 0) { // NaN too
			err = fmt.Errorf("the reading %v is impossible", v)
		}
		if err != nil {
			g.problems[what] = err.Error()
			return capacity.Share{}
		}
		delete(g.problems, what)
		return capacity.Used(v)
	}
}

// context tells gopsutil where the procfs is: it has no other way. The environment's HOST_PROC thereby counts
// for nothing, or our own reads and gopsutil's would describe two machines.
func (g *Gauge) context() context.Context {
	return context.WithValue(context.Background(), common.EnvKey, common.EnvMap{common.HostProcEnvKey: g.proc})
}

// scarce is the dimension by which processes are ranked: the fullest of those that a process takes hold of. No
// process table says who filled a disk.
func scarce(load capacity.Load) string {
	load.Disk = capacity.Share{}
	return load.Binding()
}
