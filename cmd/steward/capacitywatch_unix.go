//go:build unix

package main

import (
	"os"
	"syscall"
)

// endings are the signals besides interrupt and termination that end a program: a borrowed screen is given back before.
var endings = []os.Signal{syscall.SIGHUP, syscall.SIGQUIT}

// pauses is the signal by which a terminal pauses a program (Ctrl-Z).
var pauses = []os.Signal{syscall.SIGTSTP}

// pauseSelf stops this process until somebody releases it on.
func pauseSelf() { _ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) }
