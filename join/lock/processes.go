package lock

import (
	"errors"
	"slices"

	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol/jsonfile"
)

// processes finds the processes that hold a lock.
type processes struct {
	self    proc.Identity // without an identity the record proves nothing
	host    string
	ofFlock func(path string) ([]proc.Identity, error) // Options.Holders
}

// holding says whether a lock is held, and by which processes.
type holding struct {
	yes, sure, left bool
	by              []proc.Identity
}

// holders finds the holders of a lock. It asks the kernel; where that is not conclusive, it checks the record's own
// processes, if they ran on this machine. Holders of another user or on another machine may be invisible.
func (p *processes) holders(rec record, path string) holding {
	by, err := p.ofFlock(path)
	here := rec.Host == p.host
	switch {
	case err == nil && len(by) > 0:
		left := here && rec.Process.PID != 0 && !slices.ContainsFunc(by, func(id proc.Identity) bool { return same(id, rec.Process) })
		return holding{yes: true, sure: true, left: left, by: by}
	case errors.Is(err, jsonfile.ErrNotExist), !here:
		return holding{sure: here}
	case err == nil && rec.Process.UID == p.self.UID, p.self.UID == 0 && err == nil:
		return holding{sure: true}
	}
	var living []proc.Identity
	for _, id := range []proc.Identity{rec.Process, rec.Child} {
		if id.PID != 0 && proc.Check(id) != proc.Gone {
			living = append(living, id)
		}
	}
	return holding{yes: len(living) > 0, sure: err == nil, by: living}
}

// waitsForItself reports whether the holder is an ancestor of this process: the wait would never end.
func (p *processes) waitsForItself(s Status) bool {
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

// sharers lists the processes that share a lock with this one. Only processes that started after this one can.
func (p *processes) sharers(path string) []proc.Identity {
	table, err := proc.Table()
	if err != nil {
		return nil // the kernel keeps the lock for them anyway
	}
	var pids []int
	for _, r := range table {
		if r.PID != p.self.PID && r.Start >= p.self.Start && !r.Zombie {
			pids = append(pids, r.PID)
		}
	}
	held, _ := proc.FlockHoldersAmong(path, pids)
	return held
}

func same(a, b proc.Identity) bool { return a.PID == b.PID && a.Start == b.Start && a.Boot == b.Boot }
