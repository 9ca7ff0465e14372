package supervisor

import (
	"path/filepath"
	"strings"
	"time"

	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
)

// event is the input of step: a Hint, processExited, report, alarmRang, request, timeCame or stopAsked.
type event any

type (
	processExited struct{ id protocol.Identity } // a watched process has ended
	alarmRang     struct{}                       // the kernel reports pressure
	timeCame      struct{}                       // the time of next has come
	stopAsked     struct{}                       // release everything
)

// start takes over what the last run left, and takes the first sample.
func (l *loop) start() {
	now := l.now()
	l.clock.started, l.clock.lastStep = now, now
	l.schedule.begin(now, l.intervals())
	l.saver.adopt(l.memory, l.deps.Incidents(), now)
	l.deps.Orders.tell(l.deps.Tell)
	l.sample()
}

// sampleAgain takes the second sample: the processor load is known from then on.
func (l *loop) sampleAgain() {
	l.sample()
	l.show(l.view(l.now()))
}

// step handles one event and returns the orders that follow from it.
func (l *loop) step(e event) []effect {
	if _, hint := e.(Hint); !hint {
		l.noticeSleep()
	}
	switch e := e.(type) {
	case Hint:
		l.hint(e)
	case processExited:
		l.exited(e.id)
	case report:
		l.report(e)
	case alarmRang:
		l.sample()
	case request:
		l.answer(e)
	case timeCame:
		l.tick()
	case stopAsked:
		l.removed.begin(l.deps.HandOver(), l.now())
		for _, d := range l.projects.inOrder() {
			l.remove(d)
		}
	}
	return l.effects()
}

// noticeSleep detects that the machine slept or that its clock was set since the last step.
func (l *loop) noticeSleep() {
	before, now := l.clock.lastStep, l.now()
	l.clock.lastStep = now
	if heartbeat.Resumed(before, now, l.cfg.LookEvery) {
		l.clock.resumed = true
		l.record.slept(before, now, l.cfg.Heartbeat)
		l.sample() // the last reading is from before the sleep; without a reading the gate admits everything
	}
}

// hint records a path that may have changed.
func (l *loop) hint(h Hint) {
	d, ok := l.projects[h.Project]
	if !ok {
		return
	}
	if h.Lost {
		l.metrics.overflow()
		l.record.hintsLost(h.Project, l.now())
	}
	path := h.Path
	if filepath.IsAbs(path) {
		rel, err := filepath.Rel(d.project.Path, path)
		if err != nil || strings.HasPrefix(rel, "..") {
			rel = ""
		}
		path = rel
	}
	switch {
	case path == "":
		d.next.full = true
	case !isTemporary(filepath.Base(path)):
		d.next.hint(filepath.ToSlash(path))
	}
}

// exited records that a watched process has exited. What its files say about that decides, if they can be read.
func (l *loop) exited(id protocol.Identity) {
	unread := false
	for _, d := range l.projects {
		if state, watched := d.processes.states[id]; watched && d.processes.exit(id, d.busy, state) {
			d.next.full = true
			unread = unread || d.problem != nil || d.stuck(l.now())
		}
	}
	if unread {
		l.projects.settleExits(l.now())
		l.decide()
	}
}

// settleExits counts the exits about which no further scan can report anything.
func (p projects) settleExits(now time.Time) {
	for _, d := range p {
		if d.problem != nil || d.stuck(now) {
			d.processes.settle(true)
		}
	}
}

// tick does everything that is due by time.
func (l *loop) tick() {
	now := l.now()
	if l.removed.stopping() {
		l.removed.giveUp(now, l.cfg.Tasks.Lease)
		return
	}
	due := l.schedule.advance(now, l.intervals())
	for name, d := range l.projects {
		inRound := due.round && d.unwatched == nil || due.unwatched && d.unwatched != nil
		switch {
		case inRound && !(d.busy && d.inRound):
			d.next.byClock, d.next.full = true, true
		case d.busy || !reached(d.wish(l.plan.Looks[name], now), now):
		case reached(d.again, now):
			d.next.rescan = true
		default:
			d.next.full = true
		}
	}
	if due.sample {
		l.sample()
	}
	if reached(l.plan.Wake, now) || reached(l.schedule.decideBy, now) {
		l.decide()
	}
	l.saveIdle(now)
}

// reached reports whether a moment has come; the zero time never comes.
func reached(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }

// next is when the next tick is due. It is at most one scan interval away, so that noticeSleep can tell a sleep of the
// machine from an idle loop.
func (l *loop) next() time.Time {
	if l.removed.stopping() {
		return l.removed.deadline
	}
	now, every := l.now(), l.intervals()
	wait := every.round
	// A moment of this process has a monotonic reading, one of the plan only that of the wall clock. They have no common
	// order after the clock was set, but their distances from now have.
	earlier := func(t time.Time) {
		if !t.IsZero() {
			wait = min(wait, t.Sub(now))
		}
	}
	earlier(l.schedule.sampleDue(every))
	earlier(l.schedule.round)
	earlier(l.schedule.decideBy)
	earlier(l.plan.Wake)
	for name, d := range l.projects {
		if d.unwatched != nil {
			earlier(l.schedule.unwatched)
		}
		switch {
		case !d.busy:
			earlier(d.wish(l.plan.Looks[name], now))
		case d.problem == nil:
			earlier(d.since.Add(stuckAfter))
		}
	}
	return now.Add(wait)
}

// sample reads the gauges and judges waiting tasks again at once.
func (l *loop) sample() {
	l.schedule.sampled = l.now()
	l.gauges.sample(&l.deps, l.inUse(), l.schedule.sampled)
	if len(l.plan.Memory.Gate.Held) > 0 || l.gauges.filesRunOut() {
		l.decide()
	}
}

// saveIdle saves the memory at most every 30 s, because the silence of agents grows in it.
func (l *loop) saveIdle(now time.Time) {
	if now.Sub(l.saver.at) >= 30*time.Second && l.plan.Agents.Len() > 0 {
		_ = l.save() // logged; tried again in 30 s
	}
}

// report records a scanner's report and decides on it. Reports for a project that is gone are ignored.
func (l *loop) report(r report) {
	d, now := r.project, l.now()
	if d.removal != nil && d.removal.over {
		return
	}
	before, inRound := d.snapshots, d.inRound
	d.busy = false
	if !r.released {
		l.recordScan(d, &r, now)
	}
	l.record.results(r.results, now)
	for _, res := range r.results {
		l.metrics.change(res.change, res.err)
		if again := d.efforts.record(res.change, res.err, now); res.err != nil && again {
			d.next.full = true
		}
	}
	if d.removal != nil {
		l.removed.reported(d, r.results, now, l.cfg.Tasks.Lease)
		return
	}
	d.next.changes = append(d.next.changes, failOpen(d, before, l.deps.Orders.pausedWhy(d, l.projects) != "", now)...)
	// New work is judged by a fresh reading.
	if !l.gauges.needed && now.Sub(l.schedule.sampled) >= l.cfg.Capacity.SampleEvery && (l.projects.any((*projectState).hasWork) || l.inUse().hasRecorded()) {
		l.gauges.needed = true
		l.sample()
	}
	// One decision serves all scans of a round.
	if inRound && l.projects.any(func(d *projectState) bool { return d.busy && d.inRound }) {
		if l.schedule.decideBy.IsZero() {
			l.schedule.decideBy = now.Add(roundLasts)
		}
		return
	}
	l.decide()
	l.saveIdle(now) // saves at once for a new project
}

// recordScan stores what a scan showed.
func (l *loop) recordScan(d *projectState, r *report, now time.Time) {
	faults := faultsOf(r.snapshots, r.problem != nil)
	before := faultsOf(d.snapshots, d.problem != nil)
	if d.scannedAt.IsZero() { // files that were unusable from the start say nothing about steward
		before = faultsOf(r.snapshots, false)
	}
	if d.unread.compare(before, faults, now) {
		l.doubts.unread = now
	}
	d.scannedAt, d.problem, d.snapshots, d.speaks, d.again = now, r.problem, r.snapshots, r.speaks, time.Time{}
	for i := range r.snapshots {
		if at := r.snapshots[i].Again; !at.IsZero() && (d.again.IsZero() || at.Before(d.again)) {
			d.again = at
		}
	}
	if r.problem != nil {
		l.log.Error("scanner panicked", "project", d.project.Name, "problem", r.problem.Problem, "stack", r.stack)
	}
	l.scans++
	l.metrics.look(r.took)
	if r.problem != nil {
		d.processes.settle(true)
	}
	if !r.full {
		return
	}
	l.doubts.fullScan(now, l.cfg.LookEvery, l.clock.resumed || now.Before(l.memory.ResumeUntil)) // the resume grace covers a sleep
	d.identified(r.folder, r.folderErr)
	if err := l.deps.Orders.follow(d, l.projects); err != nil {
		l.log.Error("record a person's order; it stays in force", "project", d.project.Name, "error", err)
	}
	if d.setWatch(r.watchErr, now, l.cfg.LookUnwatched()) {
		l.log.Warn("watch folders; looking every few seconds instead", "project", d.project.Name, "every", l.cfg.LookUnwatched(), "error", r.watchErr)
	}
	since := now.Sub(d.processes.checked)
	trust := !d.hasWork() && since >= 0 && since < crossCheck-l.cfg.LookEvery/2
	if !trust {
		d.processes.checked = now
	}
	if d.processes.follow(&l.deps, d.snapshots, &l.memory, trust) {
		d.next.full = true
	}
}
