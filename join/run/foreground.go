package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// The exit codes of a shell: for a command that cannot be executed, for a command that is not found, and the base for
// commands that a signal has ended.
const (
	CodeNotRunnable = 126
	CodeNotFound    = 127
	CodeSignal      = 128
)

// StartError says why a command in the foreground did not run; Code is the exit code that a shell would return.
type StartError struct {
	Code int
	Err  error
}

func (e *StartError) Error() string { return e.Err.Error() }
func (e *StartError) Unwrap() error { return e.Err }

// NotStarted is the StartError of an error of Find, or of the start itself.
func NotStarted(err error) *StartError {
	if errors.Is(err, fs.ErrNotExist) {
		return &StartError{CodeNotFound, err}
	}
	return &StartError{CodeNotRunnable, err}
}

// ForwardSignals catches the signals that a command in the foreground is to receive. An ignored signal (nohup) stays
// ignored, here and in the command.
func ForwardSignals() (heard <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 16)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
	return c, func() { signal.Stop(c) }
}

// ShellCode is the exit code that a shell returns for a command that ended with this code, or by this signal.
func ShellCode(code int, signal string) int {
	if signal == "" {
		return max(code, 0)
	}
	return CodeSignal + int(SignalNumber(signal))
}

// SignalNumber is the reverse of SignalName.
func SignalNumber(name string) syscall.Signal {
	if n := unix.SignalNum(name); n > 0 {
		return n
	}
	var n int
	_, _ = fmt.Sscanf(name, "signal %d", &n)
	return syscall.Signal(n)
}
