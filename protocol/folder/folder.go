// Package folder is shared by the adapters: it opens, guards and edits a protocol's folder inside a project.
package folder

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Guard takes the lock that every steward process takes before it writes. The lock is in own, steward's folder inside
// the protocol's folder. The returned func releases it.
type Guard = func(ctx context.Context, own *jsonfile.Root) (release func(), err error)

// Options identify and configure a Folder.
type Options struct {
	Dir  string // the project, absolute
	Base string // the protocol's folder in it, slash-separated; "" for the project itself
	// Own is steward's own folder, relative to Base: it is created before anything is written. It is not created unless
	// the folder Home exists; "" means its parent. Rooms are folders in Own that are created with it.
	Own, Home string
	Rooms     []string
	Guard     Guard // may be nil
	// Sweep lists the folders, relative to Base, in which a crash of steward may leave drafts. A folder that the
	// adapter lists anyway and that may hold very many files is left to Litter.
	Sweep []string
	// Tidy removes obsolete files. It runs under the guard, once an hour in a long-running process; may be nil.
	Tidy func()
	// Forget resets the adapter as if nothing had been read. New calls it, and Open calls it when the folder was
	// replaced or removed.
	Forget func()
}

// Folder is a protocol's folder in one project. It is not safe for concurrent use. An adapter embeds it: the exported
// members are for the adapter alone; callers use protocol.Adapter and Close.
type Folder struct {
	Root *jsonfile.Root // at Base; nil while the folder is missing or cannot be opened
	Clock

	opts   Options
	own    *jsonfile.Root      // at Own; nil until it has been seen
	gone   time.Time           // when steward saw that Own, or a room in it, was removed
	names  []string            // the permanent files in Own at the last check
	shrunk time.Time           // when steward saw that one of names was removed
	ready  bool                // the rooms existed
	lost   *protocol.Fault     // why Base cannot be opened
	swept  time.Time           // when drafts that a crash left were last removed
	tidied time.Time           // when Tidy last ran, or when its interval began
	litter map[string][]string // by folder: drafts that the adapter saw when it last listed it
	lates  []*late
}

// Clock is the time of a scan, and when the next one is needed.
type Clock struct {
	Now      time.Time               // time of the current scan or change
	Since    time.Time               // of the last scan: earlier events are history
	Patience jsonfile.TolerantReader // tracks unreadable files of Root
}

// Past returns a time that a file states; a time in the future counts as now, because other clocks may be ahead.
func (c *Clock) Past(at time.Time) time.Time {
	if at.After(c.Now) {
		return c.Now
	}
	return at
}

// Wait reports whether a time is still to come, and if so requests a scan at that time.
func (c *Clock) Wait(at time.Time) bool {
	if !c.Now.Before(at) {
		return false
	}
	c.Patience.RetryAt(at)
	return true
}

// Later returns the later of two times.
func Later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// New makes the Folder. It reads nothing yet.
func New(opts Options) *Folder {
	if opts.Guard == nil {
		opts.Guard = func(context.Context, *jsonfile.Root) (func(), error) { return func() {}, nil }
	}
	if opts.Home == "" {
		opts.Home = path.Dir(opts.Own)
	}
	f := &Folder{opts: opts}
	f.leave()
	return f
}

// Is reports whether the project at dir has the folder base (slash-separated). A symbolic link in the path counts if it
// leads to a folder, so that its refusal shows as a Fault. Is opens nothing: a folder is not gone because the system
// lacks file descriptors.
func Is(dir, base string) bool {
	st, err := os.Stat(filepath.Join(dir, filepath.FromSlash(base)))
	return err == nil && st.IsDir()
}

// Absolute returns the absolute path of a file, given relative to Base; "" of "".
func Absolute(f *Folder, file string) string {
	if file == "" {
		return ""
	}
	return filepath.Join(f.opts.Dir, filepath.FromSlash(f.opts.Base), filepath.FromSlash(file))
}

// Begin starts a scan or a change at that moment.
func (f *Folder) Begin(now time.Time) {
	f.Now = now
	f.Patience.Begin(now)
}

// Scan begins a scan: it opens the folder and merges late client writes into replaced files. If there is false, nothing
// can be read and the snapshot is final.
func (f *Folder) Scan(ctx context.Context, order protocol.ScanOrder) (s protocol.Snapshot, there bool) {
	f.Begin(order.Now)
	f.Since = order.Since
	err := f.Open()
	s = protocol.Snapshot{At: order.Now}
	if f.lost != nil {
		s.Faults = []protocol.Fault{*f.lost}
	}
	if err != nil {
		return s, false
	}
	f.mergeLate(ctx)
	return s, true
}

// Change carries out a change: it opens the folder, runs act under the guard, and returns a conflict if the files have
// changed.
func (f *Folder) Change(ctx context.Context, now time.Time, act func() error) error {
	f.Begin(now)
	if err := f.Open(); err != nil {
		return Conflict(err)
	}
	return Conflict(f.Guarded(ctx, act))
}

// Open makes sure that Root is the folder at the project's path. If the path cannot be examined at the moment, the open
// folder stays in use: agents are not gone because the system lacks a resource.
func (f *Folder) Open() error {
	if f.Root != nil && f.Root.Alive() {
		f.lost = nil
		return nil
	}
	root, err := open(f.opts.Dir, f.opts.Base)
	switch {
	case err == nil:
		f.leave()
		f.Root, f.lost = root, nil
		f.own, _ = root.Sub(f.opts.Own) // so that its removal is detected
		return nil
	case Missing(err):
		f.leave()
		f.lost = nil
		return err
	case errors.Is(err, jsonfile.ErrHostile):
		f.leave()
	}
	f.lost = f.Fault(f.lost, "", err)
	if f.Root != nil {
		return nil
	}
	return err
}

func open(dir, base string) (*jsonfile.Root, error) {
	top, err := jsonfile.Open(dir)
	if err != nil || base == "" {
		return top, err
	}
	defer top.Close()
	return top.Sub(base)
}

// Make creates the folder if it is missing, and opens it (boot).
func (f *Folder) Make() error {
	if f.opts.Base != "" {
		top, err := jsonfile.Open(f.opts.Dir)
		if err != nil {
			return err
		}
		defer top.Close()
		if err := top.MkdirAll(f.opts.Base, 0o755); err != nil {
			return err
		}
	}
	return f.Open()
}

// Boot creates the folder if it is missing, and runs fill under the guard to create what belongs in it.
func (f *Folder) Boot(ctx context.Context, now time.Time, fill func() error) error {
	f.Begin(now)
	err := f.Make()
	if err == nil {
		err = f.Guarded(ctx, fill)
	}
	if err != nil {
		return fmt.Errorf("boot: %w", err)
	}
	return nil
}

// leave closes the folder and drops all state read from it.
func (f *Folder) leave() {
	f.shut()
	f.Patience.Forget()
	f.opts.Forget()
}

func (f *Folder) shut() {
	f.dropLates()
	f.litter = nil
	f.closeOwn()
	f.gone = time.Time{}
	if f.Root != nil {
		_ = f.Root.Close()
		f.Root = nil
	}
}

// Close releases all open files, after a last check of recently replaced files.
func (f *Folder) Close() {
	if f.Root != nil {
		f.mergeLate(context.Background())
	}
	f.shut()
}

// sweepEvery is the interval between sweeps for drafts left by a crash.
const sweepEvery = 10 * time.Minute

// tidyEvery is the interval of Tidy. A short-lived command never calls it.
const tidyEvery = time.Hour

// Litter records the drafts that the adapter saw when it listed a folder: the next sweep removes those that a crash
// left, without listing the folder again.
func (f *Folder) Litter(dir string, drafts []string) {
	if len(drafts) == 0 {
		delete(f.litter, dir)
		return
	}
	if f.litter == nil {
		f.litter = map[string][]string{}
	}
	f.litter[dir] = drafts
}

// Guarded runs act while no other steward process writes in the folder. The folder must be open.
func (f *Folder) Guarded(ctx context.Context, act func() error) error {
	own, err := f.MakeOwn()
	if err != nil {
		return err
	}
	release, err := f.opts.Guard(ctx, own)
	if err != nil {
		return fmt.Errorf("take steward's guard lock: %w", err)
	}
	defer release()
	if f.Now.Sub(f.swept) >= sweepEvery {
		f.swept = f.Now
		for _, dir := range f.opts.Sweep {
			_ = f.Root.Sweep(dir, f.Now)
		}
		for dir, drafts := range f.litter {
			_ = f.Root.SweepThese(dir, drafts, f.Now)
		}
	}
	switch {
	case f.tidied.IsZero() || f.Now.Before(f.tidied):
		f.tidied = f.Now
	case f.Now.Sub(f.tidied) >= tidyEvery && f.opts.Tidy != nil:
		f.tidied = f.Now
		f.opts.Tidy()
	}
	return act()
}
