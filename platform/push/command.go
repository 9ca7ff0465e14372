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

// How a command ends.
const (
	termTime  = 2 * time.Second // from the polite end to the hard one
	drainTime = time.Second     // so long what it left behind may keep its pipes open
)

// Command is a program of the operator's that brings messages to the human.
type Command struct{ argv []string }

// NewCommand takes a program and its arguments; no shell reads them. A program with a "/" in it must be absolute.
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

// Probe says whether the program is there and may be run. It is looked for at each call, for it may come later.
func (c *Command) Probe() error {
	_, err := c.find()
	return err
}

func (c *Command) find() (string, error) {
	path, err := exec.LookPath(c.argv[0]) // an error, too, for a relative folder in PATH
	if err != nil {
		return "", &Error{Op: "find the command", Err: err, Hint: "use the absolute path of a program that this user may run"}
	}
	return path, nil
}

// Send runs the program with doc on its standard input; exit 0 means delivered, whether it has read that or not. When
// ctx ends first, the program and all of its group are asked to end, and killed after 2 s; Send is back 4 s after ctx at
// the latest. What a program leaves behind that ended by itself is let alone.
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
	runtime.LockOSThread() // the parent-death signal of Linux follows the thread, not the process
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

// verdict is what became of a run. One that was cut short has not delivered, whatever its exit code says.
func verdict(cut, err error) error {
	if cut != nil {
		return fmt.Errorf("it was ended: %w", cut)
	}
	if errors.Is(err, exec.ErrWaitDelay) { // it ended well, only its offspring kept the input open
		return nil
	}
	return err
}

// await stays until the child has ended, and has it ended when ctx is over: then cut is why.
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
		// Some of the group may be left even so. But once the child is reaped, another group may bear its number.
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

// words reads what a child says on its standard error, and keeps the last of it.
type words struct {
	ours, childs *os.File
	over         chan struct{} // closed once nobody can say more
	tail         []byte
}

const maxWords = 1024

// overhear gives a child that is to be started its standard error. A pipe of our own tells when all of its offspring
// are gone, or at least deaf to us.
func overhear(cmd *exec.Cmd) (*words, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = w
	return &words{ours: r, childs: w, over: make(chan struct{})}, nil
}

// started must follow the start, also one that failed.
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

// last waits a moment for those who still hold the pipe and gives the last words, fit for an error.
func (w *words) last() string {
	patience := time.NewTimer(drainTime)
	defer patience.Stop()
	wait(w.over, patience.C)
	w.ours.Close()
	<-w.over
	return strings.ReplaceAll(clean(string(w.tail), maxWords), "\n", "; ")
}

// environment passes on only what a program needs to find its settings, its desktop and the network. Secrets of the
// agents (tokens, keys) often sit in the rest.
func environment() []string {
	names := []string{
		"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "TMPDIR",
		"XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY",
		"SSL_CERT_FILE", "SSL_CERT_DIR", "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
		"SystemRoot", "SystemDrive", "TEMP", "TMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "PATHEXT", "PSModulePath",
	}
	env := make([]string, 0, len(names)) // never nil, which would pass on all
	for _, name := range names {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}
