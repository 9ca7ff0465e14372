package supervisor_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
)

// style is how an agent shows what it works on.
type style int

const (
	lister   style = iota // by active_tasks in its heartbeat
	reporter              // by a progress file for each task
	claimer               // by claims, which name the processes
	silent                // not at all
)

// proof is what its files say of its process.
type proof int

const (
	recorded proof = iota // an identity that was recorded while it lived
	claimed               // a bare pid
	unknown               // nothing
)

// actor is an agent as it really is. One name may be served by several workers, where they claim their tasks.
type actor struct {
	m      *simulation
	s      *site
	name   string
	style  style
	proof  proof
	width  int // tasks at once, for each process
	every  time.Duration
	poll   time.Duration
	rec    *sim    // what its files say
	procs  []*proc // all that ever served the name, oldest first
	beats  int
	left   bool
	heard  time.Duration // when it beat last
	turned time.Duration // when its state last changed
	locks  map[string]bool
	clock  agentClock
}

// proc is one process of an agent.
type proc struct {
	a       *actor
	id      protocol.Identity
	alive   bool
	hung    bool // it does nothing, and says nothing
	stopped bool
	mute    bool // it works and does not beat
	works   []*attempt
	handing []*attempt // done, and their results not yet written
	cpu     time.Duration
	counted time.Duration
}

// moves reports whether it does anything.
func (p *proc) moves() bool { return p.alive && !p.hung && !p.stopped }

// spent is the processor time that it has used.
func (p *proc) spent(now time.Duration) time.Duration {
	if p.moves() {
		p.cpu += (now - p.counted) / 100
		for _, w := range p.works {
			p.cpu += time.Duration(float64(now-p.counted) * w.cores)
		}
	}
	p.counted = now
	return p.cpu
}

// attempt is one at a task, as it really is.
type attempt struct {
	p      *proc
	c      *card
	id     string
	cores  float64
	memory uint64
	from   time.Duration
	left   time.Duration // what is still to be done
	since  time.Duration // from when
	over   bool
	n      int // results that had been taken away before
	turn   int // counts the times that its end was foreseen
}

// lives reports whether the attempt goes on, or may go on.
func (w *attempt) lives() bool { return !w.over && w.p.alive }

// hire brings an agent into a project.
func (m *simulation) hire(s *site, name string) *actor {
	a := &actor{m: m, s: s, name: name, style: style(m.chance.IntN(4)), proof: proof(m.chance.IntN(3)), width: 1 + m.chance.IntN(3),
		every: m.between(10*time.Second, 30*time.Second), poll: m.between(time.Second, 10*time.Second),
		rec: &sim{silent: true, agent: protocol.Agent{Name: name, Status: "active", Recorded: "active", Ref: protocol.Ref{Path: "registry", Sum: "0"}}}}
	if m.kind == herded {
		a.style, a.proof, a.width, a.poll = lister, recorded, 1, m.between(time.Second, 2*time.Second)
	}
	a.rec.agent.Claims, a.clock = a.style == claimer, m.drawClock()
	s.actors, s.files.sims = append(s.actors, a), append(s.files.sims, a.rec)
	a.boot()
	if a.style == claimer {
		a.proof = recorded
		for range m.chance.IntN(3) {
			a.join()
		}
	}
	m.after(m.between(0, a.every), a.beat)
	return a
}

// boot starts the agent's (next) process and registers it.
func (a *actor) boot() *proc {
	p := a.join()
	rec := &a.rec.agent
	rec.Registered, rec.Status, rec.Recorded, rec.Left, a.left = a.clock.latest(a.clock.states(a.m.now())), "active", "active", "", false
	rec.Process, rec.PID, rec.Others = protocol.Identity{}, 0, nil
	switch {
	case a.proof == recorded || a.style == claimer:
		rec.Process = p.id
	case a.proof == claimed:
		rec.PID = p.id.PID
	}
	a.turned = a.m.awake
	a.m.note("%s/%s boots as %d", a.s.name, a.name, p.id.PID)
	a.say()
	return p
}

// join is another process of the same name.
func (a *actor) join() *proc {
	p := &proc{a: a, id: a.m.identity(), alive: true, counted: a.m.awake}
	if len(a.procs) > 0 && a.rec.agent.Process.Proves() {
		a.rec.agent.Others = append(slices.Clone(a.rec.agent.Others), p.id)
	}
	a.procs = append(a.procs, p)
	a.m.after(a.m.between(500*time.Millisecond, a.poll), p.look)
	return p
}

// serving are the processes that are there.
func (a *actor) serving() []*proc {
	var list []*proc
	for _, p := range a.procs {
		if p.alive {
			list = append(list, p)
		}
	}
	return list
}

// able reports whether somebody of the name takes tasks and beats.
func (a *actor) able() bool {
	return !a.left && slices.ContainsFunc(a.procs, func(p *proc) bool { return p.moves() && !p.mute })
}

// beat is the agent's own rhythm.
func (a *actor) beat() {
	a.m.after(a.m.between(a.every*9/10, a.every), a.beat)
	if a.able() {
		a.say()
	}
}

// say writes the heartbeat.
func (a *actor) say() {
	if a.s.gone {
		return
	}
	a.heard = a.m.awake
	a.beats++
	now := a.m.now()
	a.rec.agent.Beat = a.clock.beat(fmt.Sprint("beat ", a.beats), now)
	a.rec.agent.Tasks = nil
	for _, p := range a.procs {
		for _, w := range p.works {
			if a.style == lister && p.moves() && !p.mute {
				a.rec.agent.Tasks = append(a.rec.agent.Tasks, w.id)
			}
		}
	}
	a.renewLocks(now)
}

// look is a process looking for work.
func (p *proc) look() {
	a, m := p.a, p.a.m
	if !p.alive {
		return
	}
	m.after(m.between(a.poll*8/10, a.poll), p.look)
	if !p.moves() || p.mute || a.left || a.s.gone || a.rec.agent.Held != "" {
		return
	}
	for _, id := range a.s.files.order {
		if c := a.s.files.cards[id]; len(p.works) < a.width && c.task.Agent == a.name && c.open && c.result == nil && len(c.workers) == 0 && !p.has(c) {
			p.take(id, c)
		}
	}
	if a.style == reporter {
		for _, w := range p.works {
			if w.c.open && w.c.result == nil {
				w.c.named, w.c.progress = "progress", m.now()
			}
		}
	}
}

func (p *proc) has(c *card) bool {
	return slices.ContainsFunc(slices.Concat(p.works, p.handing), func(w *attempt) bool { return w.c == c })
}

// take begins an attempt.
func (p *proc) take(id string, c *card) {
	a, m := p.a, p.a.m
	j := m.job(c)
	w := &attempt{p: p, c: c, id: id, cores: j.cores, memory: j.memory, from: m.awake, left: j.lasts, since: m.awake, n: c.takenAway()}
	m.checkTake(w)
	p.spent(m.awake)
	p.works, m.works = append(p.works, w), append(m.works, w)
	m.machine.load(w, 1)
	j.admitted, j.taken = true, true
	m.note("%s/%s (%d) takes %s for %v", a.s.name, a.name, p.id.PID, id, w.left)
	switch a.style {
	case reporter:
		c.named, c.progress = "progress", m.now()
	case claimer:
		c.named, c.workers = "claim", []protocol.Identity{p.id}
	case lister:
		if m.kind == herded || j.starts > 1 || m.odds(50) {
			a.say()
		}
	}
	m.hint(a.s)
	p.foresee(w)
}

// foresee enters the end of an attempt.
func (p *proc) foresee(w *attempt) {
	w.turn++
	turn := w.turn
	p.a.m.after(w.left, func() {
		if w.turn == turn && w.lives() && p.moves() {
			p.finish(w)
		}
	})
}

// finish ends an attempt with a result.
func (p *proc) finish(w *attempt) {
	a, m := p.a, p.a.m
	if a.s.gone { // nowhere to write it
		m.after(5*time.Second, func() {
			if w.lives() && p.moves() {
				p.finish(w)
			}
		})
		return
	}
	p.end(w)
	p.handing = append(p.handing, w)
	if a.style == lister && !p.mute && m.odds(30) { // names are cleared a moment before the result comes
		a.say()
		m.hint(a.s)
		m.after(m.between(0, 2*time.Second), func() { m.deliver(a, w) })
		return
	}
	m.deliver(a, w)
}

// end takes the attempt off the machine. Its result may still be in the writing; it takes no room any more.
func (p *proc) end(w *attempt) {
	if w.over {
		return
	}
	p.spent(p.a.m.awake)
	w.over = true
	j := p.a.m.job(w.c)
	j.admitted, j.taken = false, false
	p.works = slices.DeleteFunc(slices.Clone(p.works), func(x *attempt) bool { return x == w })
	p.a.m.machine.load(w, -1)
}

// deliver writes the result where it belongs, as a client does.
func (m *simulation) deliver(a *actor, w *attempt) {
	if a.s.gone {
		m.after(5*time.Second, func() { m.deliver(a, w) })
		return
	}
	o := m.outcome(w)
	m.note("%s/%s ends %s: %s", a.s.name, a.name, w.id, word(o))
	c := w.c
	w.p.handing = slices.DeleteFunc(w.p.handing, func(x *attempt) bool { return x == w })
	if len(c.workers) == 1 && c.workers[0] == w.p.id {
		c.workers, c.named = nil, ""
	}
	j := m.job(c)
	switch {
	case c.result == nil || c.result.Ours:
		a.s.files.finish(w.id, o, m.now())
		j.first = !j.had[w.n] && !j.mixed
		j.mixed = j.mixed || w.n < c.takenAway() // from here on nobody can tell whose the next result is
		j.had[w.n] = true
		j.reported[w.n] = j.reported[w.n] || w.n == c.takenAway()
		j.delivered = j.delivered || o.Succeeded()
	default:
		c.late = &protocol.Ref{Path: "late", Sum: fmt.Sprint("late ", m.seq)}
	}
	if a.style == lister && w.p.moves() && !w.p.mute {
		a.say()
	}
	j.blind = m.resume.blind
	m.hint(a.s)
}

func word(o protocol.Outcome) string {
	if len(o.Failures) > 0 {
		return o.Status + " " + o.Failures[0].Code
	}
	return o.Status
}

// die ends the process, and with it all that it had in hand.
func (p *proc) die() {
	m := p.a.m
	if !p.alive {
		return
	}
	m.note("%s/%s (%d) ends", p.a.s.name, p.a.name, p.id.PID)
	for _, w := range slices.Clone(p.works) {
		p.end(w)
	}
	p.alive = false
	if m.brain.up && (m.kind != mixed || m.odds(90)) { // else the exit is only found by the next look
		m.brain.exited(p.id)
	}
}

// freeze stops the process in its tracks: hung, or stopped by a signal.
func (p *proc) freeze(stopped bool) {
	m := p.a.m
	if !p.moves() {
		return
	}
	p.spent(m.awake)
	m.note("%s/%s (%d) hangs (stopped %t)", p.a.s.name, p.a.name, p.id.PID, stopped)
	p.hung, p.stopped = !stopped, stopped
	for _, w := range p.works {
		w.left, w.turn = max(0, w.left-(m.awake-w.since)), w.turn+1
	}
}

// thaw resumes it.
func (p *proc) thaw() {
	if !p.alive || p.moves() {
		return
	}
	m := p.a.m
	m.note("%s/%s (%d) goes on", p.a.s.name, p.a.name, p.id.PID)
	p.hung, p.stopped, p.counted, p.a.turned = false, false, m.awake, m.awake
	for _, w := range p.works {
		w.since = m.awake
		p.foresee(w)
	}
	if !p.mute && !p.a.left {
		p.a.say()
	}
}

// renewLocks keeps the agent's locks, most of the time; some it forgets.
func (a *actor) renewLocks(now time.Time) {
	locks := a.s.files.foreign.locks
	for i := range locks {
		if locks[i].Holder == a.name && !a.locks[locks[i].Resource] {
			locks[i].Expires = a.clock.states(now).Add(2 * time.Minute)
			locks[i].Ref.Sum = fmt.Sprint(locks[i].Resource, " ", a.beats)
		}
	}
}

// lock takes a lock; a forgetful holder never renews it.
func (a *actor) lock(resource string, forgets bool) {
	if a.s.gone || !a.able() {
		return
	}
	if a.locks == nil {
		a.locks = map[string]bool{}
	}
	a.locks[resource] = forgets
	now := a.clock.states(a.m.now())
	l := protocol.Lock{Resource: resource, Holder: a.name, Acquired: now, Expires: now.Add(2 * time.Minute), Zoneless: a.clock.zoneless,
		Ref: protocol.Ref{Path: "state.json", Sum: resource}}
	if serving := a.serving(); a.proof == recorded && len(serving) == 1 {
		l.Process = serving[0].id
	}
	a.s.files.foreign.locks = append(a.s.files.foreign.locks, l)
	a.m.note("%s/%s locks %s (forgets it: %t)", a.s.name, a.name, resource, forgets)
}

// unlock releases it.
func (a *actor) unlock(resource string) {
	if !a.able() || a.s.gone {
		return
	}
	a.s.files.foreign.locks = slices.DeleteFunc(a.s.files.foreign.locks, func(l protocol.Lock) bool { return l.Resource == resource && l.Holder == a.name })
}
