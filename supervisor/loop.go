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

// loop is the supervisor as a state machine: step applies one event and gives the orders that follow from it. What it needs
// of the world at once (gauges, the memory file, the incidents) it reaches through its dependencies; it starts no goroutine and sets
// no timer.
type loop struct {
	deps    Deps
	log     *slog.Logger
	now     func() time.Time
	judge   func(decide.View, decide.Memory, decide.Config) decide.Plan // decide.Decide
	state   atomic.Pointer[State]
	metrics *Metrics

	cfg      decide.Config
	memory   decide.Memory
	projects map[string]*projectState
	load     capacity.Load
	usage    []capacity.Usage
	plan     decide.Plan
	scans    int
	decided  int
	started  time.Time
	onDisk   decide.Memory // as last saved
	lastStep time.Time     // when the loop last came by
	resumed  bool
	// leaving are the projects that were removed and still release what they hold; kept are releases that failed for good.
	removed    []*projectState
	unreleased []protocol.Change
	// stopsAt is when the releases of a stop are given up; zero: the loop goes on. givenUp: only orders under way still count.
	// handsOver: another steward follows.
	stopsAt            time.Time
	givenUp, handsOver bool
	recent             []Done
	saved              time.Time
	unsaved            *protocol.Fault // why the memory could not be saved the last time
	mended             time.Time       // since when it can be saved again, while the incident is open, perhaps since an earlier run
	sampled            time.Time
	watches            bool             // a task is open, or an agent's process on record: the readings decide on something
	processes          []decide.Process // of all projects; nil when they must be listed anew
	decideBy           time.Time        // when the looks of one turn are decided on at the latest; zero: nothing is owed
	own                ownTrouble
	ended              map[protocol.Subject]time.Time // the hangings whose end was ordered, by when they began
	surveyed           time.Time
	ready              func()
}

// event is what the loop is told: a Hint, a processExited, a report, an alarmRang, a request, a timeCame or a stopAsked.
type event any

type (
	processExited struct{ id protocol.Identity } // a watched process has ended
	alarmRang     struct{}                       // the machine is in need
	timeCame      struct{}                       // something has fallen due
	stopAsked     struct{}                       // release everything
)

// assignment is an order for the scanner of a project.
type assignment struct {
	project *projectState
	order   order
}

func newLoop(cfg decide.Config, projects []Project, memory decide.Memory, doors Deps, log *slog.Logger, metrics *Metrics) *loop {
	s := &loop{deps: doors, log: log, now: time.Now, judge: decide.Decide, cfg: cfg, memory: memory, metrics: metrics, projects: map[string]*projectState{}}
	for _, p := range projects {
		s.projects[p.Name] = newProjectState(p)
	}
	s.deps.fillOptional()
	return s
}

// start takes over what the last run left.
func (s *loop) start() {
	s.started, s.onDisk = s.now(), s.memory
	s.lastStep = s.started
	s.adoptUnsaved()
	s.tellOrders()
	s.sample()
}

// warm reads the gauges again, a moment after start.
func (s *loop) sampleAgain() {
	s.sample()
	s.show(s.view(s.now()))
}

// step applies one event.
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
	s.deps.Pulse(s.now())
	return orders
}

// noticeSleep notices that the machine slept, or that its clock was set, since the loop last came by.
func (s *loop) noticeSleep() {
	now := s.now()
	if heartbeat.Resumed(s.lastStep, now, s.cfg.LookEvery) {
		s.resumed = true
		s.log.Info("the machine slept, or its clock was set", "before", s.lastStep, "now", now)
		s.deps.Note(Entry{At: now, Kind: "note", Subject: protocol.Subject{Kind: protocol.KindMachine, ID: "clock"},
			Text: "the machine slept, or its clock was set: silence kills nobody for " + s.cfg.Heartbeat.ResumeGrace.String()})
		s.lastStep = now
		s.sample() // the readings are from before the sleep, and a decision without readings keeps nothing waiting
		return
	}
	s.lastStep = now
}

// announceReady calls OnReady's function after the first looks.
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

// tick does what has fallen due by time alone.
func (s *loop) tick() {
	now := s.now()
	if !s.stopsAt.IsZero() {
		s.giveUp(now)
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

// mostGlances is how many looks may come between two full ones when nobody but the adapter asks for them.
const mostHintScans = 40

// next is when tick has something to do. It is never further away than a look, so that a sleep of the machine can
// be told from a loop that had nothing to do.
func (s *loop) next() time.Time {
	if !s.stopsAt.IsZero() {
		return s.stopsAt
	}
	at := s.sampleDue()
	earlier := func(t time.Time) {
		if !t.IsZero() && t.Before(at) {
			at = t
		}
	}
	earlier(s.now().Add(s.cfg.LookEvery))
	earlier(s.plan.Wake)
	earlier(s.decideBy)
	for _, d := range s.projects {
		if d.busy {
			if d.problem == nil {
				earlier(d.since.Add(stuckAfter))
			}
			continue
		}
		earlier(s.nextScan(d))
	}
	return at
}

// due is when an idle project must look next without any hint: at its turn, when its adapter asks for it, or when an
// agent's silence will have lasted too long. Two looks in a row are never closer than lookGap.
func (s *loop) nextScan(d *projectState) time.Time {
	turn := s.nextFullScan(d)
	at := turn
	for _, wish := range [...]time.Time{d.again, s.plan.Looks[d.project.Name]} {
		// A turn waits for a wish that comes right after it: one look serves both.
		if wish.IsZero() || !wish.Before(turn.Add(scanGap)) || !at.Equal(turn) && !wish.Before(at) {
			continue
		}
		at = wish
		if soonest := d.scannedAt.Add(scanGap); at.Before(soonest) {
			at = soonest
		}
	}
	return at
}

// lookGap is the least time between two looks that nobody but the clock asks for.
const scanGap = 25 * time.Millisecond

// sampleEvery is the pace of the gauges. The quick pace near the limit serves only tasks that wait. While no task is open
// and no process of an agent's is on record a reading decides on nothing: work that comes has one taken (see freshen).
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

// sample reads the gauges; waiting tasks are judged again at once.
func (s *loop) sample() {
	s.sampled = s.now()
	s.load = s.deps.Measure(s.sampled)
	s.survey(s.sampled)
	s.attribute()
	if s.tasksWait() || s.load.Exhausted > 0 && s.load.Exhausted < decide.FilesSoon {
		s.decide()
	}
}
