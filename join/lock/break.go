package lock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// ErrNothing says that no lock of that name can be broken.
var ErrNothing = errors.New("nobody holds it")

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
// agent's own lock, else the mirror entry that a dead holder of the real lock left. ErrNothing when there is none.
func (p *Place) Find(ctx context.Context, name string) (Status, error) {
	file, err := fileName(name)
	if err != nil {
		return Status{}, err
	}
	now := p.opts.Now()
	s := p.status(name, file, now)
	if s.Alive || s.State == StateDamaged && p.exists(file) {
		return s, nil
	}
	content, err := p.content(ctx, now)
	if err != nil {
		return Status{}, err
	}
	for _, c := range content {
		if c.Name == name {
			return c, nil
		}
	}
	if left, err := p.leftover(ctx, name, now); err != nil || left != nil {
		s.Why = "its holder is gone; only its entry is left"
		return s, err
	}
	return Status{}, fmt.Errorf("the lock %q: %w", name, ErrNothing)
}

// exists reports whether a lock has a record on disk.
func (p *Place) exists(file string) bool {
	root, err := p.open(false)
	if err != nil {
		return !errors.Is(err, jsonfile.ErrNotExist)
	}
	_, err = root.Stat(locksDir + "/" + file + recordSuffix)
	return !errors.Is(err, jsonfile.ErrNotExist)
}

// leftover is the mirror's entry for a real lock.
func (p *Place) leftover(ctx context.Context, name string, now time.Time) (*protocol.Lock, error) {
	if p.opts.Mirror == nil {
		return nil, nil
	}
	p.mirror.Lock()
	defer p.mirror.Unlock()
	all, err := p.opts.Mirror.Locks(ctx, now)
	for i := range all {
		if all[i].Resource == name && p.isMirror(&all[i]) {
			return &all[i].Lock, nil
		}
	}
	return nil, err
}

// Break breaks a lock, and records that in the tombstones before it changes anything. A content lock must be as it was
// shown (protocol.ErrConflict). A real lock that is still held is refused (*HeldError) unless EndHolder is set. A
// damaged record is set aside, and the next fencing token is above every token seen.
func (p *Place) Break(ctx context.Context, b Breaking) error {
	err := p.breakIt(ctx, b)
	if err != nil {
		return fmt.Errorf("break the lock %q: %w", b.Status.Name, err)
	}
	return nil
}

func (p *Place) breakIt(ctx context.Context, b Breaking) error {
	if b.Status.Kind == KindContent {
		_, err := p.mirrored(func(m Mirror) (*protocol.Rival, error) {
			return nil, m.Break(ctx, b.Status.rival.Lock, b.Why+" ("+b.By+", by hand)", p.opts.Now())
		})
		return err
	}
	file, err := fileName(b.Status.Name)
	if err != nil {
		return err
	}
	if _, err := p.open(true); err != nil {
		return err
	}
	lock, err := p.seize(ctx, file, b)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	root, err := p.open(false) // does not recreate a folder that was removed during the wait
	if err != nil {
		return err
	}
	return p.clean(ctx, root, file, b)
}

// seize takes the kernel lock, which proves that no process holds it any more.
func (p *Place) seize(ctx context.Context, file string, b Breaking) (*handle, error) {
	lock, err := p.flock(ctx, file, false)
	if !errors.Is(err, platform.ErrLocked) {
		return lock, err
	}
	held := p.heldBy(b.Status.Name, file)
	if !b.EndHolder {
		return nil, &HeldError{held}
	}
	if held.Fence != b.Status.Fence {
		return nil, fmt.Errorf("another one holds it now: %w", &HeldError{held})
	}
	if err := p.endHolders(ctx, file, held, b); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, b.Grace)
	defer cancel()
	if lock, err = p.flock(ctx, file, true); err != nil && ctx.Err() != nil {
		return nil, &HeldError{p.heldBy(b.Status.Name, file)}
	}
	return lock, err
}

// endHolders ends the process trees of the holders, and of the waiters that get the lock when those end.
func (p *Place) endHolders(ctx context.Context, file string, held Status, b Breaking) error {
	const rounds = 5
	for range rounds {
		rec, _ := p.look(b.Status.Name, file)
		if held.Fence != b.Status.Fence || len(held.Holders) == 0 {
			return nil // the lock has passed to a new grant
		}
		if err := p.putDown(b, rec, "end_holder"); err != nil {
			return err
		}
		for _, id := range held.Holders {
			if same(id, p.self) {
				return fmt.Errorf("this process itself holds it: %w", ErrHeld)
			}
			_, left, err := proc.EndTree(ctx, id, "", b.Grace)
			if errors.Is(err, errors.ErrUnsupported) {
				err = proc.Terminate(ctx, id, b.Grace)
			}
			if err == nil && left > 0 {
				err = fmt.Errorf("%d processes of its holder %d could not be ended", left, id.PID)
			}
			if err != nil {
				return err
			}
		}
		if held = p.status(b.Status.Name, file, p.opts.Now()); !held.Alive {
			return nil
		}
	}
	return &HeldError{held}
}

// clean removes what a grant has left, under the kernel lock.
func (p *Place) clean(ctx context.Context, root *jsonfile.Root, file string, b Breaking) error {
	now := p.opts.Now()
	rec, ceiling, err := read(root, b.Status.Name, file)
	damaged := errors.Is(err, ErrDamaged)
	if err != nil && !damaged {
		return err
	}
	left, err := p.leftover(ctx, b.Status.Name, now)
	if err != nil {
		return err
	}
	if err := p.putDown(b, rec, "operator"); err != nil {
		return err
	}
	if damaged {
		if rec, err = p.setAside(root, file, rec, ceiling, left, now); err != nil {
			return err
		}
	}
	if left != nil {
		if _, err := p.mirrored(func(m Mirror) (*protocol.Rival, error) { return nil, m.Drop(ctx, *left, now) }); err != nil {
			return err
		}
	}
	fence := rec.Fence
	if fence == 0 {
		fence = ceiling
	}
	if fence == 0 {
		return nil // the lock was never granted
	}
	return p.write(root, file, record{Name: b.Status.Name, Fence: fence, Broken: &violation{now.UTC(), b.By, b.Why}}, ceiling)
}

// setAside renames a damaged record and starts a new sequence of fencing tokens. It is above the second copy's token,
// the mirror's token, and any token that a sequence with an earlier start can have reached.
func (p *Place) setAside(root *jsonfile.Root, file string, rec record, ceiling uint64, left *protocol.Lock, now time.Time) (record, error) {
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

// tombstone is a line of steward/tombstones.jsonl about a real lock. Lines about agents' own locks carry a checksum.
type tombstone struct {
	At       string          `json:"at"`
	Resource string          `json:"resource"`
	Lock     json.RawMessage `json:"lock"`
	Reason   string          `json:"reason"`
	Why      string          `json:"why"`
	By       string          `json:"by"`
}

// putDown records a break in the tombstones.
func (p *Place) putDown(b Breaking, rec record, reason string) error {
	root, err := p.open(false)
	if err != nil {
		return err
	}
	raw, err := jsonfile.EncodeLine(rec)
	if rec.raw != nil {
		raw, err = jsonfile.EncodeLine(strings.ToValidUTF8(string(rec.raw), "�")) // the file itself stays unchanged
	}
	if err != nil {
		return err
	}
	line, err := jsonfile.EncodeLine(tombstone{jsonfile.FormatTime(p.opts.Now()), b.Status.Name, raw, reason, b.Why, b.By})
	if err != nil {
		return err
	}
	return root.Append(tombFile, line)
}
