//go:build !linux

package measure

import (
	"time"

	gopsutil "github.com/shirou/gopsutil/v4/process"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/platform/proc"
)

// spentByNow is unknown here: the full reading includes the times of a process.
func spentByNow(int) (time.Duration, clockState) { return 0, clockUnknown }

// look uses gopsutil. It asks for times, memory, parent and start only, and for descriptors and the name of few
// processes. Those are system calls on every system, while gopsutil's Status and Foreground start ps on macOS.
// See docs/decisions.md, "gopsutil v4, not v3".
func (s *scanner) look(_ string, now time.Time) error {
	all, err := gopsutil.Processes()
	if err != nil {
		return err
	}
	for _, p := range all {
		found, age, ok := readOne(p, now)
		if !ok {
			continue // the process has ended meanwhile, or is not readable
		}
		r := s.rows[found.pid]
		if r != nil {
			r.cores, r.rate, r.scan = 0, 0, s.number
		}
		if r == nil || s.take(r, found, age, now) {
			if r != nil {
				r.scan = 0
			}
			heir := &row{reading: reading{pid: found.pid}, scan: s.number}
			s.rows[found.pid] = heir
			s.alive = append(s.alive, heir)
			s.take(heir, found, age, now)
		}
	}
	s.bury()
	return nil
}

func readOne(p *gopsutil.Process, now time.Time) (found reading, age time.Duration, ok bool) {
	times, err := p.Times()
	if err != nil {
		return reading{}, 0, false
	}
	found = reading{pid: int(p.Pid), spent: time.Duration((times.User + times.System) * float64(time.Second))}
	if ms, err := p.CreateTime(); err == nil {
		found.start, age = uint64(ms), now.Sub(time.UnixMilli(ms))
	}
	if m, err := p.MemoryInfo(); err == nil {
		found.rss = m.RSS
	}
	if parent, err := p.Ppid(); err == nil {
		found.parent = int(parent)
	}
	return found, age, true
}

// lookCloser does nothing: the limits of another process cannot be read here.
func (s *scanner) lookCloser(string, *row, time.Time) {}

func (r *row) name() string {
	p := gopsutil.Process{Pid: int32(r.pid)}
	name, err := p.Name()
	if err != nil {
		return "?"
	}
	return name
}

// same uses package proc, because the start time from gopsutil is rounded.
func (s *scanner) same(_ *row, id capacity.Identity) bool {
	return proc.Check(proc.Identity(id)) != proc.Gone
}

// openFiles counts a process's descriptors; not ok without permission.
func openFiles(_ string, pid int) (int, bool) {
	p := gopsutil.Process{Pid: int32(pid)}
	n, err := p.NumFDs()
	return int(n), err == nil
}
