//go:build !linux

package measure

import (
	"context"
	"time"

	gopsutil "github.com/shirou/gopsutil/v4/process"
)

// readProcesses asks gopsutil. Of a process it asks for times, memory, descriptors, start and name only: those are
// system calls on every system, while its Status and Foreground start ps on macOS.
func readProcesses(ctx context.Context, _ string) ([]process, error) {
	all, err := gopsutil.ProcessesWithContext(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	rows := make([]process, 0, len(all))
	for _, p := range all {
		times, err := p.TimesWithContext(ctx)
		if err != nil {
			continue // it has ended meanwhile, or is not ours to see
		}
		row := process{pid: int(p.Pid), spent: times.User + times.System}
		row.name = func() string {
			name, err := p.NameWithContext(ctx)
			if err != nil {
				return "?"
			}
			return name
		}
		if ms, err := p.CreateTimeWithContext(ctx); err == nil {
			row.start, row.age = uint64(ms), now.Sub(time.UnixMilli(ms))
		}
		if m, err := p.MemoryInfoWithContext(ctx); err == nil {
			row.rss = m.RSS
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// openFiles counts a process's descriptors; 0 when we may not look.
func openFiles(_ string, pid int) int {
	p := gopsutil.Process{Pid: int32(pid)}
	n, err := p.NumFDs()
	if err != nil {
		return 0
	}
	return int(n)
}
