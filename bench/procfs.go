package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// usage is what the kernel has counted of one process.
type usage struct {
	at       time.Time
	cpu      time.Duration  // of all threads, by the scheduler's nanoseconds
	ticks    time.Duration  // utime + stime, in hundredths of a second, with threads that have ended
	wakeups  map[string]int // voluntary context switches, by thread
	children int            // children there now
	foreign  int            // page faults of children that were waited for: none means that none has ever run
}

func usageOf(pid int) (usage, error) {
	u := usage{at: time.Now(), wakeups: map[string]int{}}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest) // from field 3 on, the state
	if len(fields) < 20 {
		return u, fmt.Errorf("read /proc/%d/stat: too short", pid)
	}
	u.ticks = time.Duration(number(fields[11])+number(fields[12])) * 10 * time.Millisecond
	u.foreign = number(fields[8]) + number(fields[10])
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil {
		return u, err
	}
	for _, task := range tasks {
		u.wakeups[task] = number(field(task+"/status", "voluntary_ctxt_switches"))
		run, _ := os.ReadFile(task + "/schedstat")
		if f := strings.Fields(string(run)); len(f) > 0 {
			u.cpu += time.Duration(number(f[0]))
		}
		children, _ := os.ReadFile(task + "/children")
		u.children += len(strings.Fields(string(children)))
	}
	return u, nil
}

// memory is a size from the process's status, in bytes.
func memory(pid int, key string) int {
	kib, _, _ := strings.Cut(field(fmt.Sprintf("/proc/%d/status", pid), key), " ")
	return number(kib) << 10
}

func number(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// span is what a process used between two moments.
type span struct {
	cpu     float64 // share of one core
	wakeups float64 // per second, all threads
	busiest float64 // of these those of one thread: the Go runtime's monitor, which naps 20 µs long while anything runs
	forks   string
	none    bool // no fork was seen
}

func between(a, b usage) span {
	seconds := b.at.Sub(a.at).Seconds()
	cpu := max(b.cpu-a.cpu, 0)
	if ticks := b.ticks - a.ticks; ticks > cpu+50*time.Millisecond {
		cpu = ticks // a thread has ended and taken its nanoseconds along
	}
	s := span{cpu: cpu.Seconds() / seconds, none: b.children == 0 && b.foreign == a.foreign}
	for task, n := range b.wakeups {
		rate := float64(n-a.wakeups[task]) / seconds
		s.wakeups, s.busiest = s.wakeups+rate, max(s.busiest, rate)
	}
	s.forks = fmt.Sprintf("%d children now, %d page faults of ended ones", b.children, b.foreign-a.foreign)
	return s
}

func (s span) rate() string {
	return fmt.Sprintf("%.1f/s (busiest thread %.1f/s)", s.wakeups, s.busiest)
}

func percent(share float64) string { return fmt.Sprintf("%.3f %% of a core", 100*share) }

func megabytes(n int) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
