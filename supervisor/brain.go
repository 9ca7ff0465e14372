package supervisor

import (
	"slices"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
)

// Brain decides like Decide, and keeps in mind what the last decision found out, place by place, to spare itself the
// judgement of what has not changed since. That never shows in a plan: each is the one that Decide gives for the same View
// and Memory. A Brain serves one Config and one goroutine; its zero value is ready for use with a zero Config.
type Brain struct {
	cfg   Config
	pages map[place]*page
	// The common grounds of the pages.
	ground    ground
	promised  []Promise
	processes []Process
	usage     []capacity.Usage
	silent    []protocol.Subject
	states    map[protocol.Identity]heartbeat.ProcessState
	claimed   map[int]Process
	plan      Plan
}

// ground is what the judgement of every place rests on.
type ground struct {
	resumeUntil time.Time
	offset      int
	calm        bool
}

// NewBrain makes a Brain for a Config.
func NewBrain(cfg Config) *Brain { return &Brain{cfg: cfg} }

// Decide gives the plan that the function Decide gives. The Memory need not be that of the last plan, but then there is
// more to do.
func (b *Brain) Decide(v View, m Memory) Plan {
	d := newDecision(v, m, b)
	d.weigh()
	b.standOn(d)
	pages, order := make(map[place]*page, len(v.Snapshots)), make([]*page, 0, len(v.Snapshots))
	for i := range v.Snapshots {
		s := &v.Snapshots[i]
		at := place{s.Project, s.Protocol}
		p := b.pages[at]
		if _, twice := pages[at]; !twice && p != nil && p.usable(d, s, at) {
			p.again(d)
		} else {
			p = d.project(s, at, p)
		}
		d.enter(s, at, p)
		pages[at], order = p, append(order, p)
	}
	d.claims.gather(order)
	d.admit()
	d.faults()
	d.silences()
	d.settleIncidents()
	d.settleVerdicts(&b.plan)
	b.pages, b.plan = pages, d.finish()
	return b.plan
}

// settleVerdicts takes the verdicts of the last plan where those on tasks that wait for room came out the same once more.
func (d *decision) settleVerdicts(last *Plan) {
	for at := range d.own.verdictsOf {
		tasks := shelf{at, protocol.KindTask}
		now, before := d.plan.Tasks.parts[tasks], last.Tasks.parts[tasks]
		if before != nil && slices.Equal(before.values, now.values) && slices.Equal(before.ids, now.ids) {
			replace(&d.plan.Tasks, &d.own.taskVerdicts, tasks, before)
		}
	}
}

// standOn compares the common grounds with those of the last decision; on others no page can be used. In times of doubt,
// of silence and after a sleep much depends on the very moment: such pages are never used.
func (b *Brain) standOn(d *decision) {
	_, offset := d.local.Zone()
	m := &d.plan.Memory
	now := ground{resumeUntil: m.ResumeUntil, offset: offset,
		calm: !d.view.Resumed && !d.view.Once && d.view.Doubt == 0 && !d.resuming() && m.Silence.Since.IsZero() && m.Silence.Until.IsZero()}
	if !now.calm || now != b.ground || !slices.Equal(d.view.Promised, b.promised) || !slices.Equal(m.Silence.Agents, b.silent) {
		b.pages = nil
	}
	d.otherUsage = !same(d.view.Usage, b.usage) && !slices.Equal(d.view.Usage, b.usage)
	b.ground, b.promised, b.silent, b.usage = now, d.view.Promised, m.Silence.Agents, d.view.Usage
}

// findProcesses enters how the processes were found; mostly as at the last decision.
func (b *Brain) findProcesses(d *decision) {
	list := d.view.Processes
	if b.states == nil || !same(list, b.processes) && !slices.Equal(list, b.processes) {
		d.otherProcesses = true
		b.states, b.claimed = make(map[protocol.Identity]heartbeat.ProcessState, len(list)), map[int]Process{}
		for _, p := range list {
			b.states[p.Identity] = p.State
			if p.Claimed {
				b.claimed[p.Identity.PID] = p
			}
		}
	}
	b.processes, d.processes, d.claimed = list, b.states, b.claimed
}
