// Package capacity decides how full is too full and who may start. It is pure:
// the readings come from package measure, the changes are made by the caller.
package capacity

import (
	"cmp"
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
)

// The dimensions of a load. DimAgent is the task's own agent, which a Load does not hold: it differs per task.
const (
	DimCPU    = "cpu"
	DimMemory = "memory"
	DimFiles  = "files"
	DimDisk   = "disk"
	DimAgent  = "agent"
)

// Dimensions lists the machine's own dimensions, in the order in which they are shown and in which ties are broken.
func Dimensions() []string { return slices.Clone(machine[:]) }

var (
	machine       = [...]string{DimCPU, DimMemory, DimFiles, DimDisk}
	allDimensions = [...]string{DimCPU, DimMemory, DimFiles, DimDisk, DimAgent}
)

// Share and Consumer are the protocol's own: named here so that the gauges need this package only.
type (
	Share    = protocol.Share
	Consumer = protocol.Consumer
)

// Used makes a known Share; a value that is not a number is unknown.
func Used(v float64) Share { return protocol.Used(v) }

// MaxAge is the age past which a reading says nothing about now.
const MaxAge = 5 * time.Second

// Load is how full the machine is: the used share of each dimension, never the free one.
type Load struct {
	CPU    protocol.Share `json:"cpu"`
	Memory protocol.Share `json:"memory"`
	Files  protocol.Share `json:"files"`
	Disk   protocol.Share `json:"disk"` // the fullest of the projects' disks
	// Disks are the disks of the projects by the name of the project. A disk that cannot be read is missing; nil: only Disk is
	// known, and counts for all.
	Disks map[string]Disk `json:"disks,omitempty"`
	// At is when the sample was taken; it also tells one sample from the next.
	At time.Time `json:"at,omitzero"`
	// Window is the time that the reading of the processor covers, up to At; 0: unknown.
	Window time.Duration `json:"window,omitempty"`
	// Stalled is the share of the last seconds in which something waited for the processor (Linux PSI, "some"); two
	// busy processes on two cores stall nobody.
	Stalled protocol.Share `json:"stalled,omitzero"`
	// Cores and MemoryTotal (bytes) are what the shares are shares of: the machine's, or less where a cgroup of ours
	// says so; 0: unknown.
	Cores       float64 `json:"cores,omitempty"`
	MemoryTotal uint64  `json:"memory_total,omitempty"`
	// Because says of a dimension what makes it so full, when that is not the plain reading: "node (pid 12) has 990 of its
	// 1024 files open". It must not change from sample to sample while the cause stays.
	Because map[string]string `json:"because,omitempty"`
	// Exhausted is how soon the descriptors will be used up at the present pace; 0: not in sight.
	Exhausted time.Duration `json:"exhausted,omitempty"`
	// Consumers are the largest users of what is scarce, largest first, and those of the processor and of memory after
	// them (see Largest); empty while there is room.
	Consumers []protocol.Consumer `json:"consumers,omitempty"`
	// OpenFiles (machine-wide) and MemoryUsedMB (MiB) are nil when unknown.
	OpenFiles    *int64 `json:"open_files"`
	MemoryUsedMB *int64 `json:"memory_used_mb"`
}

// Share gives the used share of a machine dimension; unknown for any other word.
func (l Load) Share(dimension string) protocol.Share {
	switch dimension {
	case DimCPU:
		return l.CPU
	case DimMemory:
		return l.Memory
	case DimFiles:
		return l.Files
	case DimDisk:
		return l.Disk
	}
	return protocol.Share{}
}

// Used is the largest known share, for the largest binds; unknown when none is known.
func (l Load) Used() protocol.Share { return l.Share(l.Binding()) }

// Binding names the dimension with the largest known share; "" when none is known.
func (l Load) Binding() string {
	name, most := "", -1.0
	for _, d := range machine {
		if v, ok := l.Share(d).Value(); ok && v > most {
			name, most = d, v
		}
	}
	return name
}

// Scarce is the dimension by which processes are ranked: the fullest of those that a process takes hold of. No process
// table says who filled a disk.
func (l Load) Scarce() string {
	l.Disk = protocol.Share{}
	return l.Binding()
}

// Largest gives the n largest consumers of a dimension, largest first; none for one that processes do not use up.
func Largest(list []protocol.Consumer, dimension string, n int) []protocol.Consumer {
	size := func(protocol.Consumer) float64 { return 0 }
	switch dimension {
	case DimCPU:
		size = func(c protocol.Consumer) float64 { return c.CPU }
	case DimMemory:
		size = func(c protocol.Consumer) float64 { return float64(c.Memory) }
	case DimFiles:
		size = func(c protocol.Consumer) float64 { return float64(c.Files) }
	}
	found := slices.DeleteFunc(slices.Clone(list), func(c protocol.Consumer) bool { return size(c) <= 0 })
	slices.SortStableFunc(found, func(a, b protocol.Consumer) int { return cmp.Compare(size(b), size(a)) })
	return found[:min(n, len(found))]
}

// Largest gives the largest consumers of what is scarce, as many as a deferral names.
func (l Load) Largest() []protocol.Consumer { return Largest(l.Consumers, l.Scarce(), ConsumersShown) }

// Unknown lists the dimensions that could not be read. It is never nil.
func (l Load) Unknown() []string {
	out := []string{}
	for _, d := range machine {
		if !l.Share(d).Known() {
			out = append(out, d)
		}
	}
	return out
}

// Fresh gives the load as it may be used at now: a sample older than MaxAge, or from the future (a stepped
// clock), is as if nothing had been read. At stays, because it still tells one sample from the next.
func (l Load) Fresh(now time.Time) Load {
	if age := now.Sub(l.At); l.At.IsZero() || age < 0 || age > MaxAge {
		return Load{At: l.At}
	}
	return l
}

// Summary is the `load` of the status document.
type Summary struct {
	Used    protocol.Share `json:"used"`
	Binding string         `json:"binding"`
	CPU     protocol.Share `json:"cpu"`
	Memory  protocol.Share `json:"memory"`
	Files   protocol.Share `json:"files"`
	Disk    protocol.Share `json:"disk"`
	Unknown []string       `json:"unknown"`
	// Disks are the disks of the projects, by the name of the project.
	Disks map[string]Disk `json:"disks,omitempty"`
}

// Summary gives the load as the status document shows it. Pass it through Fresh first.
func (l Load) Summary() Summary {
	return Summary{
		Used: l.Used(), Binding: l.Binding(), Unknown: l.Unknown(),
		CPU: l.CPU, Memory: l.Memory, Files: l.Files, Disk: l.Disk, Disks: l.Disks,
	}
}
