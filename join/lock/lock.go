// Package lock grants real locks to agents and their commands: a kernel lock (flock(2)), a record of the holder, and a
// fencing token that only grows. In a project with protocol 001 the state file mirrors the locks.
package lock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// own is steward's folder in a project. locksDir, below it, holds the locks of all protocols.
const (
	own      = ".claude/steward"
	locksDir = "locks"
	tombFile = "tombstones.jsonl"
	// ignoreFile hides the folder's content from git: clean -fd, stash -u and add -A.
	ignoreFile = ".gitignore"
	ignoreAll  = "*\n"
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

// Mirror shows steward's locks in the state file, for agents that know only the files of their protocol (protocol 001,
// Lock Protocol). A Rival is an agent's own lock on the same resource; with a rival nothing is entered. In a project
// without a state file the methods do nothing and return no error.
type Mirror interface {
	Claim(ctx context.Context, k protocol.Lock, now time.Time) (*protocol.Rival, error)
	Renew(ctx context.Context, k protocol.Lock, now time.Time) (*protocol.Rival, error)
	Drop(ctx context.Context, k protocol.Lock, now time.Time) error
	Break(ctx context.Context, k protocol.Lock, why string, now time.Time) error
	Locks(ctx context.Context, now time.Time) ([]protocol.Rival, error)
	Settle(ctx context.Context, now time.Time) (more bool)
	Close()
}

// Options are the settings of a Place.
type Options struct {
	Mirror Mirror // may be nil
	Now    func() time.Time
	// Holders returns the processes that hold the flock on a file, errors.ErrUnsupported where that is unknown. Nil:
	// proc.FlockHolders.
	Holders func(path string) ([]proc.Identity, error)
	// step is called at each stage of a change, so that a test can end the process there.
	step func(string)
}

// Place is all locks of one project. Several goroutines may use it at once; they exclude each other as processes do.
type Place struct {
	dir  string
	opts Options
	self proc.Identity
	host string

	mirror sync.Mutex // serializes calls of Mirror
	mu     sync.Mutex
	root   *jsonfile.Root         // the folder own
	over   map[string]fs.FileInfo // records of grants that are known to be over
}

// Open makes the Place of the project at dir (absolute). It does not read or create anything.
func Open(dir string, o Options) *Place {
	if o.Holders == nil {
		o.Holders = proc.FlockHolders
	}
	if o.step == nil {
		o.step = func(string) {}
	}
	p := &Place{dir: dir, opts: o}
	p.self, _ = proc.Inspect(os.Getpid()) // without an identity the record proves nothing
	p.host, _ = os.Hostname()
	return p
}

// farewell is how long Close waits for clients that had the state file open when it was replaced.
const (
	farewell      = 200 * time.Millisecond
	farewellLooks = 8
)

// Close closes the Place. It waits briefly for clients that are writing the replaced state file, so that no write is
// lost.
func (p *Place) Close() {
	if m := p.opts.Mirror; m != nil {
		p.mirror.Lock()
		defer p.mirror.Unlock()
		for looks := 0; looks < farewellLooks && m.Settle(context.Background(), p.opts.Now()); looks++ {
			pause(context.Background(), farewell/farewellLooks)
		}
		m.Close()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.root != nil {
		_ = p.root.Close()
		p.root = nil
	}
}

// open returns steward's folder in the project. If make is set it creates a missing folder, else the error is
// jsonfile.ErrNotExist.
func (p *Place) open(make bool) (*jsonfile.Root, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.root != nil && p.root.Alive() && (!make || furnish(p.root) == nil) {
		return p.root, nil
	}
	if p.root != nil {
		_ = p.root.Close()
		p.root = nil
	}
	top, err := jsonfile.Open(p.dir)
	if err != nil {
		return nil, err
	}
	defer top.Close()
	if make {
		if err := top.MkdirAll(own, 0o755); err != nil {
			return nil, err
		}
	}
	root, err := top.Sub(own)
	if err == nil && make {
		err = furnish(root)
	}
	if err == nil {
		_, _, err = root.List(locksDir) // List refuses a link: the flock is taken by path
	}
	if err != nil {
		return nil, err
	}
	p.root = root
	return root, nil
}

// furnish creates what is missing in steward's folder. The locks work without the ignore file, so its error is ignored.
func furnish(root *jsonfile.Root) error {
	if err := root.MkdirAll(locksDir, 0o755); err != nil {
		return err
	}
	_ = root.Create(ignoreFile, []byte(ignoreAll), 0o644, jsonfile.Volatile)
	return nil
}

// flockPath is the file on which the kernel lock is taken.
func (p *Place) flockPath(file string) string {
	return filepath.Join(p.dir, filepath.FromSlash(own), locksDir, file+lockSuffix)
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
