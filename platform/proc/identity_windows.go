package proc

import (
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

const mayLook = windows.PROCESS_QUERY_LIMITED_INFORMATION | windows.SYNCHRONIZE

// look reads one process. Windows has no stopped state for a process as a whole.
func look(pid int) (start uint64, state State, err error) {
	h, err := open(pid, mayLook)
	if err != nil {
		return 0, Unknown, err
	}
	defer windows.CloseHandle(h)
	return lookAt(h)
}

// open returns ErrGone when no process has the number.
func open(pid int, access uint32) (windows.Handle, error) {
	h, err := windows.OpenProcess(access, false, uint32(pid))
	if errors.Is(err, windows.ERROR_INVALID_PARAMETER) {
		return 0, ErrGone
	}
	if err != nil {
		return 0, fmt.Errorf("open process: %w", err)
	}
	return h, nil
}

func lookAt(h windows.Handle) (start uint64, state State, err error) {
	if ended(h) {
		return 0, Gone, ErrGone
	}
	var created, exited, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(h, &created, &exited, &kernel, &user); err != nil {
		return 0, Unknown, fmt.Errorf("read process times: %w", err)
	}
	return uint64(created.HighDateTime)<<32 | uint64(created.LowDateTime), Alive, nil
}

// ended is right also while somebody's open handle keeps a dead process listed.
func ended(h windows.Handle) bool {
	event, err := windows.WaitForSingleObject(h, 0)
	return err == nil && event == windows.WAIT_OBJECT_0
}

func owner(int) (int, error) { return -1, nil }

// bootID is the kernel's count of starts; the time of the last boot moves when the clock is set.
func bootID() (string, error) {
	const path = `SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\PrefetchParameters`
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, path, registry.QUERY_VALUE)
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	defer k.Close()
	n, _, err := k.GetIntegerValue("BootId")
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return "boot-" + strconv.FormatUint(n, 10), nil
}
