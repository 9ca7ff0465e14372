// Package capacity decides from the load which tasks may start. It is pure: the readings come from package measure, and
// the caller makes the changes.
package capacity

import (
	"cmp"
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
)

// The dimensions of a load. DimAgent is the task's own agent; a Load does not hold it because it differs per task.
const (
	DimCPU    = "cpu"
	DimMemory = "memory"
	DimFiles  = "files"
	DimDisk   = "disk"
	DimAgent  = "agent"
)

// Dimensions lists the machine's own dimensions in display order, which also breaks ties.
func Dimensions() []string { return slices.Clone(machine[:]) }

var (
	machine       = [...]string{DimCPU, DimMemory, DimFiles, DimDisk}
	allDimensions = [...]string{DimCPU, DimMemory, DimFiles, DimDisk, DimAgent}
)

// Share and Consumer are the protocol's types, named here so that the gauges depend on this package only.
type (
	Share    = protocol.Share
	Consumer = protocol.Consumer
)

// Used returns a known Share; NaN is unknown.
func Used(v float64) Share { return protocol.Used(v) }

// MaxAge is the age beyond which a reading no longer counts.
const MaxAge = 5 * time.Second

// Load is how full the machine is: the used share of each dimension, never the free one.
type Load struct {
	CPU    protocol.Share `json:"cpu"`
	Memory protocol.Share `json:"memory"`
	Files  protocol.Share `json:"files"`
	Disk   protocol.Share `json:"disk"` // the fullest disk of all projects
	// Disks are the projects' disks by project name. A disk that cannot be read is missing; nil: only Disk is known and
	// applies to all.
	Disks map[string]Disk `json:"disks,omitempty"`
	// At is when the sample was taken; it also identifies the sample.
	At time.Time `json:"at,omitzero"`
	// Window is the time up to At that the processor reading covers; 0: unknown.
	Window time.Duration `json:"window,omitempty"`
	// Stalled is the share of the last seconds in which any process waited for the processor (Linux PSI, "some"). Two
	// busy processes on two cores do not wait.
	Stalled protocol.Share `json:"stalled,omitzero"`
	// Cores and MemoryTotal (bytes) are the totals of the shares: the machine's, or less where one of steward's cgroups
	// has a limit; 0: unknown.
	Cores       float64 `json:"cores,omitempty"`
	MemoryTotal uint64  `json:"memory_total,omitempty"`
	// Because states the cause of a dimension's share where it is not the plain reading: "node (pid 12) has 990 of its
	// 1024 files open". The text must not change from sample to sample while the cause stays the same.
	Because map[string]string `json:"because,omitempty"`
	// Exhausted is how soon the descriptors will be used up at the present rate; 0: not foreseeable.
	Exhausted time.Duration `json:"exhausted,omitempty"`
	// Consumers are the largest users of the scarce dimension, largest first, followed by those of the processor and of
	// memory (see Largest). It is empty while there is capacity.
	Consumers []protocol.Consumer `json:"consumers,omitempty"`
	// OpenFiles (machine-wide) and MemoryUsedMB (MiB) are nil when unknown.
	OpenFiles    *int64 `json:"open_files"`
	MemoryUsedMB *int64 `json:"memory_used_mb"`
}

// Share returns the used share of a machine dimension; unknown for any other name.
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

// Used returns the largest known share, because the largest binds; unknown if none is known.
func (l Load) Used() protocol.Share { return l.Share(l.Binding()) }

// Binding returns the dimension with the largest known share; "" if none is known.
func (l Load) Binding() string {
	name, most := "", -1.0
	for _, d := range machine {
		if v, ok := l.Share(d).Value(); ok && v > most {
			name, most = d, v
		}
	}
	return name
}

// Scarce is the dimension by which processes are ranked: the fullest one, excluding disk. No process table shows which
// process filled a disk.
func (l Load) Scarce() string {
	l.Disk = protocol.Share{}
	return l.Binding()
}

// Largest returns the n largest consumers of a dimension, largest first; none for a dimension that processes do not use
// up.
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

// Largest returns the largest consumers of the scarce dimension, as many as a deferral names.
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

// Fresh returns the load as it may be used at now. A sample that is older than MaxAge, or from the future (a stepped
// clock), becomes unknown. At stays, because it still identifies the sample.
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
	// Disks are the projects' disks by project name.
	Disks map[string]Disk `json:"disks,omitempty"`
}

// Summary returns the load as the status document shows it. Pass it through Fresh first.
func (l Load) Summary() Summary {
	return Summary{
		Used: l.Used(), Binding: l.Binding(), Unknown: l.Unknown(),
		CPU: l.CPU, Memory: l.Memory, Files: l.Files, Disk: l.Disk, Disks: l.Disks,
	}
}
