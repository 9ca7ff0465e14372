package daemon

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/livhana/steward/join/lock"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/supervisor"
)

// RealLocks is shown instead of a protocol for the locks that no agent's file mentions and the kernel holds.
const RealLocks = "steward"

// grantedTime bounds how long a reply waits for the disks that hold the locks.
const grantedTime = time.Second

// grants finds the locks that `steward lock run` holds in the projects.
type grants struct{ places sync.Map } // of *lockPlace by the project's path

// lockPlace is a project's locks. Only one read is under way at a time: on a disk that hangs it may never end.
type lockPlace struct {
	*lock.Locks
	turn chan struct{}
	last atomic.Pointer[[]lock.Status]
}

// list returns the locks held now. If a project's disk does not answer in time, it returns the last read. If a
// project's locks cannot be read, it leaves them out: `steward lock list` reports the problem.
func (g *grants) list(p *supervisor.State) []status.Granted {
	ctx, cancel := context.WithTimeout(context.Background(), grantedTime)
	defer cancel()
	var found []status.Granted
	for _, d := range p.Projects {
		place := g.place(d.Path)
		for _, s := range place.held(ctx) {
			found = append(found, status.Granted{LockReport: grantedReport(d.Name, s), Since: s.Since, Waiting: func() []status.LockWaiter {
				return place.waiting(s.Name)
			}})
		}
	}
	return found
}

func (g *grants) place(dir string) *lockPlace {
	place, _ := g.places.LoadOrStore(dir, &lockPlace{Locks: lock.Open(dir, lock.Options{Now: time.Now}), turn: make(chan struct{}, 1)})
	return place.(*lockPlace)
}

func (l *lockPlace) held(ctx context.Context) []lock.Status {
	read := make(chan struct{})
	select {
	case l.turn <- struct{}{}:
		go func() {
			defer close(read)
			list, _ := l.Held()
			l.Close() // an open file would keep a disk from being unmounted
			l.last.Store(&list)
			<-l.turn
		}()
	case <-ctx.Done():
	}
	select {
	case <-read:
	case <-ctx.Done():
	}
	if last := l.last.Load(); last != nil {
		return *last
	}
	return nil
}

func (l *lockPlace) waiting(name string) []status.LockWaiter {
	waiting, err := l.Waiting(name)
	if err != nil {
		return nil
	}
	list := []status.LockWaiter{}
	for _, w := range waiting {
		list = append(list, status.LockWaiter(w))
	}
	return list
}

func grantedReport(project string, s lock.Status) supervisor.LockReport {
	l := supervisor.LockReport{Project: project, Protocol: RealLocks, Resource: s.Name, Holder: s.Agent, State: protocol.LockHeld, Why: "steward lock run"}
	if s.State == lock.StateOverdue {
		l.State = protocol.LockOverdue
	}
	if len(s.Command) > 0 {
		l.Why += " -- " + terminal.OneWord(strings.Join(s.Command, " "))
	}
	if s.Why != string(lock.StateHeld) {
		l.Why += "; " + s.Why
	}
	if s.PID != 0 {
		l.PID = &s.PID
	}
	if !s.Since.IsZero() {
		at := s.Since.UTC()
		l.Acquired = &at
	}
	if !s.Expires.IsZero() {
		at := s.Expires.UTC()
		l.Expires = &at
	}
	return l
}
