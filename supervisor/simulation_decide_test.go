package supervisor_test

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor/decide"
)

// view gathers what a decision rests on, as the loop does.
func (b *brain) view() decide.View {
	m := b.m
	v := decide.View{Now: m.now(), Load: b.load, Incidents: b.heads, Resumed: b.resumed, Usage: m.usage(m.now())}
	for _, d := range b.desks {
		stuck := d.busy && m.awake-d.since >= 30*time.Second
		if d.looked {
			v.Looked = append(v.Looked, d.s.name)
		}
		if stuck {
			v.Troubles = append(v.Troubles, decide.Trouble{Project: d.s.name, Code: "stuck",
				Fault: protocol.Fault{Path: "/" + d.s.name, Problem: "the folder does not answer", Severity: protocol.High, Since: m.now().Add(d.since - m.awake)}})
		}
		for _, snap := range d.snapshots {
			snap.Act, snap.Busy = snap.Act && !stuck, d.busy || len(d.due) > 0
			v.Snapshots = append(v.Snapshots, snap)
		}
		for id, state := range d.processes {
			_, claimed := d.claims[id.PID]
			v.Processes = append(v.Processes, decide.Process{Identity: id, State: state, Claimed: claimed})
		}
	}
	slices.SortFunc(v.Processes, func(a, b decide.Process) int {
		return cmp.Or(cmp.Compare(a.Identity.PID, b.Identity.PID), cmp.Compare(a.Identity.Start, b.Identity.Start))
	})
	return v
}

// decide makes a plan and sees it carried out: memory first, then the incidents, then the files.
func (b *brain) decide() {
	if !b.up {
		return
	}
	m := b.m
	view, old := b.view(), b.memory
	plan := decide.Decide(view, old, m.cfg)
	b.decided++
	checkReasons(m, plan)
	if b.decided%101 == 0 {
		checkSettled(m, view, old, m.cfg, plan)
	}
	if b.resumed = false; m.awake-b.minute > time.Minute {
		b.minute, b.within = m.awake, 0
	}
	if b.within++; b.within > 2000 {
		m.Fatalf("no rest: %d decisions within a minute: wake %v, looks %v, %+v", b.within, plan.Wake, plan.Looks, plan.Changes)
	}
	m.checkPlan(view, old, plan)
	firstSight := len(plan.Memory.Projects) > len(old.Projects)
	b.plan, b.memory = plan, plan.Memory
	due := b.possible(plan)
	if len(due)+len(plan.Alerts)+len(plan.Remarks) == 0 && !firstSight {
		return
	}
	if b.save() != nil {
		return // nothing is changed until it can be saved
	}
	if b.step() != nil {
		return
	}
	for _, a := range plan.Alerts {
		b.tell(a)
	}
	for _, r := range plan.Remarks {
		m.note("say %s", r.Text)
	}
	if b.step() != nil {
		return
	}
	if slices.ContainsFunc(due, func(c protocol.Change) bool { return c.Verb != protocol.VerbRenew }) || len(plan.Alerts) > 0 {
		b.calm = m.awake
	}
	for _, c := range due {
		d := b.desk(c.Subject.Project)
		d.due = append(d.due, c)
	}
}

func (b *brain) desk(project string) *place {
	for _, d := range b.desks {
		if d.s.name == project {
			return d
		}
	}
	b.m.Fatalf("a change to %q, which is no project", project)
	return nil
}

// possible lists the changes that can be made now.
func (b *brain) possible(plan decide.Plan) []protocol.Change {
	var due []protocol.Change
	for _, c := range plan.Changes {
		if d := b.desk(c.Subject.Project); !d.busy && !d.efforts.Resting(c, b.m.uptime()) {
			due = append(due, c)
		}
	}
	return due
}

// tell enters an alert into the incident ledger, which outlives steward.
func (b *brain) tell(a rules.Alert) {
	head := b.heads[a.Key]
	next := maps.Clone(b.heads)
	if a.Resolve {
		head.State, head.ResolvedBy = rules.Resolved, rules.ByFiles
		b.m.note("resolve %s: %s", a.Subject.ID, a.Detail)
	} else {
		head = rules.Head{State: rules.Raised, Rev: head.Rev + 1, Occurrence: a.Occurrence, Lasting: a.Lasting, Foreign: a.Foreign, Subject: a.Subject, Severity: a.Severity}
		b.m.note("alert %s %s: %s", a.Severity, a.Subject.ID, a.Summary)
	}
	next[a.Key] = head
	b.heads = next
}

// rest stops the world, and looks, decides and acts until nothing is left to do: three turns must do.
func (b *brain) rest() {
	m := b.m
	if !b.up || b.unsave || slices.ContainsFunc(m.sites, func(s *site) bool { return s.full || s.gone }) ||
		slices.ContainsFunc(b.desks, func(d *place) bool { return d.busy || len(d.due)+len(d.commands) > 0 || d.efforts.Tires(m.uptime()) }) {
		return
	}
	b.feel()
	for range 4 {
		for _, d := range b.desks {
			b.lookAt(d)
		}
		b.doom = 0
		b.decide()
		left := 0
		for _, d := range b.desks {
			left += len(d.due)
			changes := d.due
			d.due = nil
			for _, c := range changes {
				_ = b.apply(d, c)
			}
		}
		if left+len(b.plan.Alerts)+len(b.plan.Remarks) == 0 {
			m.checkHolds()
			return
		}
	}
	m.Fatalf("no rest: %+v %+v", b.plan.Changes, b.plan.Alerts)
}
