// Package measure reads how full the machine is. It never starts another program.
package measure

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/livhana/steward/capacity"
)

// Gauge takes samples of the machine's load. It is safe for use by several goroutines at once.
type Gauge struct {
	mu       sync.Mutex
	proc     string               // the procfs; only tests read another one
	up       func() time.Duration // since boot
	paths    []string
	binding  string
	problems map[string]string
	buf      []byte // for what is read under mu
	cpuReader
	open     opened
	cpu      cpuGauge
	disk     diskGauge
	groups   groups
	table    trend
	own      trend
	inotify  inotifyGauge
	scan     scanner
	roots    []capacity.Identity // the agents that somebody asks about
	followed time.Time           // when that was
	alarms   chan struct{}

	cpuWaits, memoryWaits waiting
}

// New makes a Gauge. Paths are the folders whose file systems count as disk: those of the projects.
func New(paths ...string) *Gauge {
	g := &Gauge{proc: "/proc", up: sinceBoot, problems: map[string]string{}, buf: make([]byte, roomy), alarms: make(chan struct{})}
	g.scan.clock = spentByNow
	g.SetPaths(paths...)
	return g
}

// SetPaths changes the folders whose file systems count; what is known of the processor stays.
func (g *Gauge) SetPaths(paths ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.paths = slices.Compact(slices.Sorted(slices.Values(paths)))
	g.disk = diskGauge{asked: g.disk.asked}
}

// Sample reads every dimension; a mean sample costs some 30 µs. What cannot be read is unknown, and Problems says
// why. The processor is known from the second sample on, for its reading is what happened in between. Limits of control
// groups, programs that wait (Linux) and, while Usage is asked, the limits of its processes make a share larger than
// the plain reading; then Because says so. Consumers stay empty. Disks are by folder.
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

// because names the cause of a share that the plain reading does not show.
func because(load *capacity.Load, dimension, words string) {
	if load.Because == nil {
		load.Because = map[string]string{}
	}
	load.Because[dimension] = words
}

// Problems says of every dimension that the last sample could not read why, of "consumers" (the processes) likewise, and
// of "pressure" why Alarms stays silent. It is never nil.
func (g *Gauge) Problems() map[string]string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.problems)
}

// Alarms has a token when the kernel says that the machine is in need right now: that programs wait for memory, or
// half of the time for the processor or a disk. Run must run. Whoever takes the token takes a sample; until somebody does,
// the kernel is not asked again.
func (g *Gauge) Alarms() <-chan struct{} { return g.alarms }

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
