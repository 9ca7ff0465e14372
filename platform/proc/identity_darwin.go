package proc

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Process states of <sys/proc.h>.
const (
	stopped = 4 // SSTOP
	zombie  = 5 // SZOMB
)

// look reads one process. Without an error the state is Alive or Stopped.
func look(pid int) (start uint64, state State, err error) {
	p, err := kernelProc(pid)
	if err != nil {
		return 0, Unknown, err
	}
	at := p.Proc.P_starttime
	start = uint64(at.Sec)*1_000_000 + uint64(at.Usec)
	switch p.Proc.P_stat {
	case zombie:
		return 0, Gone, ErrGone
	case stopped:
		return start, Stopped, nil
	}
	return start, Alive, nil
}

func owner(pid int) (int, error) {
	p, err := kernelProc(pid)
	if err != nil {
		return -1, err
	}
	return int(p.Eproc.Pcred.P_ruid), nil
}

func kernelProc(pid int) (*unix.KinfoProc, error) {
	found, err := unix.SysctlKinfoProcSlice("kern.proc.pid", pid)
	if err != nil {
		return nil, absent(pid, fmt.Errorf("read kern.proc.pid: %w", err))
	}
	for i := range found {
		if int(found[i].Proc.P_pid) == pid {
			return &found[i], nil
		}
	}
	return nil, absent(pid, errors.New("read kern.proc.pid: not listed, yet it exists"))
}

// absent turns a failed read into ErrGone only if kill(2) confirms that the process does not exist.
func absent(pid int, why error) error {
	if unix.Kill(pid, 0) == unix.ESRCH {
		return ErrGone
	}
	return why
}

// bootID reads kern.bootsessionuuid; kern.boottime is unsuitable because it moves when the clock is set.
func bootID() (string, error) {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err == nil && id == "" {
		err = errors.New("empty")
	}
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return id, nil
}
