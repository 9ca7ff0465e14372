package proc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

func census() ([]Process, error) {
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	found, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, fmt.Errorf("read kern.proc.all: %w", err)
	}
	all := make([]Process, 0, len(found))
	for i := range found {
		k := &found[i]
		at := k.Proc.P_starttime
		p := Process{
			Identity: Identity{PID: int(k.Proc.P_pid), Start: uint64(at.Sec)*1_000_000 + uint64(at.Usec), Boot: boot, UID: int(k.Eproc.Pcred.P_ruid)},
			Parent:   int(k.Eproc.Ppid), Group: int(k.Eproc.Pgid),
			Zombie: k.Proc.P_stat == zombie, Stopped: k.Proc.P_stat == stopped,
			Name: unix.ByteSliceToString(k.Proc.P_comm[:]),
		}
		// The row has no session id; for a process that has ended meanwhile it stays 0, which no process leads.
		p.Session, _ = unix.Getsid(p.PID)
		all = append(all, p)
	}
	return all, nil
}

// bearing returns a function that reports whether a process was started with key=value in its environment.
func bearing(key, value string) func(pid int) bool {
	return func(pid int) bool {
		text, err := unix.SysctlRaw("kern.procargs2", pid)
		return err == nil && procargsHold(text, key+"="+value)
	}
}

// procargsHold parses the output of kern.procargs2: the number of arguments in 4 bytes, the program's path, NULs, the
// arguments, the environment; each string ends with a NUL.
func procargsHold(text []byte, entry string) bool {
	if len(text) < 4 {
		return false
	}
	args := int(binary.NativeEndian.Uint32(text))
	_, rest, _ := bytes.Cut(text[4:], []byte{0})
	parts := bytes.Split(bytes.TrimLeft(rest, "\x00"), []byte{0})
	if args < 0 || args > len(parts) {
		return false
	}
	for _, part := range parts[args:] {
		if string(part) == entry {
			return true
		}
	}
	return false
}

// BecomeSubreaper is not supported: macOS reparents all orphans to process 1.
func BecomeSubreaper() error { return fmt.Errorf("become subreaper: %w", errors.ErrUnsupported) }
