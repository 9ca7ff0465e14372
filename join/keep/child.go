package keep

import (
	"os"
	"syscall"
	"time"

	"github.com/livhana/steward/join/run"
	"github.com/livhana/steward/platform/proc"
)

// child is the main process of one life: a child process, or a process that an earlier steward has started.
type child struct {
	id      proc.Identity // zero: it ended before it could be inspected
	process *os.Process   // nil: not a child process
	handle  processHandle
	ended   chan Ending // receives the ending, once
	stop    chan struct{}
	dead    bool // it never ran, so its end must not be awaited
}

// spawn starts a program in its own session, without standard input, with both outputs in the log.
func spawn(path string, argv, env []string, dir, log string) (*child, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	out, err := openLog(log)
	if err != nil {
		out = null // run the agent even if its output is lost
	} else {
		defer out.Close()
	}
	c := newChild()
	attr := &os.ProcAttr{Dir: dir, Env: env, Files: []*os.File{null, out, out}, Sys: session()}
	c.handle.prepare(attr.Sys)
	if c.process, err = os.StartProcess(path, argv, attr); err != nil {
		return nil, run.StartFault(err, path, dir)
	}
	c.handle.take()
	c.id, _ = proc.Inspect(c.process.Pid) // on error the process has already ended, which watch reports
	return c, nil
}

// adopt takes over a process that is not a child process.
func adopt(id proc.Identity) *child {
	c := newChild()
	c.id = id
	c.handle.open(id)
	return c
}

func newChild() *child { return &child{ended: make(chan Ending, 1), stop: make(chan struct{})} }

// watch sends to ended when the process ends, unless leave comes first.
func (c *child) watch(now func() time.Time) {
	if !c.handle.wait(c) {
		return
	}
	var e Ending
	c.status(&e)
	e.At = now()
	c.ended <- e
	c.handle.close()
}

// status determines how the process ended.
func (c *child) status(e *Ending) {
	if c.process == nil {
		c.handle.status(e)
		return
	}
	st, err := c.process.Wait()
	if err != nil {
		e.Code, e.Unknown = -1, true
		return
	}
	e.Code, e.Signal = run.Status(st.Sys().(syscall.WaitStatus))
}

// leave stops the watch; the process continues.
func (c *child) leave() {
	close(c.stop)
	c.handle.close()
}

// pollGone polls until the process is gone; false when leave stops the watch first.
func (c *child) pollGone() bool {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		if proc.Check(c.id) == proc.Gone {
			return true
		}
		select {
		case <-c.stop:
			return false
		case <-tick.C:
		}
	}
}

// session starts the child in its own session, so that it survives the end of a terminal and of this process.
func session() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
