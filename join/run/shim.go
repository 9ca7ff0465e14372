package run

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/livhana/steward/platform/confine"
	"github.com/livhana/steward/platform/proc"
)

var errCallerGone = errors.New("who started this run has ended; so has the run")

// Shim is the process between the caller of Start and the command. It reads a Spec from in, runs it, and writes its
// reports to out, all in the format of Start. The process must do nothing else: Shim makes it a subreaper, waits for
// all its children, takes over signals, and confines itself. See docs/decisions.md, "Each task has a shim".
func Shim(in io.Reader, out io.Writer, now func() time.Time) error {
	s, rest, err := decodeSpec(in)
	if err != nil {
		return err
	}
	// The command dies with this thread (Pdeathsig).
	runtime.LockOSThread()
	h := &shim{spec: &s, out: json.NewEncoder(out), now: now, requests: make(chan shimRequest, 2)}
	h.listen(rest)
	if err := proc.BecomeSubreaper(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	ended := h.run()
	if h.orphaned {
		return errCallerGone
	}
	return h.out.Encode(report{Ended: &ended})
}

// shimRequest is a request to end a run early.
type shimRequest int

const (
	stopRequested shimRequest = iota
	callerGone
)

type shim struct {
	spec     *Spec
	out      *json.Encoder
	now      func() time.Time
	requests chan shimRequest
	orphaned bool // the caller is gone, so there is no reader for the report
}

// listen waits for the stop byte, the end of the input, and termination signals.
func (h *shim) listen(in io.Reader) {
	go func() {
		one := make([]byte, 1)
		for {
			n, err := in.Read(one)
			if n == 1 && one[0] == stopByte {
				h.requests <- stopRequested
			}
			if err != nil {
				h.requests <- callerGone
				return
			}
		}
	}()
	// Without this a report to a closed pipe would end the shim before the tree has ended.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	told := make(chan os.Signal, 1)
	signal.Notify(told, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		for range told {
			h.requests <- stopRequested
		}
	}()
}

// run runs the command and fills Ended, whatever happens.
func (h *shim) run() Ended {
	e := Ended{Code: -1, Start: h.now()}
	if err := h.runCommand(&e); err != nil {
		e.Fault, e.Problem = Other, err.Error()
		var f *Fault
		if errors.As(err, &f) {
			e.Fault = f.Kind
		}
	}
	e.End = h.now()
	return e
}

// runCommand returns why the command was not started.
func (h *shim) runCommand(e *Ended) error {
	path, err := h.spec.program()
	if err != nil {
		return err
	}
	io, err := openStreams(h.spec) // before the confinement, which may not cover the log
	if err != nil {
		return &Fault{Resources, err.Error()}
	}
	var c *child
	if e.Confined, err = h.confine(); err == nil {
		c, err = launch(path, h.spec, io.command)
	}
	if err != nil {
		io.abandon()
		return err
	}
	io.begin()
	h.out.Encode(report{Command: &c.id})
	h.follow(c, e)
	io.end(e)
	e.User, e.System, e.MaxRSS = usage()
	return nil
}

// confine reports whether the confinement is in force; a kernel without support is not an error.
func (h *shim) confine() (bool, error) {
	if h.spec.Write == nil {
		return false, nil
	}
	err := confine.Writing(h.spec.Write)
	if errors.Is(err, errors.ErrUnsupported) {
		return false, nil
	}
	return err == nil, err
}

// follow waits for the command, ends what is left of its tree, and records how it ended.
func (h *shim) follow(c *child, e *Ended) {
	var limit <-chan time.Time
	if h.spec.Limit > 0 {
		timer := time.NewTimer(h.spec.Limit)
		defer timer.Stop()
		limit = timer.C
	}
	select {
	case how := <-c.exited:
		e.Code, e.Signal = how.code, how.signal
		if !how.noDescendants {
			e.Survivors, e.Unended = c.end(h.spec.Mark, h.spec.Grace)
		}
		return
	case <-limit:
		e.TimedOut = true
	case a := <-h.requests:
		e.Stopped, h.orphaned = a == stopRequested, a == callerGone
	}
	_, e.Unended = c.end(h.spec.Mark, h.spec.Grace)
	select {
	case how := <-c.exited:
		e.Code, e.Signal = how.code, how.signal
	case <-time.After(drainWait):
	}
}
