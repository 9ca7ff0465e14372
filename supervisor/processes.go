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
	// exited are processes that have exited, and that still count as before: until a full scan that began later, the files
	// may lack what a process wrote just before its end. True: a scan is under way that began earlier.
	// See docs/decisions.md, "An exit counts with the scan that follows it".
	exited map[protocol.Identity]bool
}

// exit records that a process in this state has exited, and reports whether a scan must follow.
func (w *processWatch) exit(id protocol.Identity, busy bool, state heartbeat.ProcessState) bool {
	if state == heartbeat.ProcessGone {
		return false
	}
	w.states[id] = state
	if _, known := w.exited[id]; !known {
		if w.exited == nil {
			w.exited = map[protocol.Identity]bool{}
		}
		w.exited[id] = busy
	}
	return true
}

// lives reports whether a process is known to live.
func (w *processWatch) lives(id protocol.Identity) bool {
	_, exited := w.exited[id]
	return w.states[id] == heartbeat.ProcessAlive && !exited
}

// settle marks the processes as gone whose exit a full scan has followed; all of them if no scan can be awaited. It reports
// whether another scan must follow.
func (w *processWatch) settle(all bool) (again bool) {
	for id, early := range w.exited {
		if early && !all {
			w.exited[id], again = false, true
			continue
		}
		delete(w.exited, id)
		if _, watched := w.states[id]; watched {
			w.states[id] = heartbeat.ProcessGone
		}
	}
	return again
}

// follow watches the processes of a project's agents, of their work and of those that hold locks granted by steward. It
// checks each of them again now and then: the exit watch is fast, the check is reliable. trust: a process that lived at the
// last check counts as alive until its exit is reported. again: another scan must follow, because a process was found gone
// that lived before.
func (w *processWatch) follow(deps *Deps, snapshots []protocol.Snapshot, memory *decide.Memory, trust bool) (again bool) {
	again = w.settle(false)
	old := *w
	w.states, w.named = map[protocol.Identity]heartbeat.ProcessState{}, map[int]protocol.Identity{}
	want := func(ids ...protocol.Identity) {
		for _, id := range ids {
			if _, asked := w.states[id]; asked { // one worker may have many tasks
				continue
			}
			before := old.states[id]
			w.states[id] = old.check(deps, id, trust)
			if id.Proves() && w.states[id] == heartbeat.ProcessGone && before != heartbeat.ProcessUnknown && w.exit(id, false, before) {
				again = true
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
	return again
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
