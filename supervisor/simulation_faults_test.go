package supervisor_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// disasters lets something go wrong every few seconds, until it gets quiet.
func (m *simulation) disasters() {
	if m.quiet {
		return
	}
	m.after(m.between(3*time.Second, 40*time.Second), m.disasters)
	s := pick(m, m.sites)
	if len(s.actors) == 0 || m.dozes() {
		return
	}
	a := pick(m, s.actors)
	switch m.chance.IntN(20) {
	case 0, 1, 2, 3:
		m.hurt(a)
	case 4, 5:
		m.mutes(a)
	case 6, 7:
		m.leaves(a)
	case 8, 9:
		m.operate(s, a)
	case 10, 11:
		m.changeLoad()
	case 12, 13:
		m.hitSteward()
	case 14:
		m.brain.doom = 1 + m.chance.IntN(8)
	case 15:
		m.setClock()
	case 16:
		m.hitDisk(s)
	default:
		m.locks(s, a)
	}
}

// for a while lets something be so until it is over.
func (m *simulation) forAWhile(from, to time.Duration, set func(on bool)) {
	set(true)
	m.after(m.between(from, to), func() {
		if !m.quiet {
			set(false)
		}
	})
}

// hurt ends one of an agent's processes, or freezes it.
func (m *simulation) hurt(a *actor) {
	serving := a.serving()
	if len(serving) == 0 {
		return
	}
	p := pick(m, serving)
	if m.odds(60) {
		m.kills(a, p)
		return
	}
	p.freeze(m.odds(30))
	m.after(m.between(20*time.Second, 5*time.Minute), func() {
		switch {
		case m.odds(60):
			p.thaw()
		default:
			m.kills(a, p)
		}
	})
}

// kills ends a process; mostly somebody starts the agent anew.
func (m *simulation) kills(a *actor, p *proc) {
	loses := len(p.works) > 0
	p.die()
	if loses && a.s.proves && m.odds(20) {
		m.after(m.between(time.Second, 9*time.Second), func() { m.sleeps(m.between(time.Minute, 10*time.Minute)) })
	}
	if m.odds(70) {
		m.after(m.between(12*time.Second, 2*time.Minute), func() { m.reboot(a) })
	}
}

// reboot starts an agent that is not there.
func (m *simulation) reboot(a *actor) {
	switch {
	case a.s.gone:
		m.after(5*time.Second, func() { m.reboot(a) })
	case len(a.serving()) == 0:
		a.boot()
	}
}

// mutes stops the beats of a process that works on.
func (m *simulation) mutes(a *actor) {
	serving := a.serving()
	if len(serving) != 1 {
		return
	}
	p := serving[0]
	m.note("%s/%s (%d) falls mute", a.s.name, a.name, p.id.PID)
	p.mute = true
	m.after(m.between(time.Minute, 3*time.Minute), func() { m.succeed(a, p, 6) })
}

// succeed ends the silence: the agent beats again or, once what it had in hand was issued anew, somebody starts another
// one of its name beside it.
func (m *simulation) succeed(a *actor, p *proc, patience int) {
	if !p.alive || !p.mute || a.s.gone || len(a.serving()) > 1 { // or another is there already
		return
	}
	again := len(p.works) > 0 && a.proof != recorded
	for _, w := range p.works {
		again = again && slices.ContainsFunc(w.c.ledger, func(k protocol.Attempt) bool { return k.Twice && k.Committed })
	}
	switch {
	case again:
		m.note("%s/%s (%d) is given up; another is started", a.s.name, a.name, p.id.PID)
		a.boot()
	case patience > 0 && len(p.works) > 0 && a.proof != recorded:
		m.after(time.Minute, func() { m.succeed(a, p, patience-1) })
	default:
		p.mute, a.turned = false, m.awake
		m.note("%s/%s (%d) is mute no more", a.s.name, a.name, p.id.PID)
		if p.moves() {
			a.say()
		}
	}
}

// leaves lets an agent that has nothing in hand say good-bye, and come back.
func (m *simulation) leaves(a *actor) {
	serving := a.serving()
	if len(serving) != 1 || len(serving[0].works) > 0 || a.left || a.s.gone || !a.able() {
		return
	}
	m.note("%s/%s leaves", a.s.name, a.name)
	a.left, a.rec.agent.Left = true, "it signed off"
	serving[0].die()
	if m.odds(70) {
		m.after(m.between(15*time.Second, 3*time.Minute), func() { m.reboot(a) })
	}
}

// operate is the human at the keyboard.
func (m *simulation) operate(s *site, a *actor) {
	b := m.brain
	if !b.up {
		return
	}
	d := b.desk(s.name)
	order := func(c protocol.Change, subject protocol.Subject) {
		c.Subject, c.Reason, c.Why = subject, protocol.ReasonOperator, "asked for by you"
		b.order(c)
	}
	agent := subjectOf(s, protocol.KindAgent, a.name)
	if m.odds(40) {
		order(protocol.Change{Verb: protocol.VerbPause, Agent: a.name}, agent)
		m.after(m.between(10*time.Second, 2*time.Minute), func() { a.rec.agent.Held = "" })
		return
	}
	for key := range orderedHeads(b.heads) {
		if h := b.heads[key]; m.odds(5) && h.State != rules.Resolved {
			m.note("the operator settles %s", h.Subject.ID)
			h.State, h.ResolvedBy = rules.Resolved, rules.ByOperator
			next := cloneHeads(b.heads)
			next[key] = h
			b.heads = next
		}
	}
	if len(s.files.order) == 0 || len(d.snapshots) != 1 {
		return
	}
	id := pick(m, s.files.order)
	subject := subjectOf(s, protocol.KindTask, id)
	for _, t := range d.snapshots[0].Tasks {
		switch state := b.plan.Tasks.Of(subject).State; {
		case t.ID != id:
		case t.Hold != nil:
			order(protocol.Change{Verb: protocol.VerbRelease, Judged: protocol.Judged{Ref: t.Ref}, Agent: t.Agent, Hold: t.Hold.Reason}, subject)
		case t.Outcome != nil && !t.Outcome.Succeeded() && !t.Cancelled && len(m.inHand(d, id)) == 0:
			n := snapshotOf(s.files.cards[id]).committed
			order(protocol.Change{Verb: protocol.VerbRetry, Judged: protocol.Judged{Ref: t.Outcome.Ref}, Agent: t.Agent, Entry: protocol.Entry{
				Action: protocol.ActionRetry, Rule: "operator", Code: "OPERATOR",
				Attempt: n + 1, Twice: t.Outcome.Twice,
			}, Until: m.now(), Hold: protocol.HoldRetry, ReleaseBy: m.now().Add(m.cfg.Tasks.Lease)}, subject)
		case state != protocol.TaskDone && !t.Cancelled && m.odds(30):
			order(protocol.Change{Verb: protocol.VerbCancel, Judged: protocol.Judged{Ref: t.Ref}, Agent: t.Agent}, subject)
		}
	}
}

// changeLoad lets others come and go on the machine.
func (m *simulation) changeLoad() {
	x := &m.machine
	x.accrue()
	x.foreign = x.cores * m.chance.Float64() * 1.1
	x.strange = uint64(2+m.chance.IntN(29)) << 30
	m.note("others take %.1f cores and %d GiB", x.foreign, x.strange>>30)
	if m.odds(10) {
		m.forAWhile(5*time.Second, 2*time.Minute, func(on bool) { x.blind = on })
	}
}

func (m *simulation) hitSteward() {
	switch m.chance.IntN(5) {
	case 0:
		m.brain.stop()
	case 1:
		m.forAWhile(10*time.Second, 90*time.Second, func(on bool) { m.brain.unsave = on })
	default:
		m.brain.kill("from outside")
	}
}

// setClock steps the clock, or lets the machine sleep: for its processes that is the same.
func (m *simulation) setClock() {
	d := pick(m, []time.Duration{m.between(time.Second, 20*time.Second), m.between(time.Minute, 10*time.Minute), m.between(time.Hour, 8*time.Hour), -m.between(time.Second, 30*time.Second), -m.between(time.Minute, 2*time.Hour)})
	m.offset += d
	m.back, m.set, m.stepped = m.back || d < 0, true, m.awake
	m.resume.blind = m.resume.blind || d < 0 && !m.brain.up
	m.note("the clock moves by %v", d)
}

// hitDisk lets a project's files be in trouble.
func (m *simulation) hitDisk(s *site) {
	switch m.chance.IntN(4) {
	case 0:
		m.note("%s: the disk is full", s.name)
		m.forAWhile(10*time.Second, 90*time.Second, func(on bool) { s.full = on })
	case 1:
		m.note("%s: the folder is gone", s.name)
		m.forAWhile(5*time.Second, 2*time.Minute, func(on bool) { s.gone = on })
	case 2:
		m.note("%s: the disk is slow", s.name)
		m.forAWhile(10*time.Second, time.Minute, func(on bool) { s.slow = map[bool]time.Duration{true: 2 * time.Second}[on] })
	default:
		m.note("%s: the disk hangs", s.name)
		m.forAWhile(10*time.Second, 20*time.Second, func(on bool) { s.slow = map[bool]time.Duration{true: 45 * time.Second}[on] })
	}
}

// locks lets an agent take a lock for a while.
func (m *simulation) locks(s *site, a *actor) {
	resource := fmt.Sprint("r", m.seq)
	a.lock(resource, m.odds(20))
	m.after(m.between(10*time.Second, 4*time.Minute), func() { a.unlock(resource) })
}

// heal ends all trouble. Who hangs goes on or ends; who is dead comes back, or not.
func (m *simulation) heal() {
	m.note("the world gets quiet")
	m.quiet = true
	m.machine.accrue()
	m.machine.foreign, m.machine.strange, m.machine.blind = 0, 4<<30, false
	m.brain.unsave, m.brain.doom = false, 0
	for _, s := range m.sites {
		s.full, s.gone, s.slow = false, false, 0
		for _, a := range s.actors {
			a.rec.agent.Held = ""
			for _, p := range a.procs {
				switch {
				case p.alive && !p.moves() && m.odds(50):
					p.thaw()
				case p.alive && !p.moves():
					p.die()
				}
				if last := a.procs[len(a.procs)-1]; p.mute && p == last {
					p.mute, a.turned = false, m.awake
					if p.moves() {
						a.say()
					}
				}
			}
			if len(a.serving()) == 0 && m.odds(60) {
				m.after(m.between(12*time.Second, time.Minute), func() { m.reboot(a) })
			}
		}
	}
	m.cfg.LookEvery = 30 * time.Second
	if m.brain.up {
		m.brain.driver.Configure(m.cfg)
	}
}
