package supervisor

import (
	"cmp"
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor/decide"
)

// survey measures the usage of the agents' processes when that is due.
func (s *loop) survey(now time.Time) {
	if since := now.Sub(s.surveyed); since >= 0 && since < decide.UsageEvery {
		return
	}
	s.surveyed, s.usage = now, nil
	if roots := s.roots(); len(roots) > 0 {
		s.usage = s.deps.Usage(roots, now)
	}
}

// nameConsumers finds the largest consumers for the notices while a task is open: reservations may shut the gate long before
// the readings come near the limit, where the gauge names consumers anyway.
func (s *loop) nameConsumers() {
	if len(s.load.Consumers) > 0 || s.load.At.IsZero() {
		return
	}
	for _, d := range s.projects {
		if d.hasWork() {
			s.load.Consumers = s.deps.Consumers()
			s.attribute()
			return
		}
	}
}

// attribute names the agents of the largest consumers.
func (s *loop) attribute() {
	for i := range s.load.Consumers {
		if c := &s.load.Consumers[i]; c.Root > 0 {
			c.Agent = s.agentOf(c.Root)
		}
	}
}

// agentOf is the agent of a process; "" if it belongs to none.
func (s *loop) agentOf(pid int) string {
	for _, name := range s.names() {
		for i := range s.projects[name].snapshots {
			snap := &s.projects[name].snapshots[i]
			for j := range snap.Agents {
				a := &snap.Agents[j]
				if a.Process.PID == pid || s.memory.Agents.Of(snap.Subject(protocol.KindAgent, a.Name)).Proven.PID == pid {
					return a.Name
				}
			}
			for j := range snap.Tasks {
				t := &snap.Tasks[j]
				if slices.ContainsFunc(t.Workers, func(id protocol.Identity) bool { return id.PID == pid }) {
					return t.Agent
				}
			}
		}
	}
	return ""
}

// roots are the processes below which agents and their work run, each once, in a fixed order.
func (s *loop) roots() []protocol.Identity {
	list := slices.Collect(s.known)
	slices.SortFunc(list, func(a, b protocol.Identity) int {
		return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.Start, b.Start), cmp.Compare(a.Boot, b.Boot), cmp.Compare(a.UID, b.UID))
	})
	return slices.Compact(list)
}

// hasRecorded reports whether the process of an agent or of its work is on record. A pid that only a file names may be
// anybody's shell, even if it has lived as long as the agent: its usage is measured at the slow pace.
func (s *loop) hasRecorded() bool {
	proves := func(id protocol.Identity) bool { return id.Proves() }
	for _, d := range s.projects {
		for i := range d.snapshots {
			snap := &d.snapshots[i]
			for j := range snap.Agents {
				if a := &snap.Agents[j]; a.Process.Proves() || slices.ContainsFunc(a.Others, proves) {
					return true
				}
			}
			for j := range snap.Tasks {
				if slices.ContainsFunc(snap.Tasks[j].Workers, proves) {
					return true
				}
			}
		}
	}
	return false
}

// known iterates over the processes of agents and of their work, some of them more than once.
func (s *loop) known(yield func(protocol.Identity) bool) {
	for _, d := range s.projects {
		for i := range d.snapshots {
			snap := &d.snapshots[i]
			for j := range snap.Agents {
				a := &snap.Agents[j]
				ids := [...]protocol.Identity{a.Process, s.memory.Agents.Of(snap.Subject(protocol.KindAgent, a.Name)).Proven}
				if !each(ids[:], yield) || !each(a.Others, yield) {
					return
				}
			}
			for j := range snap.Tasks {
				if !each(snap.Tasks[j].Workers, yield) {
					return
				}
			}
		}
	}
}

// each iterates over the processes with a proven identity.
func each(ids []protocol.Identity, yield func(protocol.Identity) bool) bool {
	for _, id := range ids {
		if id.Proves() && !yield(id) {
			return false
		}
	}
	return true
}
