package status

import (
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
)

// Granted is a lock that steward lock run holds: the kernel knows it, and no agent's file needs to list it.
type Granted struct {
	supervisor.LockReport
	Since time.Time
	// Waiting returns the processes that wait for the lock now; nil if unknown.
	Waiting func() []LockWaiter
}

// LockWaiter is a process that waits for a lock.
type LockWaiter struct {
	PID     int      `json:"pid"`
	Command []string `json:"command,omitempty"` // truncated
}

// mirrors reports whether an entry in an agent's file describes this lock: the same name and holder (protocol 001).
func (g *Granted) mirrors(l *supervisor.LockReport) bool {
	return l.Project == g.Project && l.Resource == g.Resource && l.Holder == g.Holder
}

func (g *Granted) subject() protocol.Subject {
	return protocol.Subject{Project: g.Project, Protocol: g.Protocol, Kind: protocol.KindLock, ID: g.Resource}
}

// WithGranted appends the granted locks to those of the files, without duplicates.
func WithGranted(locks []supervisor.LockReport, granted []Granted) []supervisor.LockReport {
	all := slices.Clone(locks)
	for i := range granted {
		g := &granted[i]
		if !slices.ContainsFunc(locks, func(l supervisor.LockReport) bool { return g.mirrors(&l) }) {
			all = append(all, g.LockReport)
		}
	}
	return all
}

func (s *Server) granted(p *supervisor.State) []Granted {
	if s.Granted == nil {
		return nil
	}
	return s.Granted(p)
}

// grantedTo lists the granted locks that match a query, without those that an agent's file mirrors.
func (s *Server) grantedTo(p *supervisor.State, q protocol.Query) []protocol.Subject {
	if q.Kind != "" && q.Kind != protocol.KindLock {
		return nil
	}
	var found []protocol.Subject
	granted := s.granted(p)
	for i := range granted {
		g := &granted[i]
		if q.Matches(g.subject()) && !slices.ContainsFunc(report(p).Locks, func(l supervisor.LockReport) bool { return g.mirrors(&l) }) {
			found = append(found, g.subject())
		}
	}
	return found
}

// showGranted sets the verdict on a granted lock and its evidence. If an entry of an agent's file mirrors a granted
// lock, it adds what only the kernel knows: the waiting processes.
func (e *Explanation) showGranted(subject protocol.Subject, granted []Granted) {
	for i := range granted {
		g := &granted[i]
		switch {
		case g.subject() == subject:
			e.Lock = &g.LockReport
			e.LockEvidence = &LockEvidence{Holder: g.Holder, Process: g.PID, Acquired: instant(g.Since), Expires: g.Expires}
		case e.Lock == nil || e.LockEvidence == nil || !g.mirrors(e.Lock):
			continue
		}
		if g.Waiting != nil {
			e.LockEvidence.Waiting = g.Waiting()
		}
		return
	}
}
