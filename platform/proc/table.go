package proc

import (
	"fmt"
	"time"
)

// Process is one row of the process table.
type Process struct {
	Identity
	Parent, Group, Session int    // pids; a session leader has Session == PID
	Zombie                 bool   // all threads have ended, and the process is not yet reaped
	Stopped                bool   // suspended by a signal or held by a debugger
	Terminal               bool   // it has a controlling terminal
	Name                   string // the command's short name, at most 15 bytes; a process can set its own
}

// Table returns all processes that this process may see, sorted by pid; zombies are included and marked. A process
// that ends during the scan is left out. Linux only; elsewhere the error is errors.ErrUnsupported.
func Table() ([]Process, error) {
	all, err := table()
	if err != nil {
		return nil, fmt.Errorf("read process table: %w", err)
	}
	return all, nil
}

// Cwd returns the working folder of a process as the kernel reports it: the path of a removed folder ends in "
// (deleted)". It returns ErrGone if the process does not exist or is a zombie. Linux only, like Table.
func Cwd(pid int) (string, error) {
	dir, err := cwd(pid)
	if err != nil {
		return "", fmt.Errorf("working folder of process %d: %w", pid, err)
	}
	return dir, nil
}

// Command returns the arguments that a process was started with, starting with its name; none for a zombie or a
// kernel thread. Linux only, like Table.
func Command(pid int) ([]string, error) {
	argv, err := command(pid)
	if err != nil {
		return nil, fmt.Errorf("command of process %d: %w", pid, err)
	}
	return argv, nil
}

// Environ returns the environment that a process was started with, as NAME=value words; at most its first 64 KiB. It is
// empty where the process may not be examined. Linux only, like Table.
func Environ(pid int) ([]string, error) {
	words, err := environ(pid)
	if err != nil {
		return nil, fmt.Errorf("environment of process %d: %w", pid, err)
	}
	return words, nil
}

// Started returns the start time of a process by the current wall clock. If the clock was set meanwhile, a file that
// the process wrote at its start may have another time. The accuracy is some hundredths of a second.
func Started(id Identity) (time.Time, error) {
	at, err := started(id)
	if err != nil {
		return time.Time{}, fmt.Errorf("start of process %d: %w", id.PID, err)
	}
	return at, nil
}

// OpenFile is a descriptor of a process through which it can write a regular file.
type OpenFile struct {
	Path   string // absolute
	FD     int    // the descriptor number in that process
	Append bool   // every write goes to the end (O_APPEND), as with a log
}

// Opened returns the descriptors through which a process can write regular files, sorted by number. Removed
// files are left out. Linux only, and only for one's own processes (or as root).
func Opened(pid int) ([]OpenFile, error) {
	files, err := opened(pid)
	if err != nil {
		return nil, fmt.Errorf("descriptors of process %d: %w", pid, err)
	}
	return files, nil
}
