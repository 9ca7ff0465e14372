package decide

import (
	"slices"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
)

// env is what every rule of one decision may read: the view, the memory of the decision before, the settings, and what
// follows from them. It does not change while rules run.
type env struct {
	view View
	// now is the moment of the decision in UTC, for all that is stored; local keeps the offset of the machine.
	now, local time.Time
	old        Memory
	cfg        Config
	processes  map[protocol.Identity]heartbeat.ProcessState
	namedPIDs  map[int]Process
	snapshots  map[source]*protocol.Snapshot
	trees      map[protocol.Identity]*capacity.Usage
	// since is the first look ever at each project.
	since       map[string]time.Time
	resumeUntil time.Time
	// full is when memory or open files were last over [capacity] threshold.
	full time.Time
	// silence says whether verdicts of silence wait; it is set before the first agent is judged.
	silence Silence
}

func newEnv(v View, m Memory, cfg Config) env {
	e := env{view: v, old: m, cfg: cfg, now: plain(v.Now), local: plainLocal(v.Now),
		processes: make(map[protocol.Identity]heartbeat.ProcessState, len(v.Processes)), namedPIDs: map[int]Process{},
		snapshots: make(map[source]*protocol.Snapshot, len(v.Snapshots))}
	e.view.Load.At = plain(v.Load.At)
	e.old.Gate = m.Gate.Follow(e.now)
	for _, share := range []*protocol.Share{&e.view.Load.CPU, &e.view.Load.Memory, &e.view.Load.Files, &e.view.Load.Disk, &e.view.Load.Stalled} {
		*share = rounded(*share)
	}
	for _, p := range v.Processes {
		e.processes[p.Identity] = p.State
		if p.Claimed {
			e.namedPIDs[p.Identity.PID] = p
		}
	}
	if len(v.Usage) > 0 {
		e.trees = make(map[protocol.Identity]*capacity.Usage, len(v.Usage))
		for i := range v.Usage {
			e.trees[v.Usage[i].Identity] = &v.Usage[i]
		}
	}
	for i := range v.Snapshots {
		s := &v.Snapshots[i]
		e.snapshots[source{s.Project, s.Protocol}] = s
	}
	return e
}

// snapshotOf is the snapshot that shows a subject, nil where its project was not scanned.
func (e *env) snapshotOf(s protocol.Subject) *protocol.Snapshot { return e.snapshots[sourceOf(s)] }

// clock is the moment of the scan behind a snapshot. A scan from the future began before the clock was set back.
func (e *env) clock(s *protocol.Snapshot) heartbeat.Clock {
	return heartbeat.Clock{Now: earliest(plain(s.At), e.now), LookEvery: e.cfg.LookEvery, ResumeUntil: e.resumeUntil}
}

// watched reports whether the project was scanned a moment ago, so that what is new there appeared while steward watched.
func (e *env) watched(s *protocol.Snapshot) bool {
	gap := e.now.Sub(e.old.LastLook)
	return !e.old.Projects[s.Project].Since.IsZero() && gap >= 0 && gap <= time.Minute
}

// scanned reports whether the project was scanned since steward started.
func (e *env) scanned(project string) bool {
	return slices.Contains(e.view.Looked, project) || slices.ContainsFunc(e.view.Snapshots, func(s protocol.Snapshot) bool { return s.Project == project })
}

// resuming reports whether the machine came back from sleep a moment ago.
func (e *env) resuming() bool { return e.now.Before(e.resumeUntil) }

// slept is how long the machine slept before this decision. That time counts against no task.
func (e *env) slept() time.Duration {
	if !e.view.Resumed || e.view.Once || e.old.LastLook.IsZero() {
		return 0
	}
	return max(0, e.now.Sub(e.old.LastLook))
}

// inLocal is a moment in the local time of the decision. Work that goes back in one step keeps no due time on record: it
// is computed again from the moment at which the attempt ended.
func (e *env) inLocal(t time.Time) time.Time { return plain(t).In(e.local.Location()) }

// facts are what this scan showed of an agent and its processes.
func (e *env) facts(a *protocol.Agent, mem heartbeat.Memory) heartbeat.Facts {
	f := heartbeat.Facts{Agent: e.speaking(a)}
	f.Process, f.Identity = e.process(&f.Agent, mem)
	f.Keeper = e.processes[a.Keeper]
	f.Activity = e.activity(a, f.Identity)
	return f
}

// process is the process that speaks for an agent, and its state.
func (e *env) process(a *protocol.Agent, m heartbeat.Memory) (heartbeat.ProcessState, protocol.Identity) {
	id := heartbeat.Watch(*a, m)
	if id.Proves() {
		return e.processes[id], id
	}
	p := e.namedPIDs[id.PID]
	return p.State, p.Identity
}

// speaking is the agent with the process in front that speaks for it: of several, the first that is not gone.
func (e *env) speaking(a *protocol.Agent) protocol.Agent {
	if len(a.Others) == 0 || e.processes[a.Process] != heartbeat.ProcessGone {
		return *a
	}
	chosen := *a
	for _, id := range a.Others {
		if e.processes[id] != heartbeat.ProcessGone {
			chosen.Process = id
			break
		}
	}
	return chosen
}

// activity sums up what the process trees do that speak for an agent. It is unknown unless every living tree was measured
// lately.
func (e *env) activity(a *protocol.Agent, id protocol.Identity) heartbeat.Activity {
	sum, known := e.treeActivity(id)
	if !known {
		return heartbeat.Activity{}
	}
	for _, other := range Beside(a) {
		if other == id || other == a.Keeper || e.processes[other] == heartbeat.ProcessGone {
			continue
		}
		more, known := e.treeActivity(other)
		if !known {
			return heartbeat.Activity{}
		}
		sum.CPU, sum.Written, sum.Tree = sum.CPU+more.CPU, sum.Written+more.Written, sum.Tree+" "+more.Tree
	}
	return sum
}

// treeActivity is what the tree below one process does, by a measurement not older than two scans. It is unknown where
// neither the processor time nor the processes can be read.
func (e *env) treeActivity(id protocol.Identity) (heartbeat.Activity, bool) {
	u := e.trees[id]
	if u == nil || u.CPU == 0 && u.Tree == "" || e.now.Sub(plain(u.At)) > 2*e.cfg.LookEvery || e.now.Before(plain(u.At).Add(-2*e.cfg.LookEvery)) {
		return heartbeat.Activity{}, false
	}
	return heartbeat.Activity{Known: true, CPU: u.CPU, Tree: u.Tree, Written: u.Written}, true
}

// usage is what was last measured of an identity's processes.
func (e *env) usage(id protocol.Identity, whole bool) *capacity.Measured {
	u := e.trees[id]
	if u == nil {
		return nil
	}
	return &capacity.Measured{Cores: u.Cores, Memory: u.Memory, CPU: u.CPU, At: plain(u.At), Whole: whole}
}

// mayChange reports whether steward may change the files behind the snapshot.
func mayChange(s *protocol.Snapshot) bool { return s.Act && s.Yield == "" }
