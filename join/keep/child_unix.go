//go:build unix

package keep

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func mayRun(path string, st fs.FileInfo) error {
	if st.Mode().Perm()&0o111 == 0 {
		return fault{path + ": it is not executable", fs.ErrPermission}
	}
	return nil
}

// session has the child lead a session of its own: no terminal's end, and no end of ours, is its end.
func session() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// statusOf reads how a child of ours ended.
func statusOf(st *os.ProcessState, e *Ending) {
	ws, ok := st.Sys().(syscall.WaitStatus)
	if !ok {
		e.Code = st.ExitCode()
		return
	}
	readStatus(ws, e)
}

func readStatus(ws syscall.WaitStatus, e *Ending) {
	e.Code = -1
	if ws.Signaled() {
		e.Signal = signalName(ws.Signal())
		return
	}
	e.Code = ws.ExitStatus()
}

func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", int(s))
}

func signalNumbered(n int) string {
	if n == 0 {
		return ""
	}
	return signalName(syscall.Signal(n))
}
