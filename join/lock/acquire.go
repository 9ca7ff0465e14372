package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status/terminal"
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
	locks       *Locks
	file        string
	lock        *flockHandle
	replacement *flockHandle // the lock on the file's replacement, after the first file was removed
	lost        bool         // the replacement could not be locked
	rec         record
	seen        uint64 // the ceiling in the second copy
}

// Fence is the fencing token of this grant: larger than every earlier token of the same name.
func (h *Held) Fence() uint64 { return h.rec.Fence }

// Acquire takes a lock. It waits for the kernel lock, and then for agents' own locks of that name in the mirror. When
// the wait times out the error is a *HeldError; when ctx is cancelled it is ctx's error. Other errors: ErrName,
// ErrDamaged, and disk errors; then nothing is held, and no fencing token was granted twice.
func (l *Locks) Acquire(ctx context.Context, r Request) (*Held, error) {
	if r.Wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.Wait)
		defer cancel()
	}
	h, err := l.acquire(ctx, r)
	if err != nil {
		var held *HeldError
		if errors.As(err, &held) {
			return nil, held
		}
		return nil, fmt.Errorf("take the lock %q: %w", r.Name, err)
	}
	return h, nil
}

func (l *Locks) acquire(ctx context.Context, r Request) (*Held, error) {
	file, err := fileName(r.Name)
	if err != nil {
		return nil, err
	}
	if err := checkAgent(r.Agent); err != nil {
		return nil, err
	}
	if _, err := l.folder.open(true); err != nil {
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
		lock, err := l.takeFlock(ctx, file, r, waitFor)
		if err != nil {
			return nil, err
		}
		h, rival, err := l.grant(ctx, file, lock, r)
		if h != nil {
			return h, nil
		}
		_ = lock.Unlock()
		if err != nil {
			return nil, err
		}
		s := contentStatus(rival, l.opts.Now())
		if r.NoWait {
			return nil, &HeldError{s}
		}
		waitFor(s)
		wait := rivalPollMax
		if !rival.Again.IsZero() {
			wait = min(max(rival.Again.Sub(l.opts.Now()), rivalPollMin), rivalPollMax)
		}
		if !pause(ctx, wait) {
			return nil, timedOut(ctx, s)
		}
	}
}

// timedOut is the error of a wait that has timed out or was cancelled.
func timedOut(ctx context.Context, s Status) error {
	if err := ctx.Err(); errors.Is(err, context.Canceled) {
		return err
	}
	return &HeldError{s}
}

// takeFlock takes the kernel lock. Before it waits, it reports the holder.
func (l *Locks) takeFlock(ctx context.Context, file string, r Request, waitFor func(Status)) (*flockHandle, error) {
	lock, err := l.folder.flock(ctx, file, false)
	if errors.Is(err, platform.ErrLocked) {
		held := l.heldBy(r.Name, file)
		if r.NoWait {
			return nil, &HeldError{held}
		}
		if l.procs.waitsForItself(held) {
			held.Why += "; this very command runs under it, and would wait for itself"
			return nil, &HeldError{held}
		}
		waitFor(held)
		if lock, err = l.folder.flock(ctx, file, true); err != nil && ctx.Err() != nil {
			return nil, timedOut(ctx, l.heldBy(r.Name, file))
		}
	}
	if err == nil {
		l.opts.step("flocked")
	}
	return lock, err
}

// heldBy is the status of a lock that was held a moment ago.
func (l *Locks) heldBy(name, file string) Status {
	s := l.status(name, file, l.opts.Now())
	if s.State == StateFree {
		s.State, s.Why = StateHeld, "it was given back a moment ago, or is just being taken"
	}
	return s
}

// Poll intervals for an agent's own lock that blocks a grant: the end of such a lock is not signalled.
const (
	rivalPollMin = 50 * time.Millisecond
	rivalPollMax = 500 * time.Millisecond
)

// grant turns the kernel lock into a grant: it enters the mirror, assigns a fencing token and writes the record. If it
// returns no Held, the caller still owns the kernel lock.
func (l *Locks) grant(ctx context.Context, file string, lock *flockHandle, r Request) (*Held, *protocol.Rival, error) {
	old, ceiling, err := l.folder.read(r.Name, file) // does not recreate a folder that was removed during the wait
	if errors.Is(err, ErrDamaged) {
		return nil, nil, fmt.Errorf("%w (steward lock break %s --project %s goes on above every number seen)", err,
			terminal.ShellQuote(r.Name), terminal.ShellQuote(l.folder.dir))
	}
	if err != nil {
		return nil, nil, err
	}
	ctx = context.WithoutCancel(ctx) // the rest is short and must run to completion
	now := l.opts.Now()
	rec := record{Name: r.Name, Fence: old.next(ceiling, now), Agent: r.Agent, Process: l.procs.self, Host: l.procs.host,
		Command: truncated(r.Command), Acquired: now.UTC(), TTL: r.TTL.Seconds()}
	if rec.Fence >= maxFence {
		return nil, nil, fmt.Errorf("%w: its numbers are used up", ErrDamaged)
	}
	h := &Held{locks: l, file: file, lock: lock, rec: rec, seen: ceiling}
	rival, err := l.mirror.Claim(ctx, h.entry(now), now)
	if rival != nil || err != nil {
		return nil, rival, err
	}
	l.opts.step("claimed")
	if err := l.folder.write(file, rec, ceiling); err != nil {
		return nil, nil, errors.Join(err, h.drop(ctx))
	}
	h.seen = max(ceiling, rec.Fence)
	l.opts.step("recorded")
	return h, nil, nil
}

// entry is the mirror's entry for the lock, valid for one TTL from now.
func (h *Held) entry(now time.Time) protocol.Lock {
	return protocol.Lock{Resource: h.rec.Name, Holder: h.rec.Agent, Process: protocol.Identity(h.rec.Process),
		Acquired: h.rec.Acquired, Expires: now.Add(h.rec.ttl()), Fence: h.rec.Fence}
}

// Renew extends the mirror's entry by the TTL; call it every half TTL. It returns an agent's own lock that has replaced
// the entry: that agent does not have the kernel lock, but may not know it.
func (h *Held) Renew(ctx context.Context) (*protocol.Rival, error) {
	now := h.locks.opts.Now()
	return h.locks.mirror.Renew(ctx, h.entry(now), now)
}

func (h *Held) drop(ctx context.Context) error {
	return h.locks.mirror.Drop(ctx, h.entry(time.Time{}), h.locks.opts.Now())
}

// Release releases the lock. It first removes the mirror's entry, if that is still this holder's. The lock is free even
// on error.
func (h *Held) Release(ctx context.Context) error {
	h.locks.opts.step("releasing")
	err := h.drop(ctx)
	h.locks.opts.step("dropped")
	if h.replacement != nil {
		err = errors.Join(err, h.replacement.Unlock())
	}
	if err := errors.Join(err, h.lock.Unlock()); err != nil {
		return fmt.Errorf("give the lock %q back: %w", h.rec.Name, err)
	}
	return nil
}
