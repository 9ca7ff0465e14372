package supervisor

import (
	"cmp"
	"slices"
	"time"

	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor/decide"
)

// crossCheck is how often watched processes are checked while their project has no open work. It limits how late a
// stopped (not exited) process is noticed.
const crossCheck = 15 * time.Second

// processWatch are the watched processes of one project.
type processWatch struct {
	states  map[protocol.Identity]heartbeat.ProcessState
	named   map[int]protocol.Identity // the process behind a pid that only a file names; the bare pid if none exists
	checked time.Time                 // when all processes were last checked
}

// follow watches the processes of a project's agents, of their work and of those that hold locks granted by steward. It
// checks each of them again now and then: the exit watch is fast, the check is reliable. trust: a process that lived at the
// last check counts as alive until its exit is reported.
func (w *processWatch) follow(deps *Deps, snapshots []protocol.Snapshot, memory *decide.Memory, trust bool) {
	old := *w
	w.states, w.named = map[protocol.Identity]heartbeat.ProcessState{}, map[int]protocol.Identity{}
	want := func(ids ...protocol.Identity) {
		for _, id := range ids {
			if _, asked := w.states[id]; !asked { // one worker may have many tasks
				w.states[id] = old.check(deps, id, trust)
			}
		}
	}
	for i := range snapshots {
		snap := &snapshots[i]
		for j := range snap.Agents {
			a := &snap.Agents[j]
			want(decide.Beside(a)...)
			id := heartbeat.Watch(*a, memory.Agents.Of(snap.Subject(protocol.KindAgent, a.Name)))
			if id.PID == 0 {
				continue
			}
			if !id.Proves() {
				pid := id.PID
				id = old.process(deps, pid)
				w.named[pid] = id
			}
			want(id)
		}
		for j := range snap.Tasks {
			want(snap.Tasks[j].Workers...)
		}
		for j := range snap.Locks {
			if l := &snap.Locks[j]; !l.Kernel && l.Process.Proves() { // kernel locks are only shown
				want(l.Process)
			}
		}
	}
}

// process finds the process behind a pid that only a file names. It is looked up once.
func (w *processWatch) process(deps *Deps, pid int) protocol.Identity {
	if id, known := w.named[pid]; known {
		return id
	}
	if id, ok := deps.Inspect(pid); ok && id.PID == pid && id.Proves() {
		return id
	}
	return protocol.Identity{PID: pid}
}

// check returns the state of a process, and begins to watch one that is new.
func (w *processWatch) check(deps *Deps, id protocol.Identity, trust bool) heartbeat.ProcessState {
	old, known := w.states[id]
	if !id.Proves() || old == heartbeat.ProcessGone {
		return heartbeat.ProcessGone
	}
	if trust && old == heartbeat.ProcessAlive {
		return old
	}
	if state := deps.Check(id); known || state == heartbeat.ProcessGone {
		return state
	}
	deps.Follow(id)
	return deps.Check(id) // it may have exited before the watch began
}

// list gives the watched processes for a decision.
func (w *processWatch) list() (list []decide.Process) {
	for id, state := range w.states {
		_, named := w.named[id.PID]
		list = append(list, decide.Process{Identity: id, State: state, Claimed: named})
	}
	return list
}

func compareProcesses(a, b decide.Process) int {
	return cmp.Or(compareIdentities(a.Identity, b.Identity), cmp.Compare(a.State, b.State))
}

// provesPresence reports whether the process belongs to a protocol that proves presence itself. Only another scan can tell
// what its exit means.
func provesPresence(snapshots []protocol.Snapshot, id protocol.Identity) bool {
	return slices.ContainsFunc(snapshots, func(s protocol.Snapshot) bool {
		return slices.ContainsFunc(s.Agents, func(a protocol.Agent) bool { return a.Process == id && a.Presence != protocol.PresenceUnproved })
	})
}

// endings are the hung agents whose processes steward ended, with the start of the hang.
type endings map[protocol.Subject]time.Time

// remaining lists the processes of a plan that are still to be ended, once per hang. An end is remembered until the agent is
// judged again or forgotten; a decision without its project says nothing about it. A steward that starts in between orders
// the end again, and finds the ended processes gone.
func (e endings) remaining(plan decide.Plan) []decide.End {
	for subject, since := range e {
		v, judged := plan.Agents.Find(subject)
		_, known := plan.Memory.Agents.Find(subject)
		if judged && (v.State != protocol.AgentHung || !v.Since.Equal(since)) || !known {
			delete(e, subject)
		}
	}
	return slices.DeleteFunc(slices.Clone(plan.Ends), func(end decide.End) bool {
		_, done := e[end.Subject]
		return done
	})
}
