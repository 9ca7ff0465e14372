package measure

import (
	"context"
	"os"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// clockTicks per second is the same on every Linux that Go runs on.
const clockTicks = 100

func readProcesses(_ context.Context, proc string) ([]process, error) {
	fs, err := procfs.NewFS(proc)
	if err != nil {
		return nil, err
	}
	all, err := fs.AllProcs()
	if err != nil {
		return nil, err
	}
	var boot unix.Timespec // start times count from here too, and both go on through a suspend
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil {
		return nil, err
	}
	page := uint64(os.Getpagesize())
	rows := make([]process, 0, len(all))
	for _, p := range all {
		s, err := p.Stat()
		if err != nil {
			continue // it has ended meanwhile, or is not ours to see
		}
		start := time.Duration(s.Starttime) * (time.Second / clockTicks)
		rows = append(rows, process{
			pid: p.PID, start: s.Starttime, name: func() string { return s.Comm },
			spent: s.CPUTime(), age: time.Duration(boot.Nano()) - start, rss: uint64(max(0, s.RSS)) * page,
		})
	}
	return rows, nil
}

// openFiles counts a process's descriptors; 0 when we may not look.
func openFiles(proc string, pid int) int {
	fs, err := procfs.NewFS(proc)
	if err != nil {
		return 0
	}
	p, err := fs.Proc(pid)
	if err != nil {
		return 0
	}
	n, err := p.FileDescriptorsLen()
	if err != nil {
		return 0
	}
	return n
}
