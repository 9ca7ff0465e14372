package keep

import (
	"context"
	"os"
	"syscall"
	"time"

	"github.com/livhana/steward/join/run"
	"github.com/livhana/steward/platform/proc"
)

// child is the main process of one life: a child process, or a process that an earlier steward has started.
type child struct {
	id    proc.Identity      // zero: it ended before it could be inspected
	ended chan Ending        // receives the ending, once
	leave context.CancelFunc // stops the watch; the process continues
}

// endedChild is a life that ended before it could be watched.
func endedChild(e Ending) *child {
	c := &child{ended: make(chan Ending, 1), leave: func() {}}
	c.ended <- e
	return c
}

// spawn starts a program without standard input, with both outputs in the log. It runs in its own session, so that it
// survives the end of a terminal and of this process.
func spawn(path string, argv, env []string, dir, log string, now func() time.Time) (*child, error) {
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
	attr := &os.ProcAttr{Dir: dir, Env: env, Files: []*os.File{null, out, out}, Sys: &syscall.SysProcAttr{Setsid: true}}
	p, err := os.StartProcess(path, argv, attr)
	if err != nil {
		return nil, run.StartFault(err, path, dir)
	}
	c := &child{ended: make(chan Ending, 1), leave: func() {}}
	c.id, _ = proc.Inspect(p.Pid) // on error the process has already ended, which Wait reports
	go func() {
		e := Ending{Code: -1, Unknown: true}
		if st, err := p.Wait(); err == nil {
			e.Unknown = false
			e.Code, e.Signal = run.Status(st.Sys().(syscall.WaitStatus))
		}
		e.At = now()
		c.ended <- e
	}()
	return c, nil
}

// adopt watches a process that is not a child process.
func adopt(id proc.Identity, now func() time.Time) *child {
	ctx, cancel := context.WithCancel(context.Background())
	c := &child{id: id, ended: make(chan Ending, 1), leave: cancel}
	go func() {
		e := Ending{Code: -1, Unknown: true}
		if awaitEnd(ctx, id, &e) {
			e.At = now()
			c.ended <- e
		}
	}()
	return c
}

// pollGone polls until the process is gone; false when ctx ends first.
func pollGone(ctx context.Context, id proc.Identity) bool {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for proc.Check(id) != proc.Gone {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}
