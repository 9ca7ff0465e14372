// Package lock grants real locks to agents and their commands: an flock(2) of the kernel, a record of who holds it, and
// a fencing number that only grows. Where a project speaks protocol 001 its state file mirrors them.
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

// own is steward's folder in a project; the locks of all protocols lie in one folder of it.
const (
	own      = ".claude/steward"
	locksDir = "locks"
	tombFile = "tombstones.jsonl"
	// ignoreFile keeps git's hands off all that lies there: clean -fd, stash -u and add -A.
	ignoreFile = ".gitignore"
	ignoreAll  = "*\n"
)

// ErrHeld says that somebody else holds the lock.
var ErrHeld = errors.New("the lock is held")

// HeldError is an ErrHeld that names the holder.
type HeldError struct{ Status Status }

func (e *HeldError) Error() string {
	return fmt.Sprintf("the lock %s is not free: %s", e.Status.Name, e.Status.Why)
}

// Is makes a HeldError an ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// Mirror is where agents look that know only the files of their protocol (protocol 001, Lock Protocol). A rival is an
// agent's own lock in the way; with one nothing is entered. A project without such a file has none, and no error.
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
	// Holders names who holds the flock on a file, errors.ErrUnsupported where nobody can tell; nil: proc.FlockHolders.
	Holders func(path string) ([]proc.Identity, error)
	// step is told how far a change has come: a test may end the process there.
	step func(string)
}

// Place is all locks of one project. It may be used by several goroutines at once, which exclude each other as
// processes do.
type Place struct {
	dir  string
	opts Options
	self proc.Identity
	host string

	mirror sync.Mutex // Mirror serves one at a time
	mu     sync.Mutex
	root   *jsonfile.Root         // at own
	over   map[string]fs.FileInfo // the records of holdings that are known to be over
}

// Open makes the Place of the project at dir (absolute). Nothing is read or made yet.
func Open(dir string, o Options) *Place {
	if o.Holders == nil {
		o.Holders = proc.FlockHolders
	}
	if o.step == nil {
		o.step = func(string) {}
	}
	p := &Place{dir: dir, opts: o}
	p.self, _ = proc.Inspect(os.Getpid()) // without an identity the record just proves nothing
	p.host, _ = os.Hostname()
	return p
}

// farewell is how long Close waits for clients that had the state file open when it was replaced.
const (
	farewell      = 200 * time.Millisecond
	farewellLooks = 8
)

// Close releases what is open. Clients that are just writing the state file get a moment, so that nothing is lost.
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

// open gives steward's folder in the project. A missing one is made where that is asked for; else the error is
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
		_, _, err = root.List(locksDir) // it is no link either: the flock is taken by its path
	}
	if err != nil {
		return nil, err
	}
	p.root = root
	return root, nil
}

// furnish makes what is missing in steward's folder. Without the ignore file the locks hold as well.
func furnish(root *jsonfile.Root) error {
	if err := root.MkdirAll(locksDir, 0o755); err != nil {
		return err
	}
	_ = root.Create(ignoreFile, []byte(ignoreAll), 0o644, jsonfile.Volatile)
	return nil
}

// flockPath is the file that the kernel's lock lies on.
func (p *Place) flockPath(file string) string {
	return filepath.Join(p.dir, filepath.FromSlash(own), locksDir, file+lockSuffix)
}

// pause waits; it reports whether ctx is still on.
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
