// Package folder is what the adapters share: a protocol's folder inside a project, opened, guarded and edited.
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

// Guard takes the lock that all of our own processes take before they write. It lies in own, steward's folder in the
// protocol's. The returned func frees it.
type Guard = func(ctx context.Context, own *jsonfile.Root) (release func(), err error)

// Options say which folder it is.
type Options struct {
	Dir  string // the project, absolute
	Base string // the protocol's folder in it, with slashes; "" for the project itself
	// Own is steward's own folder, relative to Base: it is there before anything is written. Home is the folder without
	// which it is not made, "" for the one that holds it. Rooms are folders in Own that are there as well.
	Own, Home string
	Rooms     []string
	Guard     Guard // may be nil
	// Sweep lists the folders, relative to Base, in which a crash of ours may leave drafts.
	// One that the adapter lists anyway, and that may hold very many files, is left to Litter.
	Sweep []string
	// Tidy removes what is of no use any more. It runs under the guard, once an hour in a process that lives that long; may
	// be nil.
	Tidy func()
	// Forget makes the adapter as new: nothing was read. New calls it, and later Open does, when another folder has the
	// name now, or none.
	Forget func()
}

// Folder is a protocol's folder in one project. It is used by one goroutine at a time. An adapter embeds it: what is
// exported here is for the adapter alone, for callers there is protocol.Adapter and Close.
type Folder struct {
	Root     *jsonfile.Root          // at Base; nil while the folder is missing or cannot be opened
	Patience jsonfile.TolerantReader // with the files of Root
	Now      time.Time               // of the look or the change that goes on
	Since    time.Time               // of the last look: what came before it is history

	opts   Options
	own    *jsonfile.Root      // at Own; nil while it was not seen
	gone   time.Time           // when Own, or a room of it, was removed in our sight
	names  []string            // the files that stay in Own, as steward last saw them
	shrunk time.Time           // when one of names was removed in our sight
	ready  bool                // the rooms were there
	lost   *protocol.Fault     // why Base cannot be opened
	swept  time.Time           // when drafts that a crash left were last removed
	tidied time.Time           // when Tidy last ran, or could have for the first time
	litter map[string][]string // by folder: drafts that the adapter came across when it last listed it
	lates  []*late
}

// New makes the Folder. Nothing is read yet.
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

// Is reports whether the project at dir has the folder base (with slashes). A link on the way or in its place counts
// when it leads to a folder, so that its refusal comes to light as a Fault. It opens nothing: a folder is not gone
// because the system is short of files.
func Is(dir, base string) bool {
	st, err := os.Stat(filepath.Join(dir, filepath.FromSlash(base)))
	return err == nil && st.IsDir()
}

// Begin starts a look or a change at that moment.
func (f *Folder) Begin(now time.Time) {
	f.Now = now
	f.Patience.Begin(now)
}

// Look begins a look: the folder is opened, and what clients wrote late into replaced files is merged. there is false
// when nothing can be read; then the snapshot is complete as it is.
func (f *Folder) Look(ctx context.Context, look protocol.Look) (s protocol.Snapshot, there bool) {
	f.Begin(look.Now)
	f.Since = look.Since
	err := f.Open()
	s = protocol.Snapshot{At: look.Now}
	if f.lost != nil {
		s.Faults = []protocol.Fault{*f.lost}
	}
	if err != nil {
		return s, false
	}
	f.mergeLate(ctx)
	return s, true
}

// Change carries out a change: the folder is opened, act runs guarded, and what has moved on is a conflict.
func (f *Folder) Change(ctx context.Context, now time.Time, act func() error) error {
	f.Begin(now)
	if err := f.Open(); err != nil {
		return Conflict(err)
	}
	return Conflict(f.Guarded(ctx, act))
}

// Open makes sure that the folder under the project's path is the one that is read. When the way there cannot be
// looked at just now, the folder that is open goes on serving: nobody is gone because the system is short of files.
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
		f.own, _ = root.Sub(f.opts.Own) // so that its removal is seen
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

// Make makes the folder where it is missing, and opens it (boot).
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

// leave closes the folder and forgets what it said.
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

// Close releases what is open, after a last look at files that were replaced a moment ago.
func (f *Folder) Close() {
	if f.Root != nil {
		f.mergeLate(context.Background())
	}
	f.shut()
}

// sweepEvery is how often drafts that a crash left behind are looked for.
const sweepEvery = 10 * time.Minute

// tidyEvery is how often Tidy runs. A command that ends at once never calls it.
const tidyEvery = time.Hour

// Litter tells which drafts of ours the adapter saw when it listed a folder: those that a crash left are removed with
// the next sweep, for which the folder need not be listed again.
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

// Guarded runs act while no other process of ours writes in the folder. The folder must be open.
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
			_, _ = f.Root.Sweep(dir, f.Now)
		}
		for dir, drafts := range f.litter {
			_, _ = f.Root.SweepThese(dir, drafts, f.Now)
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
