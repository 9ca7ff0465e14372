// Package measure reads the load of the machine. It never starts another program.
package measure

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/livhana/steward/capacity"
)

// Gauge samples the machine's load. It is safe for concurrent use.
type Gauge struct {
	mu       sync.Mutex
	proc     string               // the procfs; only tests change it
	up       func() time.Duration // since boot
	paths    []string
	binding  string
	problems map[string]string
	buf      []byte // read buffer, guarded by mu
	cpuReader
	open     opened
	cpu      cpuGauge
	disk     diskGauge
	groups   groups
	table    trend
	own      trend
	inotify  inotifyGauge
	scan     scanner
	roots    []capacity.Identity // the agents whose usage is queried
	followed time.Time           // time of the last such query
	alarms   chan struct{}
	stalls   stalls
}

// New returns a Gauge. paths are the project folders; their file systems count as disk.
func New(paths ...string) *Gauge {
	g := &Gauge{proc: "/proc", up: sinceBoot, problems: map[string]string{}, buf: make([]byte, roomy), alarms: make(chan struct{})}
	g.scan.clock = spentByNow
	g.SetPaths(paths...)
	return g
}

// SetPaths changes the folders whose file systems count; the processor readings are kept.
func (g *Gauge) SetPaths(paths ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.paths = slices.Compact(slices.Sorted(slices.Values(paths)))
	g.disk = diskGauge{asked: g.disk.asked}
}

// Sample reads every dimension; an average sample takes about 30 µs. A dimension that cannot be read is unknown, and
// Problems states the reason. The processor is known from the second sample on, because its reading covers the time in
// between. Limits of control groups, waiting programs (Linux) and, while Usage is queried, the limits of its processes
// can make a share larger than the plain reading; Because then states the cause. Consumers stays empty. Disks is keyed
// by folder.
func (g *Gauge) Sample(now time.Time) capacity.Load {
	g.mu.Lock()
	defer g.mu.Unlock()
	load := capacity.Load{At: now}
	ticks, err := g.readTicks()
	used := 0.0
	if err == nil {
		used, err = g.cpu.add(ticks, now)
	}
	if load.CPU = g.note(capacity.DimCPU)(used, err); load.CPU.Known() {
		load.Window = g.cpu.window
	}
	load.Disk = g.note(capacity.DimDisk)(g.disk.read(g.paths, now))
	load.Disks = g.disk.disks
	g.addMemory(&load, now)
	g.addFiles(&load, now)
	if g.follows(now) {
		g.inotify.look(g.proc, now)
	}
	g.binding = load.Scarce()
	return load
}

func (g *Gauge) addMemory(load *capacity.Load, now time.Time) {
	m, err := g.readMemory()
	load.Memory = g.note(capacity.DimMemory)(m.used(), err)
	if err != nil {
		m = memory{}
	} else {
		mb := int64((m.total - m.available) >> 20)
		load.MemoryUsedMB = &mb
	}
	g.addGroups(load, m, now)
	g.addPressure(load, &m, now)
	if load.Memory.Known() && m.pressure > load.Memory.Or(0) {
		load.Memory = capacity.Used(m.pressure)
		because(load, capacity.DimMemory, "programs wait for memory")
	}
}

// because records the cause of a share that the plain reading does not show.
func because(load *capacity.Load, dimension, words string) {
	if load.Because == nil {
		load.Because = map[string]string{}
	}
	load.Because[dimension] = words
}

// Problems returns the reason for each dimension that the last sample could not read, also for "consumers" (the
// processes), and under "pressure" the reason why Alarms stays silent. It is never nil.
func (g *Gauge) Problems() map[string]string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.problems)
}

// Alarms receives a token when the kernel reports pressure: programs wait for memory, or half of the time for the
// processor or a disk. Run must be running. The receiver of a token takes a sample; until the token is received, the
// kernel is not polled again.
func (g *Gauge) Alarms() <-chan struct{} { return g.alarms }

// note converts a reading into a share, and records the error if none exists.
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
