package proc

import (
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// unhurried tells the program that it was executed once more.
const unhurried = "STEWARD_UNHURRIED"

// usualSlack is the kernel's own timer slack.
const usualSlack = 50 * time.Microsecond

// Unhurried lets the kernel wake this process for a timer so much later than asked. While anything runs in it, the Go
// runtime's monitor sleeps 20 µs at a time: a program that works for some milliseconds now and then would be woken for
// that again and again, several times as often as for its work. The monitor is there before main, and its slack is that of
// the thread that made it, which an exec keeps: so the program is executed once more, as the same process with the same
// arguments. That does not return; what returns is the call in the program that was executed, or one that could not
// execute it, with the reason: it goes on as before.
func Unhurried(slack time.Duration) error {
	if _, done := os.LookupEnv(unhurried); done {
		return os.Unsetenv(unhurried)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil || before >= int(slack) {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := setSlack(slack); err != nil {
		return err
	}
	err = unix.Exec(self, os.Args, append(os.Environ(), unhurried+"=1"))
	_ = setSlack(time.Duration(before))
	return err
}

// Prompt runs start, which starts a process, so that the process has the usual timer slack: it would inherit ours.
func Prompt(start func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil || before <= int(usualSlack) || setSlack(usualSlack) != nil {
		return start()
	}
	defer func() { _ = setSlack(time.Duration(before)) }()
	return start()
}

// setSlack is for the calling thread alone.
func setSlack(slack time.Duration) error {
	return unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack.Nanoseconds()), 0, 0, 0)
}
