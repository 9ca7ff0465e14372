package proc

import (
	"context"
	"fmt"
	"os"
	"time"
)

// How often EndTree looks while it waits: soon at first, for most processes end at once when they are asked.
const (
	treeSoon = 5 * time.Millisecond
	treeSlow = 100 * time.Millisecond
)

// EndTree ends what Tree finds: a request to end (SIGTERM), up to grace to follow it, then SIGKILL, and it looks anew
// until nothing of the tree lives, so that processes which fork meanwhile are found too, and those that lose their
// parents by it. Each identity is proved again before its signal. Process 1 and this process itself are spared. So are
// this one's descendants, even if it bears the mark, unless it is root: then they end. It gives up on what still lives
// 10 s after the first SIGKILL, and at once on what it may not signal when nothing else is left. Returns how many have ended and how many still live; the error is of looking, or ctx's.
func EndTree(ctx context.Context, root Identity, mark string, grace time.Duration) (ended, left int, err error) {
	e := ending{root: root, mark: mark, asked: map[Identity]string{}, killed: map[Identity]string{}, spared: map[Identity]bool{}, known: map[Identity]bool{}}
	left, err = e.run(ctx, grace)
	if err != nil {
		err = fmt.Errorf("end process tree: %w", err)
	}
	return e.ended(), left, err
}

// ending is one EndTree at work.
type ending struct {
	root          Identity
	mark          string
	asked, killed map[Identity]string // the name it had then
	spared        map[Identity]bool
	known         map[Identity]bool // found in the tree once
}

func (e *ending) run(ctx context.Context, grace time.Duration) (left int, err error) {
	kill, over := time.Now().Add(grace), time.Now().Add(grace+killWait)
	pause := treeSoon
	for {
		found, err := e.find()
		if err != nil || len(found) == 0 {
			return 0, err
		}
		now := time.Now()
		fresh := e.signal(found, !now.Before(kill))
		if !now.Before(over) || len(e.spared) >= len(found) && e.onlySpared(found) {
			return len(found), nil
		}
		if fresh {
			pause = treeSoon
		}
		if now.Before(kill) {
			pause = min(pause, kill.Sub(now))
		}
		if err := sleep(ctx, pause); err != nil {
			return len(found), err
		}
		pause = min(2*pause, treeSlow)
	}
}

func (e *ending) find() ([]Process, error) {
	all, err := treeWith(e.root, e.mark, e.known)
	if err != nil {
		return nil, err
	}
	self := os.Getpid()
	found := all[:0]
	for _, p := range all {
		if p.PID != self {
			found = append(found, p)
			e.known[p.Identity] = true
		}
	}
	return found, nil
}

// signal reports whether any got one for the first time. One that may not be signalled is spared from then on.
func (e *ending) signal(found []Process, kill bool) (fresh bool) {
	done, sig := e.asked, "SIGTERM"
	if kill {
		done, sig = e.killed, "SIGKILL"
	}
	for _, p := range found {
		// A shell's child may swallow a signal before it becomes another program: that one is asked again.
		if name, ok := done[p.Identity]; ok && name == p.Name {
			continue
		}
		done[p.Identity], fresh = p.Name, true
		if Signal(p.Identity, sig) != nil && kill {
			e.spared[p.Identity] = true
		}
	}
	return fresh
}

func (e *ending) onlySpared(found []Process) bool {
	for _, p := range found {
		if !e.spared[p.Identity] {
			return false
		}
	}
	return true
}

// ended counts those that were signalled and are gone.
func (e *ending) ended() int {
	n := 0
	for id, name := range e.killed {
		e.asked[id] = name
	}
	for id := range e.asked {
		if Check(id) == Gone {
			n++
		}
	}
	return n
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
