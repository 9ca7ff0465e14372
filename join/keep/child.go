package keep

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/livhana/steward/platform/proc"
	"golang.org/x/sys/unix"
)

// child is the main process of one life: a child process, or a process that an earlier steward has started.
type child struct {
	id    proc.Identity // zero: it ended before it could be inspected
	own   *os.Process   // nil: not a child process
	hold  processHandle
	ended chan Ending // receives the ending, once
	stop  chan struct{}
	dead  bool // it never ran, so its end must not be awaited
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
	c.hold.prepare(attr.Sys)
	if c.own, err = os.StartProcess(path, argv, attr); err != nil {
		return nil, startFault(path, dir, err)
	}
	c.hold.take()
	c.id, _ = proc.Inspect(c.own.Pid) // on error the process has already ended, which watch reports
	return c, nil
}

// startFault names the folder in errors where the system would blame the program.
func startFault(path, dir string, err error) error {
	if st, e := os.Stat(dir); e != nil {
		return fmt.Errorf("start it in %s: %w", dir, e)
	} else if !st.IsDir() {
		return fmt.Errorf("start it in %s: it is not a folder", dir)
	}
	var pe *os.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// adopt takes over a process that is not a child process.
func adopt(id proc.Identity) *child {
	c := newChild()
	c.id = id
	c.hold.open(id)
	return c
}

func newChild() *child { return &child{ended: make(chan Ending, 1), stop: make(chan struct{})} }

// watch sends to ended when the process ends, unless leave comes first.
func (c *child) watch(now func() time.Time) {
	if !c.hold.wait(c) {
		return
	}
	var e Ending
	c.status(&e)
	e.At = now()
	c.ended <- e
	c.hold.close()
}

// status determines how the process ended.
func (c *child) status(e *Ending) {
	if c.own == nil {
		c.hold.status(e)
		return
	}
	st, err := c.own.Wait()
	if err != nil {
		e.Code, e.Unknown = -1, true
		return
	}
	statusOf(st, e)
}

// leave stops the watch; the process continues.
func (c *child) leave() {
	close(c.stop)
	c.hold.close()
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

func mayRun(path string, st fs.FileInfo) error {
	if st.Mode().Perm()&0o111 == 0 {
		return fault{path + ": it is not executable", fs.ErrPermission}
	}
	return nil
}

// session starts the child in its own session, so that it survives the end of a terminal and of this process.
func session() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// statusOf reads how a child process ended.
func statusOf(st *os.ProcessState, e *Ending) {
	ws, ok := st.Sys().(syscall.WaitStatus)
	if !ok {
		e.Code = st.ExitCode()
		return
	}
	readStatus(ws, e)
}

func readStatus(ws syscall.WaitStatus, e *Ending) {
	e.Code = -1
	if ws.Signaled() {
		e.Signal = signalName(ws.Signal())
		return
	}
	e.Code = ws.ExitStatus()
}

func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", int(s))
}

func signalNumbered(n int) string {
	if n == 0 {
		return ""
	}
	return signalName(syscall.Signal(n))
}
