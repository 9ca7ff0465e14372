package supervisor

import (
	"maps"
	"time"

	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor/decide"
)

// crossCheck is how often processes that were found alive are looked at, although their exit is watched, while there is
// no work in their project. It bounds how late it is seen that one was stopped.
const crossCheck = 15 * time.Second

// followAgents keeps the watch on the processes that speak for a project's agents, and now and then looks at each of
// them once more: the exit watch is quick, this cross-check is sure.
func (s *loop) followAgents(d *projectState) {
	now := s.now()
	since := now.Sub(d.checked)
	if d.trusts = !d.hasWork() && since >= 0 && since < crossCheck-s.cfg.LookEvery/2; !d.trusts {
		d.checked = now
	}
	wanted, claims := map[protocol.Identity]heartbeat.ProcessState{}, map[int]protocol.Identity{}
	want := func(id protocol.Identity) {
		if _, asked := wanted[id]; !asked { // one worker may be at many tasks
			wanted[id] = s.lookAfter(d, id)
		}
	}
	for i := range d.snapshots {
		snap := &d.snapshots[i]
		for j := range snap.Agents {
			a := &snap.Agents[j]
			for _, id := range decide.Beside(a) {
				want(id)
			}
			id := heartbeat.Watch(*a, s.memory.Agents.Of(snap.Subject(protocol.KindAgent, a.Name)))
			if id.PID == 0 {
				continue
			}
			if !id.Proves() {
				pid := id.PID
				id = s.claimed(d, pid)
				claims[pid] = id
			}
			want(id)
		}
		for j := range snap.Tasks {
			for _, id := range snap.Tasks[j].Workers {
				want(id)
			}
		}
	}
	s.followLocks(d, wanted)
	if !maps.Equal(d.processes, wanted) || !maps.Equal(d.claims, claims) {
		s.processes = nil
	}
	d.processes, d.claims = wanted, claims
}

// claimed gives who carries a pid that only a file names: looked up once.
func (s *loop) claimed(d *projectState, pid int) protocol.Identity {
	if id, known := d.claims[pid]; known {
		return id
	}
	if id, ok := s.deps.Inspect(pid); ok && id.PID == pid && id.Proves() {
		return id
	}
	return protocol.Identity{PID: pid}
}

func (s *loop) lookAfter(d *projectState, id protocol.Identity) heartbeat.ProcessState {
	old, known := d.processes[id]
	if !id.Proves() || old == heartbeat.ProcessGone {
		return heartbeat.ProcessGone
	}
	if d.trusts && old == heartbeat.ProcessAlive {
		return old
	}
	if state := s.deps.Check(id); known || state == heartbeat.ProcessGone {
		return state
	}
	s.deps.Follow(id)
	return s.deps.Check(id) // it may have ended before it was followed
}

// speaksOf reports whether a protocol that proves presence itself names the process: only another look can tell what
// its end means.
func speaksOf(d *projectState, id protocol.Identity) bool {
	for i := range d.snapshots {
		for _, a := range d.snapshots[i].Agents {
			if a.Process == id && a.Presence != protocol.PresenceUnproved {
				return true
			}
		}
	}
	return false
}

// exited applies that a watched process has ended.
func (s *loop) exited(id protocol.Identity) {
	known := false
	for _, d := range s.projects {
		if _, ok := d.processes[id]; ok {
			d.processes[id], s.processes = heartbeat.ProcessGone, nil
			known = true
			d.full = d.full || speaksOf(d, id)
		}
	}
	if known {
		s.decide()
	}
}

// followLocks keeps the watch on the processes that hold locks which steward has granted: their end frees the lock at
// once. Locks of the kernel alone are only shown.
func (s *loop) followLocks(d *projectState, wanted map[protocol.Identity]heartbeat.ProcessState) {
	for i := range d.snapshots {
		for _, l := range d.snapshots[i].Locks {
			if l.Kernel || !l.Process.Proves() {
				continue
			}
			if _, known := wanted[l.Process]; !known {
				wanted[l.Process] = s.lookAfter(d, l.Process)
			}
		}
	}
}
