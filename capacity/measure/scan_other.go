//go:build !linux

package measure

import (
	"time"

	gopsutil "github.com/shirou/gopsutil/v4/process"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/platform/proc"
)

// processTable needs nothing kept here.
type processTable struct{}

// spentByNow: the times of a process come with all else.
func spentByNow(int) (time.Duration, clockState) { return 0, clockUnknown }

// look asks gopsutil. Of a process it asks for times, memory, parent and start only, and for descriptors and the name of
// few: those are system calls on every system, while its Status and Foreground start ps on macOS.
func (s *scanner) look(_ string, now time.Time) error {
	all, err := gopsutil.Processes()
	if err != nil {
		return err
	}
	for _, p := range all {
		found, age, ok := readOne(p, now)
		if !ok {
			continue // it has ended meanwhile, or is not ours to see
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

// lookCloser counts nothing: what limits another process cannot be read here.
func (s *scanner) lookCloser(string, *row, time.Time) {}

func (r *row) name() string {
	p := gopsutil.Process{Pid: int32(r.pid)}
	name, err := p.Name()
	if err != nil {
		return "?"
	}
	return name
}

// same asks package proc, for the start that gopsutil tells is rounded.
func (s *scanner) same(_ *row, id capacity.Identity) bool {
	return proc.Check(proc.Identity(id)) != proc.Gone
}

// openFiles counts a process's descriptors; not ok when we may not look.
func openFiles(_ string, pid int) (int, bool) {
	p := gopsutil.Process{Pid: int32(pid)}
	n, err := p.NumFDs()
	return int(n), err == nil
}
