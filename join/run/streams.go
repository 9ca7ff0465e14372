package run

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// streams are the command's three standard files and the shim's ends of them.
type streams struct {
	command []*os.File // the command's ends: input, output, error output
	feed    *os.File   // the shim's end of the input; nil: /dev/null
	readers [2]*os.File
	kept    [2]*excerpt
	log     *logFile
	stdin   []byte
	reading sync.WaitGroup
}

func openStreams(s *Spec) (*streams, error) {
	st := &streams{stdin: s.Stdin, kept: [2]*excerpt{newExcerpt(s.Keep), newExcerpt(s.Keep)}, log: openLog(s.Log, s.Onto)}
	var in, out, errOut *os.File
	var errs [3]error
	if s.Stdin == nil {
		in, errs[0] = os.Open(os.DevNull)
	} else {
		in, st.feed, errs[0] = os.Pipe()
	}
	st.readers[0], out, errs[1] = os.Pipe()
	st.readers[1], errOut, errs[2] = os.Pipe()
	st.command = []*os.File{in, out, errOut}
	if err := errors.Join(errs[:]...); err != nil {
		st.abandon()
		return nil, fmt.Errorf("open the command's streams: %w", err)
	}
	return st, nil
}

// abandon closes everything: the command was not started.
func (st *streams) abandon() {
	closeAll(append(st.command, st.feed, st.readers[0], st.readers[1])...)
	st.log.end()
}

// begin closes the command's ends, and starts to feed and to read.
func (st *streams) begin() {
	closeAll(st.command...)
	if st.feed != nil {
		go func() {
			st.feed.Write(st.stdin) // an error means that the command does not read its input
			st.feed.Close()
		}()
	}
	for i := range st.readers {
		st.reading.Go(func() { st.read(i) })
	}
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		f.Close() // a nil file is no error that matters
	}
}

// read reads a stream to its end.
func (st *streams) read(i int) {
	buf := make([]byte, 64<<10)
	for {
		n, err := st.readers[i].Read(buf)
		st.kept[i].Write(buf[:n])
		st.log.add(buf[:n])
		if err != nil {
			return
		}
	}
}

// drainWait is how long the shim continues to read when the tree is gone but a stream is still open, held by a process
// that could not be ended or that is outside the tree.
const drainWait = time.Second

// end returns what was read. All writers are gone, unless a process outside the tree has inherited a stream.
func (st *streams) end(e *Ended) {
	done := make(chan struct{})
	go func() {
		st.reading.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(drainWait):
	}
	go closeAll(st.feed, st.readers[0], st.readers[1])
	e.Stdout, e.Stderr, e.LogProblem = st.kept[0].output(), st.kept[1].output(), st.log.end()
}

// logFile receives the streams as they arrive, until it is full or a write fails. A failure never disturbs the run.
type logFile struct {
	mu      sync.Mutex
	file    *os.File // nil: closed, or never opened
	left    int64
	problem string // why the log is not complete
}

// openLog does not return an error: problem holds it. It refuses a link, a pipe or a device.
func openLog(path string, onto bool) *logFile {
	l := &logFile{left: LogLimit}
	if path == "" {
		return l
	}
	flags := os.O_WRONLY | os.O_CREATE | logFlags
	if onto {
		flags |= os.O_APPEND
	}
	f, err := os.OpenFile(path, flags, 0o600)
	if err == nil {
		l.file = f
		if st, statErr := f.Stat(); statErr == nil && !st.Mode().IsRegular() {
			err = fmt.Errorf("%s is not a regular file", path)
		} else if !onto {
			err = errors.Join(statErr, f.Truncate(0))
		}
	}
	if err != nil {
		l.problem = err.Error()
	}
	return l
}

func (l *logFile) add(p []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil || l.problem != "" {
		return
	}
	n, err := l.file.Write(p[:min(l.left, int64(len(p)))])
	l.left -= int64(n)
	if err != nil {
		l.problem = err.Error()
	} else if n < len(p) {
		l.problem = fmt.Sprintf("the log is full (%d bytes)", LogLimit)
	}
}

// end closes the file and returns why it is incomplete.
func (l *logFile) end() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		if err := l.file.Close(); err != nil && l.problem == "" {
			l.problem = err.Error()
		}
		l.file = nil
	}
	return l.problem
}
