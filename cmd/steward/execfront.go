package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/livhana/steward/status/terminal"

	"golang.org/x/sys/unix"

	"github.com/livhana/steward/join/keep"
	"github.com/livhana/steward/platform/proc"
)

// front is the command in the foreground: in our process group, with our terminal.
//
// It begins as this very program, which waits for a word and then becomes the command: so the process is registered
// before the command does anything, and a name that is taken costs nothing.
type front struct {
	id         proc.Identity
	word       *os.File // the waiting child's other end
	children   chan os.Signal
	lastSignal os.Signal
	signalAt   time.Time
	tty        bool
}

func startFront(path string, argv, env []string) (*front, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	f := &front{word: ours, children: make(chan os.Signal, 1), tty: terminal.HasControlling()}
	signal.Notify(f.children, syscall.SIGCHLD)
	args := append([]string{"steward", "exec", "--await-word", "3", "--", path}, argv...)
	p, err := os.StartProcess(self, args, &os.ProcAttr{Env: env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr, theirs}})
	if err != nil {
		f.over()
		return nil, fmt.Errorf("start %s: %w", self, err)
	}
	if f.id, err = proc.Inspect(p.Pid); err != nil {
		f.id.PID = p.Pid // wait tells how it ended
	}
	_ = p.Release() // all children are waited for in one place, see look
	return f, nil
}

func (f *front) over() {
	signal.Stop(f.children)
	_ = f.word.Close()
}

// release lets the command begin.
func (f *front) release(name string) {
	_, _ = f.word.WriteString(theWord + name + "\n")
	_ = f.word.Close()
}

// dismiss has the waiting child end without having been anything.
func (f *front) dismiss() {
	f.over()
	_, _ = syscall.Wait4(f.id.PID, nil, 0, nil)
}

// awaitWord is the waiting child. Without the word it ends, as with the end of who would have said it.
func awaitWord(ctx context.Context, fd int, argv []string) error {
	pipe := os.NewFile(uintptr(fd), "word")
	if pipe == nil || len(argv) < 2 {
		return usageError{errors.New("exec: --await-word is steward's own")}
	}
	stay := context.AfterFunc(ctx, func() { os.Exit(exitSignal + int(syscall.SIGINT)) })
	buf := make([]byte, 512)
	n, _ := pipe.Read(buf)
	name, ok := cutWord(string(buf[:n]))
	if !ok {
		return quiet{exitFailed}
	}
	_ = pipe.Close()
	stay()
	err := syscall.Exec(argv[0], argv[1:], withVariable(os.Environ(), "STEWARD_AGENT", name))
	fmt.Fprintf(os.Stderr, "steward: exec: %s: %v\n", argv[0], err)
	if errors.Is(err, fs.ErrNotExist) {
		return quiet{exitNotFound}
	}
	return quiet{exitNotRunnable}
}

// changes tells when a child has changed.
func (f *front) changes() <-chan os.Signal { return f.children }

// look asks all children how they are: as subreaper, others than the command end here too.
func (f *front) look() (e keep.Ending, over bool) {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if errors.Is(err, syscall.ECHILD) && !over {
			return keep.Ending{Code: -1, Unknown: true}, true // somebody else has asked
		}
		if err != nil || pid == 0 {
			return e, over
		}
		if pid != f.id.PID {
			continue
		}
		over = true
		if e.Code = ws.ExitStatus(); ws.Signaled() {
			e.Code, e.Signal = -1, unix.SignalName(ws.Signal())
		}
		f.over()
	}
}

// reap takes away what has ended meanwhile.
func (f *front) reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if pid <= 0 && !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}

// hear passes a signal on. What the terminal sends goes to the command anyway: it is in the same group.
func (f *front) hear(s os.Signal) {
	f.lastSignal, f.signalAt = s, time.Now()
	if f.tty && (s == syscall.SIGINT || s == syscall.SIGQUIT) {
		return
	}
	if sig, ok := s.(syscall.Signal); ok { // our own child, not waited for yet: the number is still its own
		_ = syscall.Kill(f.id.PID, sig)
	}
}

// hearSignals hears what is to be passed on. What is ignored (nohup) stays ignored, here and in the command.
func hearSignals() *signalEar {
	c := make(chan os.Signal, 8)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
	return &signalEar{heard: c, stop: func() { signal.Stop(c) }}
}

func signalNumber(name string) int {
	if n := int(unix.SignalNum(name)); n > 0 {
		return n
	}
	n, _ := strconv.Atoi(name)
	return n
}
