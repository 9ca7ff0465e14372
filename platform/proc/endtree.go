package proc

import (
	"context"
	"fmt"
	"os"
	"time"
)

// EndTree's poll interval: short at first, because most processes end immediately after SIGTERM.
const (
	treeSoon = 5 * time.Millisecond
	treeSlow = 100 * time.Millisecond
)

// EndTree ends the processes that descend from root or bear the mark. It sends SIGTERM, waits up to grace, and then sends SIGKILL. It rescans
// until no process of the tree lives, so it also finds processes that fork meanwhile or lose their parents. Each
// identity is checked again before a signal. Process 1 and this process are spared. This process's descendants are
// spared too, even if this process bears the mark, unless it is root: then they end. EndTree gives up 10 s after the
// first SIGKILL, or earlier if only processes remain that it may not signal. It returns how many processes have ended
// and how many still live; the error is that of the scan, or ctx's.
func EndTree(ctx context.Context, root Identity, mark string, grace time.Duration) (ended, left int, err error) {
	e := ending{root: root, mark: mark, asked: map[Identity]string{}, killed: map[Identity]string{}, spared: map[Identity]bool{}, known: map[Identity]bool{}}
	left, err = e.run(ctx, grace)
	if err != nil {
		err = fmt.Errorf("end process tree: %w", err)
	}
	return e.ended(), left, err
}

// ending is the state of one EndTree call.
type ending struct {
	root          Identity
	mark          string
	asked, killed map[Identity]string // the name at the time of the signal
	spared        map[Identity]bool
	known         map[Identity]bool // found in the tree in an earlier scan
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
	all, err := descendants(e.root, e.mark, e.known)
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

// signal signals the processes found, and reports whether any of them was signalled for the first time. A process
// that rejects its SIGKILL is spared from then on.
func (e *ending) signal(found []Process, kill bool) (fresh bool) {
	done, sig := e.asked, "SIGTERM"
	if kill {
		done, sig = e.killed, "SIGKILL"
	}
	for _, p := range found {
		// A shell's child may swallow a signal before it execs another program: after a change of name signal it
		// again.
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

// ended counts the processes that were signalled and are gone.
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
