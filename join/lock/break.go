package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
)

// ErrNothing says that no lock of that name can be broken.
var ErrNothing = errors.New("it is not held")

// Breaking is a user's order to break a lock.
type Breaking struct {
	Status Status // as it was shown to the user who gave the order
	By     string
	Why    string
	// EndHolder: end a living holder of a real lock and all its descendants. Without it the break is refused.
	EndHolder bool
	Grace     time.Duration // between SIGTERM and SIGKILL
}

// Find returns the lock that a break of this name would apply to: the real lock if it is held or damaged, else an
// agent's own lock, else the mirror entry that a dead holder of the real lock left. ErrNothing when none exists.
func (l *Locks) Find(ctx context.Context, name string) (Status, error) {
	file, err := fileName(name)
	if err != nil {
		return Status{}, err
	}
	now := l.opts.Now()
	s := l.status(name, file, now)
	if s.Alive || s.State == StateDamaged {
		return s, nil
	}
	content, err := l.content(ctx, now)
	if err != nil {
		return Status{}, err
	}
	for _, c := range content {
		if c.Name == name {
			return c, nil
		}
	}
	if left, err := l.remainingEntry(ctx, name, now); err != nil || left != nil {
		s.Why = "its holder is gone; only its entry is left"
		return s, err
	}
	return Status{}, fmt.Errorf("the lock %q: %w", name, ErrNothing)
}

// remainingEntry is the mirror's entry for a real lock.
func (l *Locks) remainingEntry(ctx context.Context, name string, now time.Time) (*protocol.Lock, error) {
	all, err := l.mirror.Locks(ctx, now)
	for i := range all {
		if all[i].Resource == name && l.isMirror(&all[i]) {
			return &all[i].Lock, nil
		}
	}
	return nil, err
}

// Break breaks a lock, and records that in the tombstones before it changes anything. A content lock must be as it was
// shown (protocol.ErrConflict). A real lock that is still held is refused (*HeldError) unless EndHolder is set. A
// damaged record is set aside, and the next fencing token is above every token seen.
func (l *Locks) Break(ctx context.Context, b Breaking) error {
	if err := l.breakLock(ctx, b); err != nil {
		return fmt.Errorf("break the lock %q: %w", b.Status.Name, err)
	}
	return nil
}

func (l *Locks) breakLock(ctx context.Context, b Breaking) error {
	if b.Status.Kind == KindContent {
		return l.mirror.Break(ctx, b.Status.rival.Lock, b.Why+" ("+b.By+", by hand)", l.opts.Now())
	}
	file, err := fileName(b.Status.Name)
	if err != nil {
		return err
	}
	if _, err := l.folder.open(true); err != nil {
		return err
	}
	lock, err := l.takeForBreak(ctx, file, b)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	return l.removeRemains(ctx, file, b)
}

// takeForBreak takes the kernel lock, which proves that no process holds it any more.
func (l *Locks) takeForBreak(ctx context.Context, file string, b Breaking) (*flockHandle, error) {
	lock, err := l.folder.flock(ctx, file, false)
	if !errors.Is(err, platform.ErrLocked) {
		return lock, err
	}
	held := l.heldBy(b.Status.Name, file)
	if !b.EndHolder {
		return nil, &HeldError{held}
	}
	if held.Fence != b.Status.Fence {
		return nil, fmt.Errorf("another one holds it now: %w", &HeldError{held})
	}
	if err := l.endHolders(ctx, file, held, b); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, b.Grace)
	defer cancel()
	if lock, err = l.folder.flock(ctx, file, true); err != nil && ctx.Err() != nil {
		return nil, &HeldError{l.heldBy(b.Status.Name, file)}
	}
	return lock, err
}

// endHolders ends the process trees of the holders, and of the waiters that get the lock when those end.
func (l *Locks) endHolders(ctx context.Context, file string, held Status, b Breaking) error {
	const rounds = 5
	for range rounds {
		rec, _, _ := l.folder.read(b.Status.Name, file)
		if held.Fence != b.Status.Fence || len(held.Holders) == 0 {
			return nil // the lock has passed to a new grant
		}
		if err := l.folder.addTombstone(b, rec, "end_holder", l.opts.Now()); err != nil {
			return err
		}
		for _, id := range held.Holders {
			if same(id, l.procs.self) {
				return fmt.Errorf("this process itself holds it: %w", ErrHeld)
			}
			_, left, err := proc.EndTree(ctx, id, "", b.Grace)
			if err == nil && left > 0 {
				err = fmt.Errorf("%d processes of its holder %d could not be ended", left, id.PID)
			}
			if err != nil {
				return err
			}
		}
		if held = l.status(b.Status.Name, file, l.opts.Now()); !held.Alive {
			return nil
		}
	}
	return &HeldError{held}
}

// removeRemains removes what a grant has left, under the kernel lock.
func (l *Locks) removeRemains(ctx context.Context, file string, b Breaking) error {
	now := l.opts.Now()
	rec, ceiling, err := l.folder.read(b.Status.Name, file) // does not recreate a folder that was removed during the wait
	damaged := errors.Is(err, ErrDamaged)
	if err != nil && !damaged {
		return err
	}
	left, err := l.remainingEntry(ctx, b.Status.Name, now)
	if err != nil {
		return err
	}
	if err := l.folder.addTombstone(b, rec, "operator", now); err != nil {
		return err
	}
	if damaged {
		if rec, err = l.folder.setAside(file, rec, ceiling, left, now); err != nil {
			return err
		}
	}
	if left != nil {
		if err := l.mirror.Drop(ctx, *left, now); err != nil {
			return err
		}
	}
	fence := cmp.Or(rec.Fence, ceiling)
	if fence == 0 {
		return nil // the lock was never granted
	}
	return l.folder.write(file, record{Name: b.Status.Name, Fence: fence, Broken: &violation{now.UTC(), b.By, b.Why}}, ceiling)
}

// setAside renames a damaged record and starts a new sequence of fencing tokens. It is above the second copy's token,
// the mirror's token, and any token that a sequence with an earlier start can have reached.
func (f *folder) setAside(file string, rec record, ceiling uint64, left *protocol.Lock, now time.Time) (record, error) {
	root, err := f.open(false)
	if err != nil {
		return rec, err
	}
	kept := locksDir + "/" + file + ".damaged-" + now.UTC().Format("20060102T150405.000Z")
	if err := root.Rename(locksDir+"/"+file+recordSuffix, kept); err != nil {
		return rec, err
	}
	rec.Fence = max(ceiling, first(now))
	if left != nil && left.Fence < maxFence {
		rec.Fence = max(rec.Fence, left.Fence)
	}
	return rec, nil
}
