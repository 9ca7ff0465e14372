package run

import (
	"errors"
	"fmt"
	"os"
	"sync"
)

// logFile receives the streams as they arrive, until it is full or a write fails. A failure never disturbs the run.
type logFile struct {
	mu      sync.Mutex
	file    *os.File // nil: closed, or never opened
	left    int64
	problem string
}

// openLog does not return an error: problem holds it. It refuses a pipe or a device.
func openLog(path string) *logFile {
	l := &logFile{left: LogLimit}
	if path == "" {
		return l
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|logFlags, 0o600)
	if err != nil {
		l.problem = err.Error()
		return l
	}
	l.file = f
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err != nil {
		l.stop(err.Error())
	}
	return l
}

func (l *logFile) add(p []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil || len(p) == 0 {
		return
	}
	whole := int64(len(p)) <= l.left
	n, err := l.file.Write(p[:min(l.left, int64(len(p)))])
	l.left -= int64(n)
	if err != nil {
		l.stop(err.Error())
	} else if !whole {
		l.stop(fmt.Sprintf("the log is full (%d bytes)", LogLimit))
	}
}

func (l *logFile) stop(why string) {
	l.problem = why
	l.file.Close()
	l.file = nil
}

// end closes the file and returns why it is incomplete.
func (l *logFile) end() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return l.problem
	}
	if err := l.file.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		l.problem = err.Error()
	}
	l.file = nil
	return l.problem
}
