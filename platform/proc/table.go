package proc

import (
	"fmt"
	"time"
)

// Process is one row of the process table.
type Process struct {
	Identity
	Parent, Group, Session int    // process numbers; the leader of a session has Session == PID
	Zombie                 bool   // all of it has ended, and nobody has asked for its exit code yet
	Stopped                bool   // suspended by a signal or held by a debugger
	Name                   string // the command's short name, at most 15 bytes; any process may choose its own
}

// Table returns all processes that this one may see, by number; zombies are included and marked. A process that ends
// meanwhile is left out. Only Linux has it; elsewhere the error is errors.ErrUnsupported.
func Table() ([]Process, error) {
	all, err := table()
	if err != nil {
		return nil, fmt.Errorf("read process table: %w", err)
	}
	return all, nil
}

// Cwd returns the working folder of a process as the kernel names it: one that was removed since ends in " (deleted)".
// ErrGone when there is no such process or only its zombie. Linux only, like Table.
func Cwd(pid int) (string, error) {
	dir, err := cwd(pid)
	if err != nil {
		return "", fmt.Errorf("working folder of process %d: %w", pid, err)
	}
	return dir, nil
}

// Command returns the arguments a process was started with, its name first; none for a zombie or a kernel thread.
// Linux only, like Table.
func Command(pid int) ([]string, error) {
	argv, err := command(pid)
	if err != nil {
		return nil, fmt.Errorf("command of process %d: %w", pid, err)
	}
	return argv, nil
}

// Writes returns the absolute paths of the regular files that a process has open for writing, sorted, each once.
// Removed files are left out. Linux only, like Table, and only for one's own processes (or as root).
func Writes(pid int) ([]string, error) {
	paths, err := writes(pid)
	if err != nil {
		return nil, fmt.Errorf("open files of process %d: %w", pid, err)
	}
	return paths, nil
}

// Started is when a process began, by the wall clock as it is set now: when the clock was set meanwhile, a file that the
// process wrote at its start may bear another time. Good to some hundredths of a second.
func Started(id Identity) (time.Time, error) {
	at, err := started(id)
	if err != nil {
		return time.Time{}, fmt.Errorf("start of process %d: %w", id.PID, err)
	}
	return at, nil
}
