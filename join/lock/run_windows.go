package lock

import (
	"os"
	"syscall"
)

// heeded: the console tells the command by itself; here it is only kept from ending us before it.
func heeded() []os.Signal { return []os.Signal{os.Interrupt, syscall.SIGTERM} }

func isQuit(os.Signal) bool { return false }

func exitCode(st *os.ProcessState) int { return st.ExitCode() }
