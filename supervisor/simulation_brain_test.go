package supervisor_test

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/supervisor"
	"github.com/livhana/steward/supervisor/decide"
)

// brain is steward's process: the loop around Decide, in one thread. What a kill leaves is saved and heads.
type brain struct {
	m      *simulation
	up     bool
	starts int
	since  time.Duration // of this process
	memory decide.Memory
	plan   decide.Plan
	desks  []*place
	load   capacity.Load

	resumed    bool
	pulse      time.Time
	pulseAwake time.Duration
	sampled    time.Duration
	stored     time.Duration
	decided    int
	within     int           // of them in this minute
	minute     time.Duration // since when

	saved   decide.Memory   // a Memory is never changed once it was decided on
	copies  []decide.Memory // of what was saved earlier
	copied  time.Duration
	heads   map[string]rules.Head
	unsave  bool      // the memory cannot be written
	unsaved time.Time // since when it could not
	doom    int       // it is killed at the so-manieth step from now; 0: never
	jobs    map[*card]*job

	changes int           // made so far
	calm    time.Duration // when a plan last asked for more than a renewal
}

// place is the loop's desk for one project.
type place struct {
	s         *site
	busy      bool
	since     time.Duration
	looked    bool
	full      bool
	fullAt    time.Duration
	snapshots []protocol.Snapshot
	processes map[protocol.Identity]heartbeat.ProcessState
	claims    map[int]protocol.Identity
	due       []protocol.Change
	commands  []protocol.Change
	efforts   *supervisor.Efforts
	failures  map[string][]time.Duration // when which change failed, of the last minute
}

func newBrain(m *simulation) *brain {
	return &brain{m: m, heads: map[string]rules.Head{}, jobs: map[*card]*job{}}
}

// start is a new process of steward.
func (b *brain) start() {
	m := b.m
	b.memory, b.plan, b.desks, b.doom, b.resumed = decide.Memory{}, decide.Plan{}, nil, 0, false
	b.saved = b.remembers()
	reread(m, b.saved, &b.memory)
	for _, p := range b.memory.Projects {
		if p.Since.After(m.now()) { // the clock was set back to before that, so nobody knows what ended since
			m.resume.forgot = m.now()
		}
	}
	b.since = m.awake
	b.up, b.pulse, b.pulseAwake = true, m.now(), m.awake
	b.starts++
	for _, s := range m.sites {
		b.desks = append(b.desks, &place{s: s, full: true, efforts: supervisor.NewEfforts(), failures: map[string][]time.Duration{}})
	}
	m.note("steward starts")
	b.sample()
	b.dispatch()
}

// kill ends it without a word; it starts again by and by.
func (b *brain) kill(why string) {
	m := b.m
	if !b.up {
		return
	}
	m.note("steward is killed: %s", why)
	b.up, b.doom = false, 0
	away := m.between(200*time.Millisecond, 20*time.Second)
	if m.odds(20) {
		away = m.between(time.Minute, 4*time.Minute)
	}
	m.after(away, b.start)
}

// stop ends it in good order: nothing stays held.
func (b *brain) stop() {
	m := b.m
	if !b.up {
		return
	}
	m.note("steward stops")
	for _, d := range b.desks {
		for i := range d.snapshots {
			for _, t := range d.snapshots[i].Tasks {
				if t.Hold == nil || d.s.gone {
					continue
				}
				subject := d.snapshots[i].Subject(protocol.KindTask, t.ID)
				c := protocol.Change{Verb: protocol.VerbRelease, Subject: subject, Reason: protocol.ReasonStopping, Ref: t.Ref, Agent: t.Agent}
				if mem, known := b.memory.Tasks.Find(subject); known {
					mem.Held = false
					b.memory.Tasks = b.memory.Tasks.With(subject, mem)
				}
				_ = b.apply(d, c)
			}
		}
	}
	_ = b.save()
	b.up, b.doom = false, 0
	m.after(m.between(time.Second, 20*time.Second), b.start)
}

var errDoomed = errors.New("killed")

// step is called before each step that a crash can come before.
func (b *brain) step() error {
	if b.doom == 0 {
		return nil
	}
	if b.doom--; b.doom > 0 {
		return nil
	}
	b.kill("between two steps")
	return errDoomed
}

// step is the folder's: a crash or a full disk comes before it.
func (m *simulation) step(s *site) error {
	if err := m.brain.step(); err != nil {
		return err
	}
	if s.full {
		return jsonfile.ErrNoSpace
	}
	return nil
}

// never is when a steward that is not there has something to do.
const never = time.Duration(1<<63 - 1)

// next is when tick has something to do.
func (b *brain) next() time.Duration {
	if !b.up {
		return never
	}
	m := b.m
	at := min(b.sampled+b.sampleEvery(), m.awake+m.cfg.LookEvery)
	if w := b.plan.Wake; !w.IsZero() {
		at = min(at, m.awake+w.Sub(m.now()))
	}
	for _, d := range b.desks {
		if !d.busy {
			at = min(at, b.dueOf(d))
		}
	}
	return max(at, m.awake)
}

func (b *brain) dueOf(d *place) time.Duration {
	at := d.fullAt + b.m.cfg.LookEvery
	if !d.looked {
		return b.m.awake
	}
	if w, ok := b.plan.Looks[d.s.name]; ok {
		at = min(at, max(b.m.awake+w.Sub(b.m.now()), d.fullAt+25*time.Millisecond))
	}
	return at
}

func (b *brain) sampleEvery() time.Duration {
	cfg := b.m.cfg.Capacity
	if len(b.memory.Gate.Held) == 0 {
		cfg.SampleNear = cfg.SampleEvery
		if b.m.quiet {
			return cfg.SampleIdle
		}
	}
	return cfg.SampleIn(b.load.Fresh(b.m.now()), b.plan.Agents.Len() == 0)
}

// feel notices a sleep, or a step of the clock.
func (b *brain) feel() {
	now, m := b.m.now(), b.m
	apart := now.Sub(b.pulse) - (m.awake - b.pulseAwake)
	if heartbeat.Resumed(b.pulse, now, m.cfg.LookEvery) || apart.Abs() > m.cfg.LookEvery {
		b.resumed = true
		m.note("steward: the machine slept, or its clock was set")
	}
	b.pulse, b.pulseAwake = now, m.awake
}

// tick does what has fallen due by time alone.
func (b *brain) tick() {
	m := b.m
	b.feel()
	before := b.decided
	if m.awake >= b.sampled+b.sampleEvery() {
		b.sample()
	}
	turn := m.quiet && slices.ContainsFunc(b.desks, func(d *place) bool { return m.awake >= d.fullAt+m.cfg.LookEvery })
	for _, d := range b.desks { // what is due soon goes with the turn, as in the loop
		d.full = d.full || !d.busy && (m.awake >= b.dueOf(d) || turn && m.awake >= d.fullAt+m.cfg.LookEvery/2)
	}
	if w := b.plan.Wake; b.up && !w.IsZero() && !m.now().Before(w) && b.decided == before {
		b.decide()
	}
	if b.up && !m.quiet && m.awake-b.stored > 30*time.Second {
		_ = b.save()
	}
	b.dispatch()
}

func (b *brain) sample() {
	b.sampled = b.m.awake
	b.load = b.m.machine.sample(b.m.now())
	if len(b.memory.Gate.Held) > 0 {
		b.decide()
	}
}

// dispatch hands every idle looker what waits for it.
func (b *brain) dispatch() {
	for _, d := range b.desks {
		if d.busy || !b.up || !d.full && len(d.due)+len(d.commands) == 0 {
			continue
		}
		changes, run := append(d.due, d.commands...), b.starts
		d.busy, d.since, d.full, d.due, d.commands = true, b.m.awake, false, nil, nil
		b.m.after(b.m.lag(), func() {
			if b.up && b.starts == run {
				b.carryOut(d, changes, run)
			}
		})
	}
}

// lag is how long a looker takes to come to its work.
func (m *simulation) lag() time.Duration {
	if m.kind != mixed || m.quiet {
		return time.Millisecond
	}
	return m.between(time.Millisecond, 30*time.Millisecond)
}

// carryOut makes the changes, and looks.
func (b *brain) carryOut(d *place, changes []protocol.Change, run int) {
	b.feel()
	for _, c := range changes {
		if err := b.apply(d, c); !b.up {
			return
		} else if err != nil {
			d.full = true
		}
	}
	b.m.after(d.s.slow, func() {
		if b.up && b.starts == run {
			b.feel()
			b.lookAt(d)
			if !b.m.quiet || !slices.ContainsFunc(b.desks, func(other *place) bool { return other.busy && other.since == d.since }) {
				b.decide() // with the last look of a turn
			}
			b.dispatch()
		}
	})
}

// apply makes one change.
func (b *brain) apply(d *place, c protocol.Change) error {
	m := b.m
	m.checkChange(d, c)
	err := error(protocol.ErrConflict)
	card := d.s.files.cards[c.Subject.ID]
	switch {
	case d.s.gone:
	case c.Verb == protocol.VerbConclude && card != nil && claimOf(card) != c.Claim:
	default:
		before := snapshotOf(card)
		err = d.s.files.Apply(context.Background(), c, m.now())
		m.checkApplied(d, c, before, err)
	}
	if c.Verb != protocol.VerbLog && c.Verb != protocol.VerbRenew {
		m.note("%s: %s %s (%s) %s%s", d.s.name, c.Verb, c.Subject.ID, c.Reason, c.Code, problem(err))
	}
	d.efforts.Tried(c, err, m.uptime())
	m.checkEffort(d, c, err)
	b.changes++
	return err
}

// uptime is the monotonic clock.
func (m *simulation) uptime() time.Time { return midnight.Add(m.awake) }

func problem(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}

// lookAt is a full look at one project.
func (b *brain) lookAt(d *place) {
	m := b.m
	looked := b.memory.LookedAt(d.s.name)
	if !b.unsaved.IsZero() {
		looked = b.saved.LookedAt(d.s.name)
	}
	d.snapshots = m.look(d.s, b.memory.History(d.s.name, m.now(), looked, m.cfg.Tasks.History))
	d.busy, d.looked, d.fullAt = false, true, m.awake
	b.follow(d)
}

// follow looks at the processes that the files speak of.
func (b *brain) follow(d *place) {
	wanted, claims := map[protocol.Identity]heartbeat.ProcessState{}, map[int]protocol.Identity{}
	want := func(id protocol.Identity) {
		if d.processes[id] == heartbeat.ProcessGone || !id.Proves() {
			wanted[id] = heartbeat.ProcessGone
		} else {
			wanted[id] = b.m.process(id)
		}
	}
	for i := range d.snapshots {
		snap := &d.snapshots[i]
		for j := range snap.Agents {
			a := &snap.Agents[j]
			for _, id := range append(slices.Clone(a.Others), a.Process) {
				if id.Proves() {
					want(id)
				}
			}
			id := heartbeat.Watch(*a, b.memory.Agents.Of(snap.Subject(protocol.KindAgent, a.Name)))
			if id.PID != 0 && !id.Proves() {
				known, ok := d.claims[id.PID]
				if !ok {
					known = b.m.inspect(id.PID)
				}
				claims[id.PID], id = known, known
			}
			if id.PID != 0 {
				want(id)
			}
		}
		for _, t := range snap.Tasks {
			for _, id := range t.Workers {
				want(id)
			}
		}
		for _, l := range snap.Locks {
			if l.Process.Proves() {
				want(l.Process)
			}
		}
	}
	d.processes, d.claims = wanted, claims
}

// exited takes in that a watched process has ended.
func (b *brain) exited(id protocol.Identity) {
	known := false
	for _, d := range b.desks {
		if _, ok := d.processes[id]; ok {
			d.processes[id], known = heartbeat.ProcessGone, true
		}
	}
	if known {
		b.feel()
		b.decide()
		b.dispatch()
	}
}

// hint has a project looked at soon, unless the hint is lost.
func (m *simulation) hint(s *site) {
	if m.kind == mixed && m.odds(10) {
		return
	}
	for _, d := range m.brain.desks {
		if d.s == s && m.brain.up {
			d.full = true
			m.brain.dispatch()
		}
	}
}

// save stores the memory.
func (b *brain) save() error {
	b.stored = b.m.awake
	if b.unsave && b.unsaved.IsZero() {
		b.unsaved = b.m.now()
	}
	if b.unsave {
		return jsonfile.ErrNoSpace
	}
	b.saved, b.unsaved = b.memory, time.Time{}
	b.copySaved()
	return nil
}
