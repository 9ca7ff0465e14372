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

// endings ends process trees: first it asks, then it kills. Each tree has its own goroutine.
type endings struct {
	*reports
	ctx  context.Context // ends with the daemon
	stop context.CancelFunc
	all  sync.WaitGroup
}

func newEndings(r *reports) *endings {
	e := &endings{reports: r}
	e.ctx, e.stop = context.WithCancel(context.Background())
	return e
}

// Close waits until no process is being ended any more. What is left of them, the next steward ends.
func (e *endings) Close() {
	e.stop()
	e.all.Wait()
}

// end starts to end a process tree and returns at once. The tree is asked to exit, has the agents' grace period, and is then
// killed. Each identity is verified before each signal, and the outcome is recorded in the journal.
func (e *endings) end(root protocol.Identity, _ string) {
	e.all.Go(func() {
		grace := e.settings.config().Keep.Stop
		ended, left, err := proc.EndTree(e.ctx, proc.Identity(root), "", grace)
		if errors.Is(err, errors.ErrUnsupported) { // this platform cannot find the tree: end the process alone
			ended, left = 1, 0
			err = proc.Terminate(e.ctx, proc.Identity(root), grace)
		}
		note := supervisor.Entry{At: time.Now(), Kind: "note", Subject: protocol.Subject{Kind: protocol.KindMachine, ID: "processes"}, Verb: "end"}
		switch {
		case err != nil:
			note.Text, note.Error = fmt.Sprintf("process %d and all below it could not be ended", root.PID), err.Error()
			e.log.Error("end processes", "pid", root.PID, "error", err)
		case left > 0:
			note.Text = fmt.Sprintf("of process %d and all below it %d have ended and %d would not", root.PID, ended, left)
			e.log.Error("end processes", "pid", root.PID, "ended", ended, "left", left)
		default:
			note.Text = fmt.Sprintf("process %d and all below it have ended: %d", root.PID, ended)
			e.log.Info("ended processes", "pid", root.PID, "ended", ended)
		}
		e.note(note)
	})
}
