package push

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Timeouts for ending a command.
const (
	termTime  = 2 * time.Second // from SIGTERM to SIGKILL
	drainTime = time.Second     // how long leftover processes may keep its pipes open
)

// Command is an operator's program that delivers messages to the user.
type Command struct{ argv []string }

// NewCommand takes a program and its arguments; they are not passed through a shell. A program with a "/" in it must
// be absolute.
func NewCommand(argv []string) (*Command, error) {
	c := &Command{argv: slices.Clone(argv)}
	switch {
	case len(argv) == 0 || argv[0] == "":
		return nil, &Error{Op: "configure command", Err: errors.New("there is no program")}
	case slices.ContainsFunc(argv, func(a string) bool { return strings.ContainsRune(a, 0) }):
		return nil, &Error{Op: "configure command", Err: errors.New("an argument holds a NUL")}
	case strings.ContainsRune(filepath.ToSlash(argv[0]), '/') && !filepath.IsAbs(argv[0]):
		return nil, &Error{Op: "configure command", Err: fmt.Errorf("%q is not an absolute path", argv[0]),
			Hint: `no shell reads it: write "~" and "$HOME" out`}
	}
	return c, nil
}

// Probe reports whether the program exists and is executable. It searches at each call, because the program may be
// installed later.
func (c *Command) Probe() error {
	_, err := c.find()
	return err
}

func (c *Command) find() (string, error) {
	path, err := exec.LookPath(c.argv[0]) // also fails for a relative folder in PATH
	if err != nil {
		return "", &Error{Op: "find the command", Err: err, Hint: "use the absolute path of a program that this user may run"}
	}
	return path, nil
}

// Send runs the program with doc on its standard input; exit 0 means delivered, even if the program has not read doc.
// When ctx ends first, the program and its process group get SIGTERM, and SIGKILL after 2 s; Send returns at most 4 s
// after ctx ends. Processes left behind by a program that ended by itself are not signalled.
func (c *Command) Send(ctx context.Context, doc []byte) error {
	path, err := c.find()
	if err != nil {
		return err
	}
	op := "run " + filepath.Base(path)
	if ctx.Err() != nil {
		return &Error{Op: op, Err: context.Cause(ctx)}
	}
	cmd := exec.Command(path, c.argv[1:]...)
	cmd.Env, cmd.Dir, cmd.WaitDelay = environment(), string(filepath.Separator), drainTime
	cmd.Stdin = bytes.NewReader(doc)
	isolate(cmd)
	words, err := overhear(cmd)
	if err != nil {
		return &Error{Op: op, Err: err}
	}
	runtime.LockOSThread() // Linux sends the parent-death signal when the thread ends, not the process
	defer runtime.UnlockOSThread()
	err = cmd.Start()
	words.started()
	if err != nil {
		words.last()
		return &Error{Op: op, Err: err}
	}
	cut, err := await(ctx, cmd, words)
	said := words.last()
	if err = verdict(cut, err); err != nil {
		if said != "" {
			err = fmt.Errorf("%w (%s)", err, said)
		}
		return &Error{Op: op, Err: err}
	}
	return nil
}

// verdict returns the result of a run. A run that was cut short has not delivered, whatever its exit code is.
func verdict(cut, err error) error {
	if cut != nil {
		return fmt.Errorf("it was ended: %w", cut)
	}
	if errors.Is(err, exec.ErrWaitDelay) { // the program succeeded; only its children kept the input open
		return nil
	}
	return err
}

// await waits until the child has ended. When ctx ends first, it ends the child and returns the cause in cut.
func await(ctx context.Context, cmd *exec.Cmd, words *words) (cut, err error) {
	var reaped bool
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if !awaitExit(cmd.Process.Pid) {
			err, reaped = cmd.Wait(), true
		}
	}()
	select {
	case <-gone:
	case <-ctx.Done():
	}
	if !closed(gone) {
		cut = context.Cause(ctx)
		terminate(cmd.Process)
		patience := time.NewTimer(termTime)
		defer patience.Stop()
		_ = wait(gone, patience.C) && wait(words.over, patience.C)
		// Processes of the group may still be left. But once the child is reaped, its pid may belong to another
		// group.
		if !closed(gone) || !reaped {
			kill(cmd.Process)
		}
	}
	if <-gone; !reaped {
		err = cmd.Wait()
	}
	return cut, err
}

func wait(done <-chan struct{}, patience <-chan time.Time) bool {
	select {
	case <-done:
		return true
	case <-patience:
		return false
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// words reads a child's standard error and keeps the last part of it.
type words struct {
	ours, childs *os.File
	over         chan struct{} // closed when the pipe has no writers
	tail         []byte
}

const maxWords = 1024

// overhear sets the standard error of a child before its start. It uses a pipe of its own, whose end shows when all
// descendants are gone or have closed it.
func overhear(cmd *exec.Cmd) (*words, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = w
	return &words{ours: r, childs: w, over: make(chan struct{})}, nil
}

// started must be called after the start, even after one that failed.
func (w *words) started() {
	w.childs.Close()
	go func() {
		defer close(w.over)
		part := make([]byte, maxWords)
		for {
			n, err := w.ours.Read(part)
			w.tail = append(w.tail, part[:n]...)
			w.tail = w.tail[max(0, len(w.tail)-maxWords):]
			if err != nil {
				return
			}
		}
	}()
}

// last waits briefly for processes that still hold the pipe and returns the last output, cleaned for use in an error.
func (w *words) last() string {
	patience := time.NewTimer(drainTime)
	defer patience.Stop()
	wait(w.over, patience.C)
	w.ours.Close()
	<-w.over
	return strings.ReplaceAll(clean(string(w.tail), maxWords), "\n", "; ")
}

// environment returns only the variables that a program needs to find its settings, its desktop and the network. The
// others often contain secrets of the agents (tokens, keys).
func environment() []string {
	names := []string{
		"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "TMPDIR",
		"XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY",
		"SSL_CERT_FILE", "SSL_CERT_DIR", "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
		"SystemRoot", "SystemDrive", "TEMP", "TMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "PATHEXT", "PSModulePath",
	}
	env := make([]string, 0, len(names)) // never nil, which would pass on the whole environment
	for _, name := range names {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}
