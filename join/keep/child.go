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

// child is the main process of one life, ours or one that an earlier steward has started.
type child struct {
	id    proc.Identity // zero: it had ended before it could be looked at
	own   *os.Process   // nil: not our child
	hold  flockHandle
	ended chan Ending // one, when it ends
	stop  chan struct{}
	dead  bool // it never lived: there is nothing to leave
}

// spawn starts a program in a session of its own, without standard input, both outputs in the log.
func spawn(path string, argv, env []string, dir, log string) (*child, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	out, err := openLog(log)
	if err != nil {
		out = null // an agent whose words are lost is better than none
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
	c.id, _ = proc.Inspect(c.own.Pid) // an error: it has ended already, which wait will tell
	return c, nil
}

// startFault names the folder where the system's words would blame the program.
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

// adopt takes on a process that is not our child.
func adopt(id proc.Identity) *child {
	c := newChild()
	c.id = id
	c.hold.open(id)
	return c
}

func newChild() *child { return &child{ended: make(chan Ending, 1), stop: make(chan struct{})} }

// watch tells on ended when the process ends, until leave.
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

// status finds out how it ended.
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

// leave ends the watch; the process lives on.
func (c *child) leave() {
	close(c.stop)
	c.hold.close()
}

// pollGone looks every now and then; false when the watch was ended first.
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

// session has the child lead a session of its own: no terminal's end, and no end of ours, is its end.
func session() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// statusOf reads how a child of ours ended.
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
