package keep

import (
	"io/fs"
	"os"
	"syscall"
)

func mayRun(string, fs.FileInfo) error { return nil }

// session has the child live without our console (CREATE_NEW_PROCESS_GROUP).
func session() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

func statusOf(st *os.ProcessState, e *Ending) { e.Code = st.ExitCode() }

func signalNumbered(int) string { return "" }
