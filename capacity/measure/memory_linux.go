package measure

import (
	"bytes"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

func (g *Gauge) readMemory() (memory, error) {
	text, err := g.kept("meminfo").read(g.buf)
	if err != nil {
		return memory{}, fmt.Errorf("read memory: %w", err)
	}
	m, err := parseMeminfo(text)
	if err == nil {
		m.available += g.reclaimableARC(m)
	}
	return m, err
}

// reclaimableARC returns how much the ZFS cache could give back, in bytes. The kernel does not count it in
// MemAvailable, although the cache shrinks to its minimum when programs need memory. The cache is part of the used
// memory: a larger value belongs to another machine, and so does the cache seen in a container whose meminfo comes from
// lxcfs (FUSE).
func (g *Gauge) reclaimableARC(m memory) uint64 {
	text, err := g.kept("spl/kstat/zfs/arcstats").read(g.buf)
	if err != nil {
		return 0
	}
	size, ok := arcEntry(text, "size")
	least, known := arcEntry(text, "c_min")
	if !ok || !known || size <= least || size > m.total-m.available {
		return 0
	}
	var fs unix.Statfs_t
	if unix.Statfs(g.proc+"/meminfo", &fs) != nil || fs.Type == unix.FUSE_SUPER_MAGIC {
		return 0
	}
	return size - least
}

// arcEntry finds a number in arcstats, whose rows are "name type value".
func arcEntry(text []byte, name string) (uint64, bool) {
	for line := range bytes.Lines(text) {
		f := bytes.Fields(line)
		if len(f) == 3 && string(f[0]) == name {
			return single(f[2])
		}
	}
	return 0, false
}

// parseMeminfo reads /proc/meminfo, where "kB" means KiB.
func parseMeminfo(text []byte) (memory, error) {
	const unread = 1<<64 - 1
	m := memory{total: unread, available: unread}
	var swapFree uint64
	for len(text) > 0 {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte{'\n'})
		name, value, _ := bytes.Cut(line, []byte{':'})
		var to *uint64
		switch string(name) {
		case "MemTotal":
			to = &m.total
		case "MemAvailable":
			to = &m.available
		case "SwapTotal":
			to = &m.swapTotal
		case "SwapFree":
			to = &swapFree
		default:
			continue
		}
		n, _, ok := number(value)
		if !ok || n > absurd>>10 {
			return memory{}, fmt.Errorf("read memory: %q makes no sense", line)
		}
		*to = n << 10
	}
	if m.total == unread || m.available == unread {
		return memory{}, errors.New("read memory: the kernel does not say how much is available")
	}
	if swapFree <= m.swapTotal {
		m.swapUsed = m.swapTotal - swapFree
	}
	return m, m.check()
}
