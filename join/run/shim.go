package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/livhana/steward/platform/confine"
	"github.com/livhana/steward/platform/proc"
)

// drainWait is how long the shim continues to read when the tree is gone but a stream is still open, held by a process
// that could not be ended or that is outside the tree.
const drainWait = time.Second

var errCallerGone = errors.New("who started this run has ended; so has the run")

// Shim is the process between the caller of Start and the command. It reads a Spec from in, runs it, and writes its
// reports to out, all in the format of Start. The process must do nothing else: Shim makes it a subreaper, waits for
// all its children, takes over signals, and confines the calling thread. See docs/decisions.md, "Each task has a shim".
func Shim(in io.Reader, out io.Writer, now func() time.Time) error {
	s, rest, err := decodeSpec(in)
	if err != nil {
		return err
	}
	// The command dies with this thread (Pdeathsig) and inherits its confinement.
	runtime.LockOSThread()
	h := &shim{spec: &s, out: json.NewEncoder(out), now: now, requests: make(chan request, 2)}
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

// request is a request to end a run early.
type request int

const (
	stopRequested request = iota
	callerGone
)

type shim struct {
	spec     *Spec
	out      *json.Encoder
	now      func() time.Time
	requests chan request
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
	defer func() { e.End = h.now() }()
	path, err := h.spec.program()
	if err != nil {
		return h.fail(e, err)
	}
	log := openLog(h.spec.Log)
	if e.Confined, err = h.confine(); err != nil {
		log.end()
		return h.fail(e, err)
	}
	io, err := openStreams(h.spec, log)
	if err != nil {
		log.end()
		return h.fail(e, &Fault{Resources, err.Error()})
	}
	c, err := launch(path, h.spec, io.commandFiles())
	io.started(err == nil)
	if err != nil {
		log.end()
		return h.fail(e, err)
	}
	h.out.Encode(report{Command: &c.id})
	h.follow(c, &e)
	e.Stdout, e.Stderr = io.end()
	e.LogProblem = log.end()
	e.User, e.System, e.MaxRSS = usage()
	e.End = h.now()
	return e
}

func (h *shim) fail(e Ended, err error) Ended {
	e.Fault, e.Problem = Other, err.Error()
	var f *Fault
	if errors.As(err, &f) {
		e.Fault = f.Kind
	}
	e.End = h.now()
	return e
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

// streams are the command's three standard files and the shim's ends of them.
type streams struct {
	in, out, err       *os.File // the command's
	feed, read, readEr *os.File // the shim's
	stdin              []byte
	stdout, stderr     *excerpt
	log                *logFile
	readers            sync.WaitGroup
}

func openStreams(s *Spec, log *logFile) (*streams, error) {
	st := &streams{stdin: s.Stdin, stdout: newExcerpt(s.Keep), stderr: newExcerpt(s.Keep), log: log}
	var errs [3]error
	if s.Stdin == nil {
		st.in, errs[0] = os.Open(os.DevNull)
	} else {
		st.in, st.feed, errs[0] = os.Pipe()
	}
	st.read, st.out, errs[1] = os.Pipe()
	st.readEr, st.err, errs[2] = os.Pipe()
	if err := errors.Join(errs[:]...); err != nil {
		st.started(false)
		return nil, fmt.Errorf("open the command's streams: %w", err)
	}
	return st, nil
}

func (st *streams) commandFiles() []*os.File { return []*os.File{st.in, st.out, st.err} }

// started closes the command's ends, and starts to feed and to read.
func (st *streams) started(ok bool) {
	closeAll(st.commandFiles()...)
	if !ok {
		closeAll(st.feed, st.read, st.readEr)
		return
	}
	if st.feed != nil {
		go func() {
			st.feed.Write(st.stdin) // an error means that the command does not read its input
			st.feed.Close()
		}()
	}
	st.readers.Go(func() { copyStream(st.read, st.stdout, st.log) })
	st.readers.Go(func() { copyStream(st.readEr, st.stderr, st.log) })
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

// copyStream reads a stream to its end and keeps an excerpt.
func copyStream(from *os.File, to *excerpt, log *logFile) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		to.Write(buf[:n])
		log.add(buf[:n])
		if err != nil {
			return
		}
	}
}

// end returns the excerpts. All writers are gone, unless a process outside the tree has inherited a stream.
func (st *streams) end() (stdout, stderr Output) {
	done := make(chan struct{})
	go func() {
		st.readers.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(drainWait):
	}
	go closeAll(st.feed, st.read, st.readEr)
	return st.stdout.output(), st.stderr.output()
}
