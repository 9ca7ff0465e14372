package run

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/livhana/steward/platform/proc"
)

const logFlags = 0

func apart(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// child is the command alone: what it starts is not followed on Windows, and lives on when the command has ended.
type child struct {
	id      proc.Identity
	exited  chan exit
	none    chan struct{}
	process *os.Process
}

type exit struct {
	code   int
	signal string
	alone  bool
}

func launch(path string, s *Spec, files []*os.File) (*child, error) {
	p, err := os.StartProcess(path, s.Argv, &os.ProcAttr{Dir: s.Dir, Env: s.environment(), Files: files})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &fault{NotFound, err.Error()}
	case errors.Is(err, fs.ErrPermission):
		return nil, &fault{Permission, err.Error()}
	case err != nil:
		return nil, &fault{Other, err.Error()}
	}
	c := &child{exited: make(chan exit, 1), none: make(chan struct{}), process: p}
	c.id, _ = proc.Inspect(p.Pid)
	go c.wait()
	return c, nil
}

func (c *child) wait() {
	defer close(c.none)
	state, err := c.process.Wait()
	if err != nil {
		c.exited <- exit{code: -1, alone: true}
		return
	}
	c.exited <- exit{code: state.ExitCode(), alone: true}
}

// end: there is no request on Windows; the command ends at once.
func (c *child) end(string, time.Duration) (ended, left int) {
	if c.process.Kill() != nil {
		return 0, 0
	}
	return 1, 0
}

// usage is not counted on Windows.
func usage() (user, system time.Duration, rss int64) { return 0, 0, 0 }
