package exec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/livhana/steward/join/keep"
	"github.com/livhana/steward/join/run"
	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/status/terminal"
)

// front is the command in the foreground: in our process group, on our terminal.
//
// The child starts as this program, waits for a go message on a pipe, and then executes the command. So the process is
// registered before the command does anything, and a taken name has no side effects.
type front struct {
	id         proc.Identity
	pipe       *os.File       // our end of the pipe to the waiting child
	children   chan os.Signal // receives when a child changes state
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
	f := &front{pipe: ours, children: make(chan os.Signal, 1), tty: terminal.HasControlling()}
	signal.Notify(f.children, syscall.SIGCHLD)
	args := append([]string{"steward", "exec", "--await-word", "3", "--", path}, argv...)
	p, err := os.StartProcess(self, args, &os.ProcAttr{Env: env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr, theirs}})
	if err != nil {
		f.over()
		return nil, fmt.Errorf("start %s: %w", self, err)
	}
	if f.id, err = proc.Inspect(p.Pid); err != nil {
		f.id.PID = p.Pid // look reads its exit status
	}
	_ = p.Release() // look waits for all children
	return f, nil
}

func (f *front) over() {
	signal.Stop(f.children)
	_ = f.pipe.Close()
}

// goMessage tells the waiting child to execute the command. The agent's name follows it: the name may have got a number.
const goMessage = "go "

// agentVariable tells the command under which name it is registered.
const agentVariable = "STEWARD_AGENT"

// release tells the waiting child to execute the command.
func (f *front) release(name string) {
	_, _ = f.pipe.WriteString(goMessage + name + "\n")
	_ = f.pipe.Close()
}

// abandon ends the waiting child without executing the command.
func (f *front) abandon() {
	f.over()
	_, _ = syscall.Wait4(f.id.PID, nil, 0, nil)
}

// AwaitGo is the waiting child: it becomes the command after the go message. It returns the exit code, also if the pipe
// closes without the message, for example when the parent dies.
func AwaitGo(ctx context.Context, fd int, argv []string) (int, error) {
	pipe := os.NewFile(uintptr(fd), "go")
	if pipe == nil || len(argv) < 2 {
		return 0, errors.New("exec: --await-word is steward's own")
	}
	stay := context.AfterFunc(ctx, func() { os.Exit(run.CodeSignal + int(syscall.SIGINT)) })
	buf := make([]byte, 512)
	n, _ := pipe.Read(buf)
	name, ok := strings.CutPrefix(strings.TrimSuffix(string(buf[:n]), "\n"), goMessage)
	if !ok || name == "" {
		return 1, nil
	}
	_ = pipe.Close()
	stay()
	err := syscall.Exec(argv[0], argv[1:], run.WithVariable(os.Environ(), agentVariable, name))
	fmt.Fprintf(os.Stderr, "steward: exec: %s: %v\n", argv[0], err)
	return run.NotStarted(err).Code, nil
}

// look waits for any child without blocking: we are a subreaper, so orphaned descendants end here too.
func (f *front) look() (e keep.Ending, over bool) {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.ECHILD) && !over:
			return keep.Ending{Code: -1, Unknown: true}, true // the exit status was already collected elsewhere
		case err != nil || pid == 0:
			return e, over
		case pid == f.id.PID:
			over = true
			e.Code, e.Signal = run.Status(ws)
			f.over()
		}
	}
}

// reap collects the children that have ended.
func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if pid <= 0 && !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}

// noteSignal remembers the last signal and its time.
func (f *front) noteSignal(s os.Signal, now time.Time) { f.lastSignal, f.signalAt = s, now }

// forward forwards a signal. The terminal's own signals reach the command anyway: it is in the same process group.
func (f *front) forward(s os.Signal, now time.Time) {
	f.noteSignal(s, now)
	if f.tty && (s == syscall.SIGINT || s == syscall.SIGQUIT) {
		return
	}
	if sig, ok := s.(syscall.Signal); ok { // our child is not waited for yet, so its pid cannot have been reused
		_ = syscall.Kill(f.id.PID, sig)
	}
}

// signalBefore is the longest time between a signal and the end of a command that the signal is taken to have caused,
// when the exit status names no signal: many programs catch the signal, clean up and exit.
const signalBefore = 10 * time.Second

// signaledBefore reports whether a signal from the user ended the command.
func (f *front) signaledBefore(e keep.Ending) bool {
	if f.lastSignal == nil || e.At.Sub(f.signalAt) > signalBefore {
		return false
	}
	return e.Signal == "" || run.SignalNumber(e.Signal) == f.lastSignal
}
