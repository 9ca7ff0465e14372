package supervisor

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor/decide"
)

// gauges holds the last readings of the machine.
type gauges struct {
	load     capacity.Load
	usage    []capacity.Usage // of the agents' processes
	surveyed time.Time        // when usage was measured
	needed   bool             // a task is open or an agent's process is recorded, so readings decide something
}

// machineInUse is what the gauges need to know of the projects: their snapshots, and who the agents' processes are.
type machineInUse struct {
	snapshots iter.Seq[*protocol.Snapshot]
	memory    *decide.Memory
}

// sample reads the gauges; the usage of processes only when it is due.
func (g *gauges) sample(deps *Deps, used machineInUse, now time.Time) {
	g.load = deps.Measure(now)
	if since := now.Sub(g.surveyed); since < 0 || since >= decide.UsageEvery {
		g.surveyed, g.usage = now, nil
		if roots := used.roots(); len(roots) > 0 {
			g.usage = deps.Usage(roots, now)
		}
	}
	g.nameAgents(used)
}

// nameConsumers finds the largest consumers for the notices while a task is open: reservations may shut the gate long before
// the readings come near the limit, where the gauge names consumers anyway.
func (g *gauges) nameConsumers(deps *Deps, used machineInUse) {
	if len(g.load.Consumers) == 0 && !g.load.At.IsZero() {
		g.load.Consumers = deps.Consumers()
		g.nameAgents(used)
	}
}

// nameAgents names the agents of the largest consumers.
func (g *gauges) nameAgents(used machineInUse) {
	for i := range g.load.Consumers {
		if c := &g.load.Consumers[i]; c.Root > 0 {
			c.Agent = used.agentOf(c.Root)
		}
	}
}

// every is the interval of the gauges. The short interval near the limit applies only while tasks wait. While readings decide
// nothing the interval is long: new work triggers a sample of its own.
func (g *gauges) every(cfg capacity.Config, tasksWait bool, now time.Time) time.Duration {
	if e := g.load.Exhausted; e > 0 && e < decide.FilesWatched {
		return cfg.SampleNear
	}
	if !tasksWait {
		cfg.SampleNear = cfg.SampleEvery
	}
	return cfg.SampleIn(g.load.Fresh(now), !g.needed)
}

// filesRunOut reports whether open files run out so soon that a reading calls for a decision.
func (g *gauges) filesRunOut() bool {
	return g.load.Exhausted > 0 && g.load.Exhausted < decide.FilesSoon
}

// processesOf lists the recorded processes of an agent: its own, the one that proved itself, and others under its name.
func (u machineInUse) processesOf(snap *protocol.Snapshot, a *protocol.Agent) []protocol.Identity {
	return append([]protocol.Identity{a.Process, u.memory.Agents.Of(snap.Subject(protocol.KindAgent, a.Name)).Proven}, a.Others...)
}

// agentOf is the agent of a process; "" if it belongs to none.
func (u machineInUse) agentOf(pid int) string {
	is := func(id protocol.Identity) bool { return id.PID == pid }
	for snap := range u.snapshots {
		for j := range snap.Agents {
			if slices.ContainsFunc(u.processesOf(snap, &snap.Agents[j]), is) {
				return snap.Agents[j].Name
			}
		}
		for j := range snap.Tasks {
			if slices.ContainsFunc(snap.Tasks[j].Workers, is) {
				return snap.Tasks[j].Agent
			}
		}
	}
	return ""
}

// roots are the processes below which agents and their work run, each once, in a fixed order.
func (u machineInUse) roots() []protocol.Identity {
	var list []protocol.Identity
	for snap := range u.snapshots {
		for j := range snap.Agents {
			list = append(list, u.processesOf(snap, &snap.Agents[j])...)
		}
		for j := range snap.Tasks {
			list = append(list, snap.Tasks[j].Workers...)
		}
	}
	list = slices.DeleteFunc(list, func(id protocol.Identity) bool { return !id.Proves() })
	slices.SortFunc(list, compareIdentities)
	return slices.Compact(list)
}

func compareIdentities(a, b protocol.Identity) int {
	return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.Start, b.Start), cmp.Compare(a.Boot, b.Boot), cmp.Compare(a.UID, b.UID))
}

// hasRecorded reports whether the process of an agent or of its work is on record. A pid that only a file names may be
// any user's shell, even if it has lived as long as the agent: its usage is measured at the slow pace.
func (u machineInUse) hasRecorded() bool {
	for snap := range u.snapshots {
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
