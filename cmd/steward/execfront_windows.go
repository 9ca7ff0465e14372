package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"time"

	"github.com/livhana/steward/join/keep"
	"github.com/livhana/steward/platform/proc"
)

// front is the command in the foreground, with our console. It begins at once: a name that is taken ends it again.
type front struct {
	id         proc.Identity
	process    *os.Process
	ended      chan os.Signal
	ending     keep.Ending
	lastSignal os.Signal
	signalAt   time.Time
	tty        bool // always: an interrupt comes to both
}

func startFront(path string, argv, env []string) (*front, error) {
	p, err := os.StartProcess(path, argv, &os.ProcAttr{Env: env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return nil, err
	}
	f := &front{process: p, ended: make(chan os.Signal, 1), tty: true}
	f.id, _ = proc.Inspect(p.Pid)
	go func() {
		st, err := p.Wait()
		if f.ending.Code = -1; err == nil {
			f.ending.Code = st.ExitCode()
		}
		f.ended <- os.Interrupt
	}()
	return f, nil
}

func (f *front) release(string) {}

func (f *front) dismiss() {
	_ = f.process.Kill()
	<-f.ended
}

func awaitWord(context.Context, int, []string) error {
	return usageError{errors.New("exec: --await-word is steward's own")}
}

func (f *front) changes() <-chan os.Signal { return f.ended }

func (f *front) look() (keep.Ending, bool) { return f.ending, true }

func (f *front) reap() {}

// hear notes a signal; the console sends it to the command too.
func (f *front) hear(s os.Signal) { f.lastSignal, f.signalAt = s, time.Now() }

func hearSignals() *signalEar {
	c := make(chan os.Signal, 8)
	signal.Notify(c, os.Interrupt)
	return &signalEar{heard: c, stop: func() { signal.Stop(c) }}
}

func signalNumber(string) int { return 0 }
