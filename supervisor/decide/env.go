package decide

import (
	"math"
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
	last       Memory
	cfg        Config
	processes  map[protocol.Identity]heartbeat.ProcessState
	namedPIDs  map[int]Process
	snapshots  map[snapshotSource]*protocol.Snapshot
	trees      map[protocol.Identity]*capacity.Usage
	// resumeUntil ends the grace after a sleep. lastReissue is when an overdue retry was issued last.
	resumeUntil, lastReissue time.Time
	// full is when memory or open files were last over [capacity] threshold.
	full time.Time
	// silence says whether verdicts of silence wait; it is set before the first agent is judged.
	silence Silence
}

func newEnv(v View, m Memory, cfg Config) *env {
	e := &env{view: v, last: m, cfg: cfg, now: plain(v.Now), local: plainLocal(v.Now),
		processes: make(map[protocol.Identity]heartbeat.ProcessState, len(v.Processes)), namedPIDs: map[int]Process{},
		snapshots: make(map[snapshotSource]*protocol.Snapshot, len(v.Snapshots)), trees: make(map[protocol.Identity]*capacity.Usage, len(v.Usage))}
	load := &e.view.Load
	load.At = plain(load.At)
	e.last.Gate = m.Gate.Follow(e.now)
	for _, share := range []*protocol.Share{&load.CPU, &load.Memory, &load.Files, &load.Disk, &load.Stalled} {
		*share = rounded(*share)
	}
	for _, p := range v.Processes {
		e.processes[p.Identity] = p.State
		if p.Claimed {
			e.namedPIDs[p.Identity.PID] = p
		}
	}
	for i := range v.Usage {
		e.trees[v.Usage[i].Identity] = &v.Usage[i]
	}
	for i := range v.Snapshots {
		s := &v.Snapshots[i]
		e.snapshots[snapshotSource{s.Project, s.Protocol}] = s
	}
	// Not later than this clock allows: it may have been set back.
	e.resumeUntil, e.lastReissue = earliest(e.now.Add(cfg.Heartbeat.ResumeGrace), m.ResumeUntil), earliest(e.now, m.LastReissue)
	if v.Resumed && !v.Once { // a single scan (--once) is always far from the one before it
		e.resumeUntil = e.now.Add(cfg.Heartbeat.ResumeGrace)
	}
	if e.full = m.Full; e.full.After(e.now) {
		e.full = e.now
	}
	if limit := cfg.Capacity.Threshold; load.Memory.Or(0) > limit || load.Files.Or(0) > limit {
		e.full = e.now
	}
	e.silence = weighSilence(e)
	return e
}

// plain is the wall clock reading in UTC without the monotonic one, so that a time read back from a dump compares the same.
func plain(t time.Time) time.Time { return t.Round(0).UTC() }

// plainLocal keeps the offset of the time zone, but not its name and rules, which a dump does not hold.
func plainLocal(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.Round(0).In(time.FixedZone("", offset))
}

// rounded is a share as a dump shows it, so that a limit is passed here and there alike.
func rounded(s protocol.Share) protocol.Share {
	v, known := s.Value()
	if !known {
		return s
	}
	return protocol.Used(math.Round(v*1e4) / 1e4)
}

// earliest is the earlier of two times, of which the first may be zero. The time stamp of a file changes with every touch,
// and lies in the future after the clock was set back.
func earliest(known, other time.Time) time.Time {
	if other = plain(other); known.IsZero() || other.Before(known) {
		return other
	}
	return known
}

// snapshotOf is the snapshot that shows a subject, nil where its project was not scanned.
func (e *env) snapshotOf(s protocol.Subject) *protocol.Snapshot { return e.snapshots[sourceOf(s)] }

// clock is the moment of the scan behind a snapshot. A scan from the future began before the clock was set back.
func (e *env) clock(s *protocol.Snapshot) heartbeat.Clock {
	return heartbeat.Clock{Now: earliest(plain(s.At), e.now), LookEvery: e.cfg.LookEvery, ResumeUntil: e.resumeUntil}
}

// watched reports whether the project was scanned a moment ago, so that what is new there appeared while steward watched.
func (e *env) watched(s *protocol.Snapshot) bool {
	gap := e.now.Sub(e.last.LastLook)
	return !e.last.Projects[s.Project].Since.IsZero() && gap >= 0 && gap <= time.Minute
}

// scanned reports whether the project was scanned since steward started.
func (e *env) scanned(project string) bool {
	return slices.Contains(e.view.Looked, project) || slices.ContainsFunc(e.view.Snapshots, func(s protocol.Snapshot) bool { return s.Project == project })
}

// resuming reports whether the machine came back from sleep a moment ago.
func (e *env) resuming() bool { return e.now.Before(e.resumeUntil) }

// slept is how long the machine slept before this decision. That time counts against no task.
func (e *env) slept() time.Duration {
	if !e.view.Resumed || e.view.Once || e.last.LastLook.IsZero() {
		return 0
	}
	return max(0, e.now.Sub(e.last.LastLook))
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

// mayOffer reports whether the user may be offered an option that changes the files behind the snapshot.
func mayOffer(s *protocol.Snapshot) bool { return mayChange(s) || s.Asks() }
