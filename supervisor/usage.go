package supervisor

import (
	"cmp"
	"iter"
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
	if roots := roots(s.scanned(), &s.memory); len(roots) > 0 {
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
			c.Agent = agentOfProcess(c.Root, s.scanned(), &s.memory)
		}
	}
}

// scanned iterates over the snapshots of all projects, in the order of their names.
func (s *loop) scanned() iter.Seq[*protocol.Snapshot] {
	return func(yield func(*protocol.Snapshot) bool) {
		for _, name := range s.names() {
			list := s.projects[name].snapshots
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}

// agentOfProcess is the agent of a process; "" if it belongs to none.
func agentOfProcess(pid int, snapshots iter.Seq[*protocol.Snapshot], m *decide.Memory) string {
	for snap := range snapshots {
		for j := range snap.Agents {
			a := &snap.Agents[j]
			if a.Process.PID == pid || m.Agents.Of(snap.Subject(protocol.KindAgent, a.Name)).Proven.PID == pid {
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
	return ""
}

// roots are the processes below which agents and their work run, each once, in a fixed order.
func roots(snapshots iter.Seq[*protocol.Snapshot], m *decide.Memory) []protocol.Identity {
	var list []protocol.Identity
	add := func(ids ...protocol.Identity) {
		for _, id := range ids {
			if id.Proves() {
				list = append(list, id)
			}
		}
	}
	for snap := range snapshots {
		for j := range snap.Agents {
			a := &snap.Agents[j]
			add(a.Process, m.Agents.Of(snap.Subject(protocol.KindAgent, a.Name)).Proven)
			add(a.Others...)
		}
		for j := range snap.Tasks {
			add(snap.Tasks[j].Workers...)
		}
	}
	slices.SortFunc(list, func(a, b protocol.Identity) int {
		return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.Start, b.Start), cmp.Compare(a.Boot, b.Boot), cmp.Compare(a.UID, b.UID))
	})
	return slices.Compact(list)
}

// hasRecorded reports whether the process of an agent or of its work is on record. A pid that only a file names may be
// anybody's shell, even if it has lived as long as the agent: its usage is measured at the slow pace.
func hasRecorded(snapshots iter.Seq[*protocol.Snapshot]) bool {
	for snap := range snapshots {
		for j := range snap.Agents {
			if a := &snap.Agents[j]; a.Process.Proves() || slices.ContainsFunc(a.Others, protocol.Identity.Proves) {
				return true
			}
		}
		for j := range snap.Tasks {
			if slices.ContainsFunc(snap.Tasks[j].Workers, protocol.Identity.Proves) {
				return true
			}
		}
	}
	return false
}
