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

// mostEndings bounds the queued requests; each is started as soon as it is read.
const mostEndings = 64

// stop queues a process tree to be ended and returns at once. If the queue is full, the request is dropped; the loop of
// the next steward makes it again.
func (h *Daemon) stop(root protocol.Identity, why string) {
	select {
	case h.endings <- ending{root, why}:
	default:
		h.log.Error("too many processes are being ended; this one is left alone", "pid", root.PID, "why", why)
	}
}

// endProcesses serves the requests of stop, each tree in its own goroutine.
func (h *Daemon) endProcesses(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-h.endings:
			all.Go(func() { h.end(ctx, e) })
		}
	}
}

// end asks the tree to exit, waits for the agents' grace period, and then kills it. It verifies each identity before
// each signal, and records the outcome in the journal.
func (h *Daemon) end(ctx context.Context, e ending) {
	h.mu.Lock()
	grace := h.cfg.Keep.Stop
	h.mu.Unlock()
	note := supervisor.Entry{Kind: "note", Subject: protocol.Subject{Kind: protocol.KindMachine, ID: "processes"}, Verb: "end"}
	ended, left, err := proc.EndTree(ctx, proc.Identity(e.root), "", grace)
	if errors.Is(err, errors.ErrUnsupported) { // this platform cannot find the tree: end the process alone
		ended, left = 1, 0
		err = proc.Terminate(ctx, proc.Identity(e.root), grace)
	}
	note.At = time.Now()
	switch {
	case err != nil:
		note.Text, note.Error = fmt.Sprintf("process %d and all below it could not be ended", e.root.PID), err.Error()
		h.log.Error("end processes", "pid", e.root.PID, "error", err)
	case left > 0:
		note.Text = fmt.Sprintf("of process %d and all below it %d have ended and %d would not", e.root.PID, ended, left)
		h.log.Error("end processes", "pid", e.root.PID, "ended", ended, "left", left)
	default:
		note.Text = fmt.Sprintf("process %d and all below it have ended: %d", e.root.PID, ended)
		h.log.Info("ended processes", "pid", e.root.PID, "ended", ended)
	}
	if err := h.journal.Write(note); err != nil {
		h.log.Error("journal", "error", err)
	}
}
