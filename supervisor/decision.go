package supervisor

import (
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status/words"
	"github.com/livhana/steward/supervisor/decide"
)

// decide makes a plan and starts to apply it: first the memory is saved, then incidents are raised, then processes and
// files are changed.
func (l *loop) decide() {
	begin := l.now()
	view := l.view(begin)
	plan := l.judge(view, l.memory, l.cfg)
	l.schedule.decideBy, l.clock.resumed = time.Time{}, false
	l.metrics.decision(l.now().Sub(begin))
	l.record.verdicts(&l.plan, &plan, &l.memory, begin)
	l.metrics.observe(l.memory, plan.Memory)
	newProject := scannedFirst(l.memory.Projects, plan.Memory.Projects)
	l.plan, l.memory = plan, plan.Memory
	l.gauges.needed = plan.Open || l.inUse().hasRecorded()
	l.show(view)
	changes, ends := l.possible(begin), l.ended.remaining(plan)
	// Save at once when a project is new: a failure that happens while steward is down must count as news later.
	if len(changes)+len(ends)+len(plan.Alerts)+len(plan.Says) == 0 && !newProject {
		return
	}
	if l.save() != nil {
		l.show(view) // without a saved memory a crash could repeat these changes; the next scan decides again
		return
	}
	for _, a := range plan.Alerts {
		l.record.alert(a, l.deps.Tell(a), begin)
	}
	for _, s := range plan.Says {
		l.deps.Say(s)
	}
	for _, e := range ends {
		l.ended[e.Subject] = e.Since
		for _, id := range e.Roots {
			l.record.ending(e, id.PID, begin)
			l.deps.Stop(id, e.Why)
		}
	}
	for _, c := range changes {
		next := &l.projects[c.Subject.Project].next
		next.changes = append(next.changes, c)
	}
}

// scannedFirst reports whether some project was scanned for the first time ever.
func scannedFirst(before, now map[string]decide.ProjectMemory) bool {
	for name, p := range now {
		if !p.Since.IsZero() && before[name].Since.IsZero() {
			return true
		}
	}
	return false
}

// mostLines limits the log lines in one order. The next decision plans the rest, and new requests are judged in
// between.
const mostLines = 200

// possible lists the planned changes that can be applied now.
func (l *loop) possible(now time.Time) []protocol.Change {
	lines := map[string]int{}
	return slices.DeleteFunc(slices.Clone(l.plan.Changes), func(c protocol.Change) bool {
		d := l.projects[c.Subject.Project]
		if d == nil || d.busy || d.efforts.backsOff(c, now) {
			return true
		}
		if c.Verb == protocol.VerbLog {
			lines[c.Subject.Project]++
		}
		return c.Verb == protocol.VerbLog && lines[c.Subject.Project] > mostLines
	})
}

// view gathers the input of a decision.
func (l *loop) view(now time.Time) decide.View {
	if l.projects.any((*projectState).hasWork) {
		l.gauges.nameConsumers(&l.deps, l.inUse())
	}
	v := decide.View{Now: now, Load: l.gauges.load, Incidents: l.deps.Incidents(), Resumed: l.clock.resumed, Once: l.once,
		Doubt: l.doubts.count(now, l.cfg.Heartbeat.ResumeGrace), Usage: l.gauges.usage, Promised: l.deps.Promised(now),
		Paused: map[string]string{}, Snapshots: []protocol.Snapshot{}}
	for name, d := range l.projects.inOrder() {
		paused := l.deps.Orders.pausedWhy(d, l.projects)
		if paused != "" {
			v.Paused[name] = paused
		}
		if !d.scannedAt.IsZero() {
			v.Looked = append(v.Looked, name)
		}
		v.Troubles = append(v.Troubles, d.troubles(now, l.cfg.LookEvery)...)
		ordered := l.deps.Orders.modes(d, l.projects)
		for _, snap := range d.snapshots {
			if mode := ordered[snap.Protocol]; mode != "" && mode != snap.Mode { // its adapter is opened again soon
				snap.Mode, snap.Act = protocol.ModeObserve, false
			}
			// A snapshot is read-only while changes to it are queued or being applied, and while the project does not
			// answer.
			snap.Act = snap.Act && paused == "" && !d.stuck(now)
			snap.Busy = d.busy || len(d.next.changes) > 0
			v.Snapshots = append(v.Snapshots, snap)
		}
		v.Processes = append(v.Processes, d.processes.list()...)
	}
	slices.SortFunc(v.Processes, compareProcesses)
	return v
}

// show publishes the state of this moment.
func (l *loop) show(view decide.View) {
	p := &State{Started: l.clock.started, Looks: l.scans, View: view, Plan: l.plan, Config: l.cfg, Done: l.record.done, Projects: []ProjectStatus{}}
	for name, d := range l.projects.inOrder() {
		status := ProjectStatus{Name: name, Path: d.project.Path, Speaks: d.speaks, LookedAt: d.scannedAt, Problem: d.problem, Paused: l.deps.Orders.pausedWhy(d, l.projects)}
		for _, t := range d.failing(view.Now, l.cfg.LookEvery) {
			status.Failing = append(status.Failing, t.Fault)
		}
		if l.saver.fault != nil {
			status.Failing = append(status.Failing, *l.saver.fault)
		}
		p.Projects = append(p.Projects, status)
	}
	l.state.Store(p)
}

// effects lists the orders for every idle scanner.
func (l *loop) effects() []effect {
	now := l.now()
	hangs := false
	for name, d := range l.projects.inOrder() {
		if d.stuck(now) && d.problem == nil {
			d.problem = &protocol.Fault{Path: d.project.Path, Problem: "the folder does not answer", Hint: "a disk or network mount may hang; other projects go on", Since: d.since}
			l.log.Error("project does not answer", "project", name, "since", d.since)
			hangs = true
		}
	}
	if hangs {
		l.projects.settleExits(now)
		l.decide() // a hanging project sends no report that would cause a decision
	}
	all := slices.Clone(l.removed.projects)
	for _, d := range l.projects.inOrder() {
		all = append(all, d)
	}
	var list []effect
	for _, d := range all {
		if o, ok := d.order(now); ok {
			list = append(list, effect{d, l.complete(o, d, now)})
		}
	}
	return list
}

// complete adds to an order what the loop knows beyond the project.
func (l *loop) complete(o order, d *projectState, now time.Time) order {
	// Ended tasks are listed and judged over any time without a scan. A task that still waits for something (a retry, space
	// on a disk) stays listed however long that takes. See docs/decisions.md, "An open task stays listed until its end was seen".
	known := &l.memory
	if l.saver.fault != nil { // nothing decided since the last save was told to a person
		known = &l.saver.onDisk
	}
	o.since = l.memory.History(d.project.Name, now, known.LookedAt(d.project.Name), l.cfg.Tasks.History)
	if o.release {
		for _, c := range o.changes {
			keepHeld(&l.memory, c)
		}
	}
	if o.full {
		o.modes = l.deps.Orders.modes(d, l.projects)
		o.keep = d.toKeep(&l.cfg, now)
		if now.Sub(d.published) >= publishEvery && l.plan.Agents.Len() > 0 {
			d.published, o.publish = now, document(d.project.Name, &l.plan, l.gauges.load.Fresh(now), l.cfg)
		}
	}
	return o
}

// publishEvery is how old capacity.json may become while agents are registered.
const publishEvery = 4 * time.Second

// Decide decides, and fills the sentences into the plan: the Why of its changes, and the texts of its alerts.
func Decide(v decide.View, m decide.Memory, cfg decide.Config) decide.Plan {
	p := decide.Decide(v, m, cfg)
	word(&p, cfg.Human, v.Now)
	return p
}

// word fills in the sentences. human is the name that addresses the operator.
func word(p *decide.Plan, human string, now time.Time) {
	lists := [][]protocol.Change{p.Changes, p.Waiting}
	for _, o := range p.Offers {
		lists = append(lists, o.Changes)
	}
	for _, list := range lists {
		for i := range list {
			c := &list[i]
			if a, logged := p.Logged[c.Code]; logged && c.Verb == protocol.VerbLog {
				c.Why = words.Alert(a, human, now).Summary
			} else {
				c.Why = words.Sentence(c.Cause, now)
			}
		}
	}
	for i := range p.Alerts {
		p.Alerts[i] = words.Alert(p.Alerts[i], human, now)
	}
	for i := range p.Says {
		p.Says[i].Text = words.Said(&p.Says[i].Notice, now)
	}
	for i := range p.Ends {
		p.Ends[i].Why = words.Sentence(p.Ends[i].Cause, now)
	}
}
