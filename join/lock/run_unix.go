//go:build unix

package lock

import (
	"os"
	"os/signal"
	"syscall"
)

// heeded are the signals that are handed on. One that is ignored (nohup) stays ignored, here and in the command.
func heeded() []os.Signal {
	var all []os.Signal
	for _, s := range []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(s) {
			all = append(all, s)
		}
	}
	return all
}

func isQuit(s os.Signal) bool { return s == syscall.SIGQUIT }

func exitCode(st *os.ProcessState) int {
	if w, ok := st.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return codeSignal + int(w.Signal())
	}
	return st.ExitCode()
}
