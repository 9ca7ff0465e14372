package supervisor

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor/decide"
)

// crossCheck is how often watched processes are checked while their project has no open work. It limits how late a
// stopped (not exited) process is noticed.
const crossCheck = 15 * time.Second

// followAgents watches the processes of a project's agents, and checks each of them again now and then: the exit watch
// is fast, the check is reliable.
func (s *loop) followAgents(d *projectState) {
	now := s.now()
	since := now.Sub(d.checked)
	if d.trusts = !d.hasWork() && since >= 0 && since < crossCheck-s.cfg.LookEvery/2; !d.trusts {
		d.checked = now
	}
	wanted, claims := map[protocol.Identity]heartbeat.ProcessState{}, map[int]protocol.Identity{}
	want := func(id protocol.Identity) {
		if _, asked := wanted[id]; !asked { // one worker may have many tasks
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

// claimed finds the process behind a pid that only a file names. It is looked up once.
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
	return s.deps.Check(id) // it may have exited before the watch began
}

// speaksOf reports whether the process belongs to a protocol that proves presence itself. Only another scan can tell
// what its exit means.
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

// exited records that a watched process has exited.
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

// followLocks watches the processes that hold locks granted by steward, so that their exit releases the lock at once.
// Kernel locks are only shown.
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

// toEnd lists the processes of the plan that are still to be ended, once per hang. An end is remembered until the agent is
// judged again or forgotten; a decision without its project says nothing about it. A steward that starts in between orders
// the end again, and finds the ended processes gone.
func (s *loop) toEnd(plan decide.Plan) []decide.End {
	for subject, since := range s.ended {
		v, judged := plan.Agents.Find(subject)
		_, known := plan.Memory.Agents.Find(subject)
		if judged && (v.State != protocol.AgentHung || !v.Since.Equal(since)) || !known {
			delete(s.ended, subject)
		}
	}
	return slices.DeleteFunc(slices.Clone(plan.Ends), func(e decide.End) bool {
		_, done := s.ended[e.Subject]
		return done
	})
}

// endHung has the hung processes ended, and notes each end first. The memory is on disk by then.
func (s *loop) endHung(list []decide.End) {
	for _, e := range list {
		if s.ended == nil {
			s.ended = map[protocol.Subject]time.Time{}
		}
		s.ended[e.Subject] = e.Since
		for _, id := range e.Roots {
			s.deps.Note(Entry{At: s.now(), Kind: "change", Subject: e.Subject, Verb: "end", State: string(protocol.AgentHung), Reason: string(protocol.ReasonSilent),
				Text: fmt.Sprintf("process %d and all below it are ended: %s", id.PID, e.Why)})
			s.log.Warn("ending a hung agent", "subject", e.Subject.String(), "pid", id.PID, "why", e.Why)
			s.deps.Stop(id, e.Why)
		}
	}
}
