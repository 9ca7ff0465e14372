package supervisor_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"
	"unsafe"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/supervisor"
	"github.com/livhana/steward/supervisor/decide"
)

// brain is steward's process in the simulated world: the loop and the scanners of the product, moved by hand. What a kill
// leaves is saved and heads.
type brain struct {
	m        *simulation
	driver   *supervisor.Driver
	up       bool
	stopping bool
	starts   int
	desks    []*place
	memory   decide.Memory
	plan     decide.Plan
	decided  int
	within   int           // of them in this minute
	minute   time.Duration // since when

	saved  decide.Memory   // a Memory is never changed once it was decided on
	copies []decide.Memory // of what was saved earlier
	copied time.Duration
	heads  map[string]rules.Head
	unsave bool // the memory cannot be written
	doom   int  // it is killed at the so-manieth step from now; 0: never
	thrown any  // what an adapter's law threw: a scanner recovers from panics
	jobs   map[*card]*job

	changes int           // made so far
	told    int           // alerts so far
	calm    time.Duration // when a plan last asked for more than a renewal
}

// place is what the laws know of a project.
type place struct {
	s         *site
	busy      bool
	since     time.Duration
	waits     bool // changes wait to be made
	rests     bool // a change that failed is not tried at present
	looked    bool
	fullAt    time.Duration // of what the last report shows
	shows     time.Duration // of what the report that comes now shows
	scanned   time.Time     // when the loop took in the last one
	snapshots []protocol.Snapshot
	failures  map[string][]time.Duration // when which change failed, of the last minute
}

func newBrain(m *simulation) *brain {
	return &brain{m: m, heads: map[string]rules.Head{}, jobs: map[*card]*job{}}
}

// instant is the layout of a time.Time, so that a simulated clock can have both readings of a real one.
type instant struct {
	wall uint64
	ext  int64
	loc  *time.Location
}

// clock is what time.Now gives in the simulated world: a wall clock that can be set, and a monotonic one that stands still
// while the machine sleeps (TestClockOfTheSimulation).
func (m *simulation) clock() time.Time { return withMonotonic(m.now(), m.awake+time.Second) }

func withMonotonic(wall time.Time, monotonic time.Duration) time.Time {
	const hasMonotonic, since1885 = 1 << 63, 2682288000 // seconds from 1885 to 1970
	i := instant{wall: hasMonotonic | uint64(wall.Unix()+since1885)<<30 | uint64(wall.Nanosecond()), ext: int64(monotonic), loc: time.UTC}
	return *(*time.Time)(unsafe.Pointer(&i))
}

// killed unwinds the loop of a steward that is killed in the middle of a step.
type killed struct{}

var errDoomed = errors.New("killed")

// do lets the loop take a step, and has the orders that follow carried out.
func (b *brain) do(step func() []supervisor.Job) {
	if !b.up {
		return
	}
	defer func() {
		if why := recover(); why != nil && why != any(killed{}) {
			panic(why)
		}
	}()
	for _, job := range step() {
		b.give(job)
	}
	b.mirror()
	if b.stopping && b.driver.Over() {
		b.up, b.stopping, b.doom = false, false, 0
		if err := b.driver.Err(); err != nil {
			b.m.note("steward ends: %v", err)
		}
		b.m.after(b.m.between(time.Second, 20*time.Second), b.start)
	}
}

// give lets a scanner come to its work by and by. What it reports may come later than what it saw.
func (b *brain) give(job supervisor.Job) {
	run := b.starts
	b.m.after(b.m.lag(), func() {
		if !b.up || b.starts != run {
			return
		}
		out, seen := b.carryOut(job), b.m.awake
		b.m.after(b.desk(job.Project()).s.slow, func() {
			if b.up && b.starts == run {
				b.report(job.Project(), out, seen)
			}
		})
	})
}

func (b *brain) carryOut(job supervisor.Job) supervisor.Outcome {
	out := job.CarryOut()
	if why := b.thrown; why != nil {
		b.thrown = nil
		panic(why)
	}
	return out
}

func (b *brain) report(project string, out supervisor.Outcome, seen time.Duration) {
	b.desk(project).shows = seen
	b.do(func() []supervisor.Job { return b.driver.Report(out) })
}

// mirror shows the laws how far the loop is.
func (b *brain) mirror() {
	for _, d := range b.desks {
		state := b.driver.Desk(d.s.name)
		if !state.Scanned.Equal(d.scanned) { // the loop has taken in the report, which it may do after a decision
			d.scanned, d.looked, d.fullAt = state.Scanned, true, d.shows
		}
		d.busy, d.since, d.waits, d.rests, d.snapshots = state.Busy, b.m.awake-state.Since, state.Waits, state.Rests, state.Snapshots
	}
}

// start is a new process of steward.
func (b *brain) start() {
	m := b.m
	b.plan, b.desks, b.doom = decide.Plan{}, nil, 0
	b.saved = b.remembers()
	b.memory = decide.Memory{}
	reread(m, b.saved, &b.memory)
	for _, p := range b.memory.Projects {
		if p.Since.After(m.now()) { // the clock was set back to before that, so nobody knows what ended since
			m.resume.forgot = m.now()
		}
	}
	b.up, b.starts, m.resume.blind = true, b.starts+1, false
	var projects []supervisor.Project
	for _, s := range m.sites {
		d := &place{s: s, failures: map[string][]time.Duration{}}
		b.desks = append(b.desks, d)
		projects = append(projects, b.project(d))
	}
	m.note("steward starts")
	b.driver = supervisor.NewDriver(m.cfg, projects, b.memory, b.doors(), m.clock, b.judge)
	b.do(b.driver.Start)
}

// project is a site as the loop sees it.
func (b *brain) project(d *place) supervisor.Project {
	run, m := b.starts, b.m
	return supervisor.Project{
		Name: d.s.name, Path: "/" + d.s.name,
		Detect: func() []string {
			if d.s.gone {
				return nil
			}
			return []string{"agentstatus"}
		},
		Missing: func() error {
			if d.s.gone {
				return errors.New("the folder is gone")
			}
			return nil
		},
		Open: func(string, protocol.Mode) (supervisor.Speaker, error) {
			return supervisor.Speaker{Adapter: &scene{b: b, d: d, run: run}, Mode: m.mode(), Close: func() {}}, nil
		},
	}
}

// doors returns what connects one run with the world. A kill can come before anything is told, and after.
func (b *brain) doors() supervisor.Deps {
	m := b.m
	die := func() {
		if b.step() != nil {
			panic(killed{})
		}
	}
	return supervisor.Deps{
		Measure: func(now time.Time) capacity.Load { return m.machine.sample(now) },
		Usage:   func(_ []protocol.Identity, now time.Time) []capacity.Usage { return m.usage(now) },
		Inspect: func(pid int) (protocol.Identity, bool) {
			id := m.inspect(pid)
			return id, id.Proves()
		},
		Follow:    func(protocol.Identity) {},
		Check:     m.process,
		Incidents: func() map[string]rules.Head { return b.heads },
		Tell: func(a rules.Alert) error {
			b.tell(a)
			die()
			return nil
		},
		Save: func(memory decide.Memory) error {
			if b.unsave {
				return jsonfile.ErrNoSpace
			}
			b.saved = memory
			b.copySaved()
			die()
			return nil
		},
		Note: func(supervisor.Entry) {},
	}
}

// judge makes a plan, and holds it to the laws.
func (b *brain) judge(view decide.View, old decide.Memory, cfg decide.Config) decide.Plan {
	m := b.m
	plan := supervisor.Decide(view, old, cfg)
	b.decided++
	b.mirror()
	if b.stopping {
		return plan
	}
	view.Now = view.Now.Round(0) // the laws go by the wall clock, as the rules do
	checkReasons(m, plan)
	if b.decided%101 == 0 {
		checkSettled(m, view, old, cfg, plan)
	}
	if m.awake-b.minute > time.Minute {
		b.minute, b.within = m.awake, 0
	}
	if b.within++; b.within > 2000 {
		m.Fatalf("no rest: %d decisions within a minute: wake %v, looks %v, %+v", b.within, plan.Wake, plan.Looks, plan.Changes)
	}
	m.checkPlan(view, old, plan)
	b.plan, b.memory = plan, plan.Memory
	return plan
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
	b.heads, b.told, b.calm = next, b.told+1, b.m.awake
}

// kill ends it without a word; it starts again by and by.
func (b *brain) kill(why string) {
	m := b.m
	if !b.up {
		return
	}
	m.note("steward is killed: %s", why)
	b.up, b.stopping, b.doom = false, false, 0
	away := m.between(200*time.Millisecond, 20*time.Second)
	if m.odds(20) {
		away = m.between(time.Minute, 4*time.Minute)
	}
	m.after(away, b.start)
}

// stop ends it in good order: nothing stays held.
func (b *brain) stop() {
	if !b.up || b.stopping {
		return
	}
	b.m.note("steward stops")
	b.stopping = true
	b.do(b.driver.Stop)
}

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
	return b.m.awake + b.driver.Next()
}

// tick lets the loop do what has fallen due.
func (b *brain) tick() { b.do(b.driver.Tick) }

// lag is how long a scanner takes to come to its work.
func (m *simulation) lag() time.Duration {
	if m.kind != mixed || m.quiet {
		return time.Millisecond
	}
	return m.between(time.Millisecond, 30*time.Millisecond)
}

// exited applies that a watched process has ended.
func (b *brain) exited(id protocol.Identity) {
	if !b.stopping {
		b.do(func() []supervisor.Job { return b.driver.Exited(id) })
	}
}

// hint has a project looked at soon, unless the hint is lost.
func (m *simulation) hint(s *site) {
	if b := m.brain; (m.kind != mixed || !m.odds(10)) && !b.stopping {
		b.do(func() []supervisor.Job { return b.driver.Hint(s.name, "files") })
	}
}

// order is a person's.
func (b *brain) order(c protocol.Change) {
	if !b.stopping {
		b.m.giveWord(c)
		b.do(func() []supervisor.Job { return b.driver.Order(c) })
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

// rest stops the world, and looks, decides and acts until nothing is left to do: three turns must do.
func (b *brain) rest() {
	m := b.m
	if !b.up || b.stopping || b.unsave || slices.ContainsFunc(m.sites, func(s *site) bool { return s.full || s.gone }) ||
		slices.ContainsFunc(b.desks, func(d *place) bool { return d.busy || d.waits || d.rests }) {
		return
	}
	b.doom = 0
	for range 4 {
		before := b.changes + b.told
		for _, s := range m.sites {
			b.atOnce(func() []supervisor.Job { return b.driver.Hint(s.name, "") })
		}
		if b.changes+b.told == before {
			m.checkHolds()
			return
		}
	}
	m.Fatalf("no rest: %+v %+v", b.plan.Changes, b.plan.Alerts)
}

// atOnce lets the loop take a step, and carries out what follows while the world stands still.
func (b *brain) atOnce(step func() []supervisor.Job) {
	for list := step(); len(list) > 0; list = list[1:] {
		out := b.carryOut(list[0])
		d := b.desk(list[0].Project())
		d.shows = b.m.awake
		list = append(list, b.driver.Report(out)...)
		d.looked, d.fullAt = true, b.m.awake
	}
	b.mirror()
}

// scene is the adapter of one site for one run of steward.
type scene struct {
	b   *brain
	d   *place
	run int
}

func (s *scene) Dirs() []string { return nil }

func (s *scene) Prepare(context.Context, protocol.Boot) error { return protocol.ErrUnsupported }

// dead reports whether the steward that looks was killed meanwhile.
func (s *scene) dead() bool { return !s.b.up || s.b.starts != s.run }

// keep keeps what a law throws until the scanner is done.
func (s *scene) keep() {
	if why := recover(); why != nil && s.b.thrown == nil {
		s.b.thrown = why
	}
}

func (s *scene) Observe(_ context.Context, look protocol.ScanOrder) (snap protocol.Snapshot) {
	defer s.keep()
	if s.d.s.gone {
		return protocol.Snapshot{At: look.Now, Faults: []protocol.Fault{{Path: "/" + s.d.s.name, Problem: "the folder is gone", Since: look.Now}}}
	}
	return s.b.m.look(s.d.s, look)
}

func (s *scene) Apply(ctx context.Context, c protocol.Change, now time.Time) (err error) {
	defer s.keep()
	b, m, d := s.b, s.b.m, s.d
	if s.dead() || b.thrown != nil {
		return errDoomed
	}
	m.checkChange(d, c)
	m.checkWord(c)
	err = protocol.ErrConflict
	card := d.s.files.cards[c.Subject.ID]
	switch {
	case d.s.gone:
	case c.Verb == protocol.VerbConclude && card != nil && claimOf(card) != c.Claim:
	default:
		before := snapshotOf(card)
		err = d.s.files.Apply(ctx, c, m.now())
		m.checkApplied(d, c, before, err)
	}
	m.spendWord(c, err)
	if c.Verb != protocol.VerbLog && c.Verb != protocol.VerbRenew {
		m.note("%s: %s %s (%s) %s%s", d.s.name, c.Verb, c.Subject.ID, c.Reason, c.Code, problem(err))
	}
	m.checkEffort(d, c, err)
	if b.changes++; c.Verb != protocol.VerbRenew {
		b.calm = m.awake
	}
	return err
}

func problem(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}
