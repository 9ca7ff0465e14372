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

// ending is a tree of processes that is to be ended.
type ending struct {
	root protocol.Identity
	why  string
}

// mostEndings is how many may wait to be begun; they are begun at once.
const mostEndings = 64

// stop has a tree of processes ended; it returns at once. One order too many is dropped: the loop of the next steward
// gives it again.
func (h *Daemon) stop(root protocol.Identity, why string) {
	select {
	case h.endings <- ending{root, why}:
	default:
		h.log.Error("too many processes are being ended; this one is left alone", "pid", root.PID, "why", why)
	}
}

// endProcesses carries out what stop was asked for, each tree by itself.
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

// end asks the tree to end, gives it the time that agents have, and then ends it. Each identity is proved before each
// signal. What became of it stands in the journal.
func (h *Daemon) end(ctx context.Context, e ending) {
	h.mu.Lock()
	grace := h.cfg.Keep.Stop
	h.mu.Unlock()
	note := supervisor.Entry{Kind: "note", Subject: protocol.Subject{Kind: protocol.KindMachine, ID: "processes"}, Verb: "end"}
	ended, left, err := proc.EndTree(ctx, proc.Identity(e.root), "", grace)
	if errors.Is(err, errors.ErrUnsupported) { // no tree can be found here: the process itself
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
