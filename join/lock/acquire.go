package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
)

// Request asks for a lock.
type Request struct {
	Name    string        // at most 100 bytes, all printable; a path is allowed
	Agent   string        // the holder
	Command []string      // for the record
	TTL     time.Duration // how long the lock may be held; after it the lock is shown as overdue, but stays held
	NoWait  bool          // fail with ErrHeld at once instead of waiting
	Wait    time.Duration // fail with ErrHeld after this time; 0: wait until ctx ends
	// Waiting is called once with the lock that blocks the request; may be nil.
	Waiting func(Status)
}

// Held is a lock held by this process, until Release or the end of the process.
type Held struct {
	place *Place
	file  string
	lock  *handle
	again *handle // the lock on the file's replacement, after the first file was removed
	lost  bool    // the replacement could not be locked
	rec   record
	seen  uint64 // the ceiling in the second copy
}

// Fence is the fencing token of this grant: larger than every earlier token of the same name.
func (h *Held) Fence() uint64 { return h.rec.Fence }

// Acquire takes a lock. It waits for the kernel lock, and then for agents' own locks of that name in the mirror. When
// the wait times out the error is a *HeldError; when ctx is cancelled it is ctx's error. Other errors: ErrName,
// ErrDamaged, and disk errors; then nothing is held, and no fencing token was granted twice.
func (p *Place) Acquire(ctx context.Context, r Request) (*Held, error) {
	if r.Wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.Wait)
		defer cancel()
	}
	h, err := p.acquire(ctx, r)
	if err != nil {
		var held *HeldError
		if errors.As(err, &held) {
			return nil, held
		}
		return nil, fmt.Errorf("take the lock %q: %w", r.Name, err)
	}
	return h, nil
}

func (p *Place) acquire(ctx context.Context, r Request) (*Held, error) {
	file, err := fileName(r.Name)
	if err != nil {
		return nil, err
	}
	if err := checkAgent(r.Agent); err != nil {
		return nil, err
	}
	if _, err := p.open(true); err != nil {
		return nil, err
	}
	tell := r.Waiting
	waitFor := func(s Status) {
		if tell != nil {
			tell(s)
		}
		tell = nil
	}
	for {
		lock, err := p.queue(ctx, file, r, waitFor)
		if err != nil {
			return nil, err
		}
		h, rival, err := p.grant(ctx, file, lock, r)
		if h != nil {
			return h, nil
		}
		_ = lock.Unlock()
		if err != nil {
			return nil, err
		}
		s := p.contentStatus(rival, p.opts.Now())
		if r.NoWait {
			return nil, &HeldError{s}
		}
		waitFor(s)
		if !pause(ctx, untilAgain(rival, p.opts.Now())) {
			return nil, gaveUp(ctx, s)
		}
	}
}

// gaveUp is the error of a wait that has timed out or was cancelled.
func gaveUp(ctx context.Context, s Status) error {
	if err := ctx.Err(); errors.Is(err, context.Canceled) {
		return err
	}
	return &HeldError{s}
}

// queue takes the kernel lock. Before it waits, it reports the holder.
func (p *Place) queue(ctx context.Context, file string, r Request, waitFor func(Status)) (*handle, error) {
	lock, err := p.flock(ctx, file, false)
	if !errors.Is(err, platform.ErrLocked) {
		if err == nil {
			p.opts.step("flocked")
		}
		return lock, err
	}
	if r.NoWait {
		return nil, &HeldError{p.heldBy(r.Name, file)}
	}
	held := p.heldBy(r.Name, file)
	if p.waitsForItself(held) {
		held.Why += "; this very command runs under it, and would wait for itself"
		return nil, &HeldError{held}
	}
	waitFor(held)
	lock, err = p.flock(ctx, file, true)
	if err != nil && ctx.Err() != nil {
		return nil, gaveUp(ctx, p.heldBy(r.Name, file))
	}
	if err == nil {
		p.opts.step("flocked")
	}
	return lock, err
}

// waitsForItself reports whether the holder is an ancestor of this process: the wait would never end.
func (p *Place) waitsForItself(s Status) bool {
	table, err := proc.Table()
	if err != nil {
		return false
	}
	parents := make(map[int]proc.Process, len(table))
	for _, r := range table {
		parents[r.PID] = r
	}
	for at, steps := parents[p.self.PID].Parent, 0; at > 1 && steps < len(table); at, steps = parents[at].Parent, steps+1 {
		if slices.ContainsFunc(s.Holders, func(id proc.Identity) bool { return id.PID == at && id.Start == parents[at].Start }) {
			return true
		}
	}
	return false
}

// heldBy is the status of a lock that was held a moment ago.
func (p *Place) heldBy(name, file string) Status {
	s := p.status(name, file, p.opts.Now())
	if s.State == StateFree {
		s.State, s.Why = StateHeld, "it was given back a moment ago, or is just being taken"
	}
	return s
}

// Poll intervals for an agent's own lock that blocks a grant: the end of such a lock is not signalled.
const (
	lookSoon = 50 * time.Millisecond
	lookSlow = 500 * time.Millisecond
)

func untilAgain(r *protocol.Rival, now time.Time) time.Duration {
	if r.Again.IsZero() {
		return lookSlow
	}
	return min(max(r.Again.Sub(now), lookSoon), lookSlow)
}

// grant turns the kernel lock into a grant: it enters the mirror, assigns a fencing token and writes the record. If it
// returns no Held, the caller still owns the kernel lock.
func (p *Place) grant(ctx context.Context, file string, lock *handle, r Request) (*Held, *protocol.Rival, error) {
	root, err := p.open(false) // does not recreate a folder that was removed during the wait
	if err != nil {
		return nil, nil, err
	}
	old, ceiling, err := read(root, r.Name, file)
	if errors.Is(err, ErrDamaged) {
		return nil, nil, fmt.Errorf("%w (steward lock break %s --project %s goes on above every number seen)", err, quoted(r.Name), quoted(p.dir))
	}
	if err != nil {
		return nil, nil, err
	}
	ctx = context.WithoutCancel(ctx) // the rest is short and must run to completion
	now := p.opts.Now()
	rec := record{Name: r.Name, Fence: old.next(ceiling, now), Agent: r.Agent, Process: p.self, Host: p.host,
		Command: beginning(r.Command), Acquired: now.UTC(), TTL: r.TTL.Seconds()}
	if rec.Fence >= maxFence {
		return nil, nil, fmt.Errorf("%w: its numbers are used up", ErrDamaged)
	}
	h := &Held{place: p, file: file, lock: lock, rec: rec, seen: ceiling}
	rival, err := p.mirrored(func(m Mirror) (*protocol.Rival, error) { return m.Claim(ctx, h.entry(now), now) })
	if rival != nil || err != nil {
		return nil, rival, err
	}
	p.opts.step("claimed")
	if err := p.write(root, file, rec, ceiling); err != nil {
		return nil, nil, errors.Join(err, h.drop(ctx))
	}
	h.seen = max(ceiling, rec.Fence)
	p.opts.step("recorded")
	return h, nil, nil
}

// entry is the mirror's entry for the lock, valid for one TTL from now.
func (h *Held) entry(now time.Time) protocol.Lock {
	return protocol.Lock{Resource: h.rec.Name, Holder: h.rec.Agent, Process: protocol.Identity(h.rec.Process),
		Acquired: h.rec.Acquired, Expires: now.Add(h.rec.ttl()), Fence: h.rec.Fence}
}

func (p *Place) mirrored(act func(Mirror) (*protocol.Rival, error)) (*protocol.Rival, error) {
	if p.opts.Mirror == nil {
		return nil, nil
	}
	p.mirror.Lock()
	defer p.mirror.Unlock()
	return act(p.opts.Mirror)
}

// Renew extends the mirror's entry by the TTL; call it every half TTL. It returns an agent's own lock that has replaced
// the entry: that agent does not have the kernel lock, but may not know it.
func (h *Held) Renew(ctx context.Context) (*protocol.Rival, error) {
	now := h.place.opts.Now()
	return h.place.mirrored(func(m Mirror) (*protocol.Rival, error) { return m.Renew(ctx, h.entry(now), now) })
}

func (h *Held) drop(ctx context.Context) error {
	_, err := h.place.mirrored(func(m Mirror) (*protocol.Rival, error) {
		return nil, m.Drop(ctx, h.entry(time.Time{}), h.place.opts.Now())
	})
	return err
}

// Release releases the lock. It first removes the mirror's entry, if that is still this holder's. The lock is free even
// on error.
func (h *Held) Release(ctx context.Context) error {
	h.place.opts.step("releasing")
	err := h.drop(ctx)
	h.place.opts.step("dropped")
	if h.again != nil {
		err = errors.Join(err, h.again.Unlock())
	}
	if err := errors.Join(err, h.lock.Unlock()); err != nil {
		return fmt.Errorf("give the lock %q back: %w", h.rec.Name, err)
	}
	return nil
}
