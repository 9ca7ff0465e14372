package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
)

// ending is a request to end a process tree.
type ending struct {
	root protocol.Identity
	why  string
}

// endings ends process trees: first it asks, then it kills.
type endings struct {
	queue   chan ending
	reports *reports
}

func newEndings(r *reports) *endings { return &endings{make(chan ending, mostEndings), r} }

// mostEndings bounds the queued requests; each is started as soon as it is read.
const mostEndings = 64

// stop queues a process tree to be ended and returns at once. If the queue is full, the request is dropped; the loop of
// the next steward makes it again.
func (e *endings) stop(root protocol.Identity, why string) {
	select {
	case e.queue <- ending{root, why}:
	default:
		e.reports.log.Error("too many processes are being ended; this one is left alone", "pid", root.PID, "why", why)
	}
}

// Run serves the requests of stop, each tree in its own goroutine.
func (e *endings) Run(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case one := <-e.queue:
			all.Go(func() { e.end(ctx, one) })
		}
	}
}

// end asks the tree to exit, waits for the agents' grace period, and then kills it. It verifies each identity before
// each signal, and records the outcome in the journal.
func (e *endings) end(ctx context.Context, one ending) {
	grace := e.reports.settings.config().Keep.Stop
	note := supervisor.Entry{Kind: "note", Subject: protocol.Subject{Kind: protocol.KindMachine, ID: "processes"}, Verb: "end"}
	ended, left, err := proc.EndTree(ctx, proc.Identity(one.root), "", grace)
	if errors.Is(err, errors.ErrUnsupported) { // this platform cannot find the tree: end the process alone
		ended, left = 1, 0
		err = proc.Terminate(ctx, proc.Identity(one.root), grace)
	}
	note.At = time.Now()
	switch {
	case err != nil:
		note.Text, note.Error = fmt.Sprintf("process %d and all below it could not be ended", one.root.PID), err.Error()
		e.reports.log.Error("end processes", "pid", one.root.PID, "error", err)
	case left > 0:
		note.Text = fmt.Sprintf("of process %d and all below it %d have ended and %d would not", one.root.PID, ended, left)
		e.reports.log.Error("end processes", "pid", one.root.PID, "ended", ended, "left", left)
	default:
		note.Text = fmt.Sprintf("process %d and all below it have ended: %d", one.root.PID, ended)
		e.reports.log.Info("ended processes", "pid", one.root.PID, "ended", ended)
	}
	e.reports.note(note)
}
