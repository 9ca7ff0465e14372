package measure

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/livhana/steward/capacity"
)

// groupsEvery is the interval at which limits are read again: an operator may change them, and the process may be
// moved.
const groupsEvery = 30 * time.Second

// groups are the control groups, version 1 and 2, that contain steward: its own and all ancestors, as far as they set a
// limit. Processes started by agents may be in other groups, but a limit on an agent in the same session or container
// is found here.
type groups struct {
	at     time.Time
	memory []*memoryGroup
	cpu    []*cpuGroup
}

type memoryGroup struct {
	name        string
	limit       uint64 // bytes; the smallest of its limits
	usage, stat kept
	names       [3]string // keys in stat of reclaimable memory: all, half and half of it counts
}

type cpuGroup struct {
	name  string
	cores float64 // cores allowed by the quota
	usage kept
	nanos bool // version 1 counts ns, version 2 µs
	past  cpuSpent
}

type cpuSpent struct {
	spent time.Duration
	at    time.Time
	share float64
}

// addGroups raises the shares to those of the tightest limit on steward.
func (g *Gauge) addGroups(load *capacity.Load, m memory, now time.Time) {
	if age := now.Sub(g.groups.at); m.total > 0 && (g.groups.at.IsZero() || age < 0 || age >= groupsEvery) {
		g.findGroups(m.total, now)
	}
	load.Cores, load.MemoryTotal = float64(cmp.Or(g.cpu.cores(), runtime.NumCPU())), m.total
	for _, group := range g.groups.memory {
		load.MemoryTotal = min(load.MemoryTotal, group.limit)
		if used := group.used(load.Memory.Or(0), g.buf); load.Memory.Known() && used > load.Memory.Or(0) {
			load.Memory = capacity.Used(used)
			because(load, capacity.DimMemory, "the control group "+group.name+" has a limit of its own")
		}
	}
	for _, group := range g.groups.cpu {
		load.Cores = min(load.Cores, group.cores)
		if used := group.used(now, g.buf); load.CPU.Known() && used > load.CPU.Or(0) {
			load.CPU = capacity.Used(used)
			because(load, capacity.DimCPU, "the control group "+group.name+" has a limit of its own")
		}
	}
}

// findGroups keeps the known groups when it cannot read them: without a free descriptor the limits still apply.
func (g *Gauge) findGroups(total uint64, now time.Time) {
	own, err := os.ReadFile(filepath.Join(g.proc, "self/cgroup"))
	if err != nil {
		return
	}
	mounts, err := os.ReadFile(filepath.Join(g.proc, "self/mountinfo"))
	if err != nil {
		return
	}
	members, trees := parseMemberships(string(own)), parseHierarchies(string(mounts))
	old := g.groups
	g.groups = groups{at: now}
	for _, dir := range chains("memory", members, trees) {
		g.groups.addMemory(dir, total, "memory.usage_in_bytes", [3]string{"total_inactive_file", "total_active_file", ""}, "memory.limit_in_bytes")
	}
	for _, dir := range chains("", members, trees) {
		g.groups.addMemory(dir, total, "memory.current", [3]string{"inactive_file", "active_file", "slab_reclaimable"}, "memory.max", "memory.high")
		if quota, period, ok := readQuota(filepath.Join(dir, "cpu.max")); ok {
			g.groups.addCPU(dir, quota/period, kept{path: filepath.Join(dir, "cpu.stat")}, false)
		}
	}
	quotas, counts := chains("cpu", members, trees), chains("cpuacct", members, trees)
	for i, dir := range quotas {
		quota, any := readNumber(filepath.Join(dir, "cpu.cfs_quota_us")) // -1: none
		period, all := readNumber(filepath.Join(dir, "cpu.cfs_period_us"))
		// The usage counter is in a separate hierarchy, where the process may be in a different group.
		if any && all && quota > 0 && period > 0 && len(counts) == len(quotas) {
			g.groups.addCPU(dir, float64(quota)/float64(period), kept{path: filepath.Join(counts[i], "cpuacct.usage")}, true)
		}
	}
	g.groups.inherit(old)
}

// inherit keeps the measurements and descriptors of unchanged groups.
func (g *groups) inherit(old groups) {
	for _, n := range g.memory {
		for _, o := range old.memory {
			if o.name == n.name && o.usage.path == n.usage.path {
				n.usage, n.stat = o.usage, o.stat
			}
		}
	}
	for _, n := range g.cpu {
		for _, o := range old.cpu {
			if o.usage.path == n.usage.path {
				n.usage, n.past = o.usage, o.past
			}
		}
	}
}

func (g *groups) addMemory(dir string, total uint64, usage string, reclaimable [3]string, limits ...string) {
	least := total
	for _, name := range limits {
		if n, ok := readNumber(filepath.Join(dir, name)); ok { // "max" means no limit; version 1 uses about 2^63
			least = min(least, n)
		}
	}
	if least < total {
		g.memory = append(g.memory, &memoryGroup{
			name: dir, limit: least, names: reclaimable,
			usage: kept{path: filepath.Join(dir, usage)}, stat: kept{path: filepath.Join(dir, "memory.stat")},
		})
	}
}

func (g *groups) addCPU(dir string, cores float64, usage kept, nanos bool) {
	g.cpu = append(g.cpu, &cpuGroup{name: dir, cores: cores, usage: usage, nanos: nanos})
}

// used returns the share of the limit that is used and not reclaimable; 0 if it cannot be read, or if it is certainly
// not above the given share. Like the kernel's own "available", it counts the page cache as free, but only half of the
// active part: a group full of cached files is not full. See docs/decisions.md, "Page cache does not fill a control group".
func (g *memoryGroup) used(above float64, buf []byte) float64 {
	text, err := g.usage.read(buf)
	if err != nil {
		return 0
	}
	usage, ok := single(text)
	if !ok || g.limit > 0 && float64(usage)/float64(g.limit) <= above {
		return 0
	}
	if g.limit == 0 {
		return 1
	}
	text, err = g.stat.read(buf)
	if err != nil {
		return 0
	}
	whole, ok := entry(text, g.names[0])
	if !ok {
		return 0
	}
	back := whole
	for _, name := range g.names[1:] {
		half, _ := entry(text, name) // old kernels lack some keys
		back += half / 2
	}
	return float64(usage-min(back, usage)) / float64(g.limit)
}

// used returns the share of the quota used since the previous reading.
func (g *cpuGroup) used(now time.Time, buf []byte) float64 {
	spent, ok := g.spent(buf)
	if !ok {
		g.past = cpuSpent{}
		return 0
	}
	gap := now.Sub(g.past.at)
	if !g.past.at.IsZero() && gap > 0 && gap < shortest {
		return g.past.share
	}
	last := g.past
	g.past = cpuSpent{spent: spent, at: now}
	if last.at.IsZero() || gap <= 0 || gap > longest || spent < last.spent {
		return 0
	}
	g.past.share = (spent - last.spent).Seconds() / gap.Seconds() / g.cores
	return g.past.share
}

func (g *cpuGroup) spent(buf []byte) (time.Duration, bool) {
	text, err := g.usage.read(buf)
	if err != nil {
		return 0, false
	}
	if g.nanos {
		n, ok := single(text)
		return time.Duration(n), ok
	}
	n, ok := entry(text, "usage_usec")
	return time.Duration(n) * time.Microsecond, ok && n < 1<<53
}

// readNumber reads a file that holds one number; any other text ("max", -1) is not ok.
func readNumber(path string) (uint64, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	return single(text)
}

// readQuota reads cpu.max: "150000 100000", or "max 100000" for no quota.
func readQuota(path string) (quota, period float64, ok bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, false
	}
	return parseQuota(text)
}

func parseQuota(text []byte) (quota, period float64, ok bool) {
	q, rest, ok := number(text)
	if !ok {
		return 0, 0, false
	}
	p, ok := single(bytes.TrimSpace(rest))
	return float64(q), float64(p), ok && q > 0 && p > 0
}
