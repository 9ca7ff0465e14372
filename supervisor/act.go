package supervisor

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status/words"
	"github.com/livhana/steward/supervisor/decide"
)

// orders lists the work for every idle scanner.
func (s *loop) orders() []assignment {
	now := s.now()
	hangs := false
	for _, name := range s.names() {
		d := s.projects[name]
		if d.stuck(now) && d.problem == nil {
			d.problem = &protocol.Fault{Path: d.project.Path, Problem: "the folder does not answer", Hint: "a disk or network mount may hang; other projects go on", Since: d.since}
			s.log.Error("project does not answer", "project", name, "since", d.since)
			hangs = true
		}
	}
	if hangs {
		s.decide() // a hanging project sends no report that would cause a decision
	}
	var list []assignment
	for _, name := range s.names() {
		list = s.assign(list, s.projects[name], now)
	}
	for _, d := range s.removed.projects {
		list = s.assign(list, d, now)
	}
	return list
}

// assign adds the order for a project's scanner, if there is one.
func (s *loop) assign(list []assignment, d *projectState, now time.Time) []assignment {
	o, ok := d.order(now)
	if !ok {
		return list
	}
	o.since = s.history(d, now)
	if o.full {
		o.publish, o.keep = s.toPublish(d, now), s.toKeep(d, now)
	}
	return append(list, assignment{d, o})
}

// history is the time from which ended tasks are listed and judged. It reaches back over any time without a scan. A
// task that still waits for something (a retry, space on a disk) stays listed however long that takes.
// See docs/decisions.md, "An open task stays listed until its end was seen".
func (s *loop) history(d *projectState, now time.Time) time.Time {
	looked := s.memory.LookedAt(d.project.Name)
	if s.saver.fault != nil { // nothing decided since the last save was told to anybody
		looked = s.saver.onDisk.LookedAt(d.project.Name)
	}
	return s.memory.History(d.project.Name, now, looked, s.cfg.Tasks.History)
}

// decide makes a plan and starts to apply it: first the memory is saved, then incidents are raised, then processes and
// files are changed.
func (s *loop) decide() {
	begin := s.now()
	view := s.view(begin)
	plan := s.judge(view, s.memory, s.cfg)
	s.decided++
	s.decideBy = time.Time{}
	s.resumed = false
	s.metrics.decision(s.now().Sub(begin))
	s.noteVerdicts(plan)
	firstSight := metOne(s.memory.Projects, plan.Memory.Projects)
	s.metrics.observe(s.memory, plan.Memory)
	s.plan, s.memory = plan, plan.Memory
	s.watches = plan.Open || hasRecorded(s.scanned())
	s.show(view)
	due, ends := s.possible(plan, begin), s.toEnd(plan)
	// Save at once when a project is new: a failure that happens while steward is down must count as news later.
	if len(due)+len(ends)+len(plan.Alerts) == 0 && !firstSight {
		return
	}
	if err := s.save(); err != nil {
		// Without a saved memory a crash could repeat these changes. The next scan decides again.
		s.log.Error("save memory; nothing is changed until it can be saved", "error", err)
		s.show(view)
		return
	}
	s.tell(plan)
	s.endHung(ends)
	for _, c := range due {
		d := s.projects[c.Subject.Project]
		d.changes = append(d.changes, c)
	}
}

// metOne reports whether some project was scanned for the first time ever.
func metOne(before, now map[string]decide.ProjectMemory) bool {
	for name, p := range now {
		if !p.Since.IsZero() && before[name].Since.IsZero() {
			return true
		}
	}
	return false
}

// possible lists the changes that can be applied now.
func (s *loop) possible(plan decide.Plan, now time.Time) []protocol.Change {
	due := make([]protocol.Change, 0, len(plan.Changes))
	lines := map[string]int{}
	for _, c := range plan.Changes {
		d := s.projects[c.Subject.Project]
		if d == nil || d.busy || d.backsOff(c, now) {
			continue
		}
		if c.Verb == protocol.VerbLog {
			if lines[c.Subject.Project]++; lines[c.Subject.Project] > mostLines {
				continue
			}
		}
		due = append(due, c)
	}
	return due
}

// mostLines limits the log lines in one order. The next decision plans the rest, and new requests are judged in
// between.
const mostLines = 200

// tell raises and resolves incidents.
func (s *loop) tell(plan decide.Plan) {
	for _, a := range plan.Alerts {
		verb := "alert"
		if a.Resolve {
			verb = "resolve"
		}
		entry := Entry{At: s.now(), Kind: verb, Subject: a.Subject, Verb: verb, Reason: a.Kind, Text: strings.TrimSpace(a.Summary + "\n" + a.Detail), Incident: a.Key}
		if err := s.deps.Tell(a); err != nil {
			entry.Error = err.Error()
			s.log.Error("write incident", "key", a.Key, "error", err)
		}
		s.deps.Note(entry)
	}
}

// noteVerdicts journals every change in the state of an agent, a task or a lock, with its evidence.
func (s *loop) noteVerdicts(plan decide.Plan) {
	var entries []Entry
	now := s.now()
	for subject, turn := range plan.Agents.Since(s.plan.Agents) {
		if v := turn.Is; v.Changed {
			entries = append(entries, Entry{Kind: "verdict", Subject: subject, State: string(v.State), Reason: string(v.Reason), Text: words.Sentence(v.Cause, now)})
		}
	}
	for subject, turn := range plan.Tasks.Since(s.plan.Tasks) {
		v := turn.Is
		if turn.Was != nil && turn.Was.State == v.State {
			continue
		}
		if s.memory.Tasks.Of(subject).State != v.State {
			entries = append(entries, Entry{Kind: "verdict", Subject: subject, State: string(v.State), Reason: string(v.Reason), Text: v.Why})
		}
	}
	for subject, turn := range plan.Locks.Since(s.plan.Locks) {
		if v := turn.Is; v.Changed {
			entries = append(entries, Entry{Kind: "verdict", Subject: subject, State: string(v.State), Reason: string(v.Reason), Text: words.Sentence(v.Cause, now)})
		}
	}
	slices.SortFunc(entries, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Subject.Kind, b.Subject.Kind), cmp.Compare(a.Subject.Project, b.Subject.Project), cmp.Compare(a.Subject.ID, b.Subject.ID))
	})
	for _, e := range entries {
		e.At = now
		s.log.Info(string(e.Subject.Kind), "subject", e.Subject.String(), "state", e.State, "reason", e.Reason, "why", e.Text)
		s.deps.Note(e)
	}
}

// view gathers the input of a decision.
func (s *loop) view(now time.Time) decide.View {
	s.nameConsumers()
	v := decide.View{Now: now, Load: s.load, Incidents: s.deps.Incidents(), Resumed: s.resumed, Doubt: s.doubt(now), Usage: s.usage, Promised: s.deps.Promised(now), Paused: map[string]string{}, Snapshots: make([]protocol.Snapshot, 0, len(s.projects))}
	for _, name := range s.names() {
		d := s.projects[name]
		v.Once = v.Once || d.once
		why := s.pausedWhy(d)
		if why != "" {
			v.Paused[name] = why
		}
		if !d.scannedAt.IsZero() {
			v.Looked = append(v.Looked, name)
		}
		v.Troubles = append(v.Troubles, d.troubles(now, s.cfg.LookEvery)...)
		for _, snap := range d.snapshots {
			// A snapshot is read-only while changes to it are queued or being applied, and while the project does not
			// answer.
			snap.Act = snap.Act && why == "" && !d.stuck(now)
			snap.Busy = d.busy || len(d.changes) > 0
			v.Snapshots = append(v.Snapshots, snap)
		}
	}
	v.Processes = s.watchedProcesses()
	return v
}

// watchedProcesses lists the watched processes and their states. The list is reused until one of them changes.
func (s *loop) watchedProcesses() []decide.Process {
	if s.processes != nil {
		return s.processes
	}
	list := []decide.Process{}
	for _, d := range s.projects {
		for id, state := range d.processes {
			_, claimed := d.claims[id.PID]
			list = append(list, decide.Process{Identity: id, State: state, Claimed: claimed})
		}
	}
	slices.SortFunc(list, func(a, b decide.Process) int {
		return cmp.Or(cmp.Compare(a.Identity.PID, b.Identity.PID), cmp.Compare(a.Identity.Start, b.Identity.Start),
			cmp.Compare(a.Identity.Boot, b.Identity.Boot), cmp.Compare(a.Identity.UID, b.Identity.UID), cmp.Compare(a.State, b.State))
	})
	s.processes = list
	return list
}

func (s *loop) names() []string {
	names := make([]string, 0, len(s.projects))
	for name := range s.projects {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// save writes the memory to disk. A failure is told once.
func (s *loop) save() error { return s.saver.save(s.memory, s.now()) }

// saveIdle saves the memory at most every 30 s, because the silence of agents grows in it.
func (s *loop) saveIdle(now time.Time) {
	if now.Sub(s.saver.at) < 30*time.Second || s.plan.Agents.Len() == 0 {
		return
	}
	if err := s.save(); err != nil {
		s.log.Error("save memory", "error", err)
	}
}

// keepAt is how old a heartbeat must be for steward to write it again. The next full scan may be far away, but a heartbeat
// that steward writes must not cause the next scan.
func (s *loop) keepAt(protocolName string, a *protocol.Agent) time.Duration {
	pace := s.cfg.Heartbeat.Of(protocolName, a).Pace()
	return max(pace-s.cfg.LookEvery, pace/2)
}

// toKeep lists by protocol the agents that steward writes heartbeats for: those that leave it to steward and whose process
// is known to live.
func (s *loop) toKeep(d *projectState, now time.Time) map[string]map[string]time.Duration {
	var keep map[string]map[string]time.Duration
	for i := range d.snapshots {
		snap := &d.snapshots[i]
		for j := range snap.Agents {
			a := &snap.Agents[j]
			if !a.Kept || !snap.Act || now.Sub(a.Beat.Last()).Abs() < s.keepAt(snap.Protocol, a) || d.processes[a.Process] != heartbeat.ProcessAlive {
				continue
			}
			if keep == nil {
				keep = map[string]map[string]time.Duration{}
			}
			if keep[snap.Protocol] == nil {
				keep[snap.Protocol] = map[string]time.Duration{}
			}
			keep[snap.Protocol][a.Name] = upFor(a, now)
		}
	}
	return keep
}

// upFor is how long the agent has been registered; 0 if that is not known.
func upFor(a *protocol.Agent, now time.Time) time.Duration {
	if a.Registered.IsZero() {
		return 0
	}
	return max(0, now.Sub(a.Registered))
}

// keep writes the heartbeats of agents.
func (l *scanner) keep(agents map[string]map[string]time.Duration, r *report) {
	if len(agents) == 0 {
		return
	}
	defer l.guard("keep heartbeats", r)
	for _, name := range l.names() {
		if s := l.protocols[name]; s.Keep != nil && s.acts() && len(agents[name]) > 0 {
			_ = s.Keep(agents[name], l.now()) // a failure shows as silence, and is retried at the next scan
		}
	}
}
