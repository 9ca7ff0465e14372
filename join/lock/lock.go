// Package lock grants real locks to agents and their commands: a kernel lock (flock(2)), a record of the holder, and a
// fencing token that only grows. In a project with protocol 001 the state file mirrors the locks.
package lock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/livhana/steward/platform/proc"
)

// ErrHeld says that another holder has the lock.
var ErrHeld = errors.New("the lock is held")

// HeldError is an ErrHeld that names the holder.
type HeldError struct{ Status Status }

func (e *HeldError) Error() string {
	return fmt.Sprintf("the lock %s is not free: %s", e.Status.Name, e.Status.Why)
}

// Is makes a HeldError an ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// Options are the settings of Locks.
type Options struct {
	Mirror Mirror // may be nil
	Now    func() time.Time
	// Holders returns the processes that hold the flock on a file, errors.ErrUnsupported where that is unknown. Nil:
	// proc.FlockHolders.
	Holders func(path string) ([]proc.Identity, error)
	// step is called at each stage of a change, so that a test can end the process there.
	step func(string)
}

// Locks are all locks of one project. Several goroutines may use those without a Mirror at once; they exclude each other
// as processes do.
type Locks struct {
	opts   Options
	folder folder
	mirror Mirror
	procs  processes

	mu   sync.Mutex
	over map[string]fs.FileInfo // by file: records of grants that are known to be over
}

// Open returns the locks of the project at dir (absolute). It does not read or create anything.
func Open(dir string, o Options) *Locks {
	if o.Holders == nil {
		o.Holders = proc.FlockHolders
	}
	if o.step == nil {
		o.step = func(string) {}
	}
	if o.Mirror == nil {
		o.Mirror = noMirror{}
	}
	l := &Locks{opts: o, folder: folder{dir: dir, step: o.step}, mirror: o.Mirror, procs: processes{ofFlock: o.Holders},
		over: map[string]fs.FileInfo{}}
	l.procs.self, _ = proc.Inspect(os.Getpid())
	l.procs.host, _ = os.Hostname()
	return l
}

// The longest time that Close waits, and how often it looks meanwhile.
const (
	closeWait  = 200 * time.Millisecond
	closeLooks = 8
)

// Close waits briefly for clients that had the state file open when it was replaced, so that no write is lost.
func (l *Locks) Close() {
	for looks := 0; looks < closeLooks && l.mirror.Settle(context.Background(), l.opts.Now()); looks++ {
		pause(context.Background(), closeWait/closeLooks)
	}
	l.mirror.Close()
	l.folder.close()
}

// pause sleeps; it reports whether ctx is still live.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(max(d, 0))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
