package supervisor

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor/decide"
)

// loop is the supervisor as a state machine. step takes one event and returns the orders for the scanners. The loop
// reaches the gauges, the memory file and the incidents through its dependencies. It starts no goroutine and sets no
// timer. See docs/decisions.md, "The loop is a state machine".
type loop struct {
	deps    Deps
	log     *slog.Logger
	now     func() time.Time
	judge   func(decide.View, decide.Memory, decide.Config) decide.Plan // decide.Decide
	state   atomic.Pointer[State]
	metrics *Metrics

	cfg       decide.Config
	memory    decide.Memory
	projects  map[string]*projectState
	load      capacity.Load
	usage     []capacity.Usage
	plan      decide.Plan
	scans     int
	decided   int
	started   time.Time
	saver     saver
	lastStep  time.Time // time of the last step
	resumed   bool
	removed   removals
	recent    []Done
	sampled   time.Time
	watches   bool             // a task is open or an agent's process is recorded, so readings matter
	processes []decide.Process // of all projects; nil: list them again
	decideBy  time.Time        // deadline for the decision on the scans of one turn; zero: none is pending
	own       ownTrouble
	ended     map[protocol.Subject]time.Time // hung tasks whose processes steward ended, with the start of the hang
	surveyed  time.Time
	ready     func()
}

// event is the input of step: a Hint, processExited, report, alarmRang, request, timeCame or stopAsked.
type event any

type (
	processExited struct{ id protocol.Identity } // a watched process has ended
	alarmRang     struct{}                       // the kernel reports pressure
	timeCame      struct{}                       // the time of next has come
	stopAsked     struct{}                       // release everything
)

// assignment is an order for the scanner of one project.
type assignment struct {
	project *projectState
	order   order
}

func newLoop(cfg decide.Config, projects []Project, memory decide.Memory, deps Deps, now func() time.Time, log *slog.Logger, metrics *Metrics) *loop {
	s := &loop{deps: deps, log: log, now: now, judge: decide.Decide, cfg: cfg, memory: memory, metrics: metrics, projects: map[string]*projectState{}}
	s.saver.deps, s.removed.notHeld = &s.deps, s.stillHeld
	for _, p := range projects {
		s.projects[p.Name] = newProjectState(p)
	}
	s.deps.fillOptional()
	return s
}

// start adopts the open incidents and orders of the last run and takes the first sample.
func (s *loop) start() {
	s.started = s.now()
	s.saver.onDisk = s.memory
	s.lastStep = s.started
	s.saver.adopt(s.started)
	s.deps.Orders.tell(s.deps.Tell)
	s.sample()
}

// sampleAgain takes the second sample: the processor load is known from then on.
func (s *loop) sampleAgain() {
	s.sample()
	s.show(s.view(s.now()))
}

// step handles one event and returns the orders that follow from it.
func (s *loop) step(e event) []assignment {
	if _, hint := e.(Hint); !hint {
		s.noticeSleep()
	}
	switch e := e.(type) {
	case Hint:
		s.addHint(e)
	case processExited:
		s.exited(e.id)
	case report:
		s.report(e)
	case alarmRang:
		s.sample()
	case request:
		s.answer(e)
	case timeCame:
		s.tick()
	case stopAsked:
		s.beginStop()
	}
	orders := s.orders()
	s.announceReady()
	return orders
}

// noticeSleep detects that the machine slept or that its clock was set since the last step.
func (s *loop) noticeSleep() {
	now := s.now()
	if heartbeat.Resumed(s.lastStep, now, s.cfg.LookEvery) {
		s.resumed = true
		s.log.Info("the machine slept, or its clock was set", "before", s.lastStep, "now", now)
		s.deps.Note(Entry{At: now, Kind: "note", Subject: protocol.Subject{Kind: protocol.KindMachine, ID: "clock"},
			Text: "the machine slept, or its clock was set: no agent is declared dead by silence for " + s.cfg.Heartbeat.ResumeGrace.String()})
		s.lastStep = now
		s.sample() // the last reading is from before the sleep; without a reading the gate admits everything
		return
	}
	s.lastStep = now
}

// announceReady calls the function of OnReady after the first scan of every project.
func (s *loop) announceReady() {
	if s.ready == nil {
		return
	}
	for _, d := range s.projects {
		if d.scannedAt.IsZero() && s.now().Sub(s.started) < s.cfg.LookEvery {
			return
		}
	}
	s.ready()
	s.ready = nil
}

// tick does everything that is due by time.
func (s *loop) tick() {
	now := s.now()
	if !s.removed.deadline.IsZero() {
		s.removed.giveUp(now, s.cfg.Tasks.Lease)
		return
	}
	decided := s.decided
	sample, look := s.slack(now)
	hurry := s.unwatchedSlack(now)
	if !now.Before(s.sampled.Add(s.sampleEvery() - sample)) {
		s.sample()
	}
	for _, d := range s.projects {
		if d.unwatched != nil {
			s.scheduleScan(d, now, hurry)
		} else {
			s.scheduleScan(d, now, look)
		}
	}
	if s.decisionDue(now) && s.decided == decided {
		s.decide()
	}
	s.saveIdle(now)
}

// mostHintScans limits the scans between two full ones that only the adapter asks for.
const mostHintScans = 40

// next is when the next tick is due. It is at most one scan interval away, so that noticeSleep can tell a sleep of the
// machine from an idle loop.
func (s *loop) next() time.Time {
	if !s.removed.deadline.IsZero() {
		return s.removed.deadline
	}
	now := s.now()
	wait := s.sampleDue().Sub(now)
	// A moment of this process has a monotonic reading, one of the plan only that of the wall clock. They have no common
	// order after the clock was set, but their distances from now have.
	earlier := func(t time.Time) {
		if !t.IsZero() {
			wait = min(wait, t.Sub(now))
		}
	}
	earlier(now.Add(s.cfg.LookEvery))
	earlier(s.plan.Wake)
	earlier(s.decideBy)
	for _, d := range s.projects {
		if d.busy {
			if d.problem == nil {
				earlier(d.since.Add(stuckAfter))
			}
			continue
		}
		earlier(s.nextScan(d, now))
	}
	return now.Add(wait)
}

// nextScan is when an idle project must be scanned without a hint: at its full scan, when its adapter asks for it, or
// when an agent's silence will have lasted too long. Two such scans are at least scanGap apart.
func (s *loop) nextScan(d *projectState, now time.Time) time.Time {
	turn := s.nextFullScan(d)
	at, full := turn, turn.Sub(now)
	for _, wish := range [...]time.Time{d.again, s.plan.Looks[d.project.Name]} {
		wait := wish.Sub(now)
		// A full scan waits for a wish that is due right after it: one scan serves both.
		if wish.IsZero() || wait >= full+scanGap || !at.Equal(turn) && wait >= at.Sub(now) {
			continue
		}
		if at = wish; wait < d.scannedAt.Add(scanGap).Sub(now) {
			at = d.scannedAt.Add(scanGap)
		}
	}
	return at
}

// scanGap is the least time between two scans without a hint.
const scanGap = 25 * time.Millisecond

// sampleEvery is the interval of the gauges. The short interval near the limit applies only while tasks wait. While no
// task is open and no agent's process is recorded, a reading decides nothing: new work triggers a sample (see
// sampleForWork).
func (s *loop) sampleEvery() time.Duration {
	cfg := s.cfg.Capacity
	if e := s.load.Exhausted; e > 0 && e < decide.FilesWatched {
		return cfg.SampleNear
	}
	if !s.tasksWait() {
		cfg.SampleNear = cfg.SampleEvery
	}
	return cfg.SampleIn(s.load.Fresh(s.now()), !s.watches)
}

func (s *loop) tasksWait() bool { return len(s.plan.Memory.Gate.Held) > 0 }

// sample reads the gauges and judges waiting tasks again at once.
func (s *loop) sample() {
	s.sampled = s.now()
	s.load = s.deps.Measure(s.sampled)
	s.survey(s.sampled)
	s.attribute()
	if s.tasksWait() || s.load.Exhausted > 0 && s.load.Exhausted < decide.FilesSoon {
		s.decide()
	}
}
