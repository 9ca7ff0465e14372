// Package supervisor runs the loop: one goroutine that collects snapshots and readings, has package decide judge them, and
// sees the plan carried out.
package supervisor

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor/decide"
)

// Supervisor is the loop: look, decide, act.
type Supervisor struct {
	doors   Doors
	log     *slog.Logger
	now     func() time.Time
	picture atomic.Pointer[Picture]
	ask     chan request
	reports chan report
	stopped chan struct{}
	metrics *Metrics

	// The loop's own, touched by Run alone.
	cfg     decide.Config
	memory  decide.Memory
	desks   map[string]*desk
	leaving []*desk           // removed, and still releasing
	kept    []protocol.Change // releases that failed for good
	load    capacity.Load
	usage   []capacity.Usage
	plan    decide.Plan
	looks   int
	decided int
	started time.Time
	onDisk  decide.Memory // as last saved
	pulse   time.Time     // when the loop last came by
	resumed bool
	// handsOver: the loop is at its end, and another steward follows.
	handsOver bool
	done      []Done
	saved     time.Time
	unsaved   *protocol.Fault // why the memory could not be saved the last time
	mended    time.Time       // since when it can be saved again, while the incident is open, perhaps since an earlier run
	sampled   time.Time
	watches   bool             // a task is open, or an agent's process on record: the readings decide on something
	processes []decide.Process // of all desks; nil when they must be listed anew
	owed      time.Time        // when the looks of one turn are decided on at the latest; zero: nothing is owed
	own       ownTrouble
	ended     map[protocol.Subject]time.Time // the hangings whose end was ordered, by when they began
	surveyed  time.Time
	crew      sync.WaitGroup
	ready     func()
}

// New prepares a supervisor; Run starts it. Memory is what the last run saved.
func New(cfg decide.Config, projects []Project, memory decide.Memory, doors Doors, log *slog.Logger, metrics *Metrics) *Supervisor {
	s := &Supervisor{doors: doors, log: log, now: time.Now, cfg: cfg, memory: memory, metrics: metrics,
		ask: make(chan request), reports: make(chan report),
		stopped: make(chan struct{}),
		desks:   map[string]*desk{},
	}
	for _, p := range projects {
		s.desks[p.Name] = newDesk(p)
	}
	s.doors.fill()
	return s
}

// OnReady sets what is called once, after the first look at every project that answers in time.
func (s *Supervisor) OnReady(f func()) { s.ready = f }

// Run supervises until ctx ends, then releases everything that it holds.
func (s *Supervisor) Run(ctx context.Context) error {
	crew, dismiss := context.WithCancel(context.WithoutCancel(ctx))
	defer s.close(dismiss)
	s.begin(ctx, crew)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return s.letGo(crew)
		case h := <-s.doors.Hints:
			s.hint(h)
		case id := <-s.doors.Exits:
			s.feelPulse()
			s.exited(id)
		case r := <-s.reports:
			s.feelPulse()
			s.report(r)
		case <-s.alarms():
			s.feelPulse()
			s.sample()
		case q := <-s.ask:
			s.feelPulse()
			s.answer(crew, q)
		case <-timer.C:
			s.feelPulse()
			s.tick()
		}
		s.dispatch()
		s.announceReady()
		s.doors.Pulse(s.now())
		timer.Reset(max(0, s.next().Sub(s.now())))
	}
}

// Once makes one look-decide-act at every project, until nothing is left to do at this moment. A project that does
// not answer is left out.
func (s *Supervisor) Once(ctx context.Context) error {
	crew, dismiss := context.WithCancel(ctx)
	defer s.close(dismiss)
	for _, d := range s.desks {
		d.once = true
	}
	s.begin(ctx, crew)
	s.dispatch()
	patience := time.NewTimer(stuckAfter)
	defer patience.Stop()
	for s.working() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-patience.C:
			return errors.Join(s.save(), errors.New("some projects do not answer"))
		case r := <-s.reports:
			s.report(r)
			s.dispatch()
		}
	}
	return s.save()
}

// begin reads the gauges twice, because the processor is known from the second sample on, and staffs the desks.
func (s *Supervisor) begin(ctx, crew context.Context) {
	s.started, s.onDisk = s.now(), s.memory
	s.pulse = s.started
	s.inherit()
	s.tellOrders()
	s.sample()
	pause := time.NewTimer(warmUp)
	defer pause.Stop()
	select {
	case <-ctx.Done():
	case <-pause.C:
	}
	s.sample()
	for _, name := range s.names() {
		s.staff(crew, s.desks[name])
	}
	s.show(s.view(s.now()))
}

// warmUp is the time between the first two samples.
const warmUp = 120 * time.Millisecond

// close ends the lookers. One that hangs in a system call is left behind: nobody may wait for a dead disk.
func (s *Supervisor) close(dismiss func()) {
	close(s.stopped)
	dismiss()
	gone := make(chan struct{})
	go func() { s.crew.Wait(); close(gone) }()
	patience := time.NewTimer(farewell)
	defer patience.Stop()
	select {
	case <-gone:
	case <-patience.C:
		s.log.Error("a project does not answer; it is left behind")
	}
}

// farewell is how long the lookers may take to come back at the end.
const farewell = time.Second

// feelPulse notices that the machine slept, or that its clock was set, since the loop last came by.
func (s *Supervisor) feelPulse() {
	now := s.now()
	if heartbeat.Resumed(s.pulse, now, s.cfg.LookEvery) {
		s.resumed = true
		s.log.Info("the machine slept, or its clock was set", "before", s.pulse, "now", now)
		s.doors.Note(Entry{At: now, Kind: "note", Subject: protocol.Subject{Kind: protocol.KindMachine, ID: "clock"},
			Text: "the machine slept, or its clock was set: silence kills nobody for " + s.cfg.Heartbeat.ResumeGrace.String()})
	}
	s.pulse = now
}

// announceReady calls OnReady's function after the first looks.
func (s *Supervisor) announceReady() {
	if s.ready == nil {
		return
	}
	for _, d := range s.desks {
		if d.lookedAt.IsZero() && s.now().Sub(s.started) < s.cfg.LookEvery {
			return
		}
	}
	s.ready()
	s.ready = nil
}

// tick does what has fallen due by time alone.
func (s *Supervisor) tick() {
	now := s.now()
	decided := s.decided
	sample, look := s.together(now)
	hurry := s.hurry(now)
	if !now.Before(s.sampled.Add(s.sampleEvery() - sample)) {
		s.sample()
	}
	for _, d := range s.desks {
		if d.unwatched != nil {
			s.callUp(d, now, hurry)
		} else {
			s.callUp(d, now, look)
		}
	}
	if s.wakes(now) && s.decided == decided {
		s.decide()
	}
	s.saveIdle(now)
}

// mostGlances is how many looks may come between two full ones when nobody but the adapter asks for them.
const mostGlances = 40

// next is when tick has something to do. It is never further away than a look, so that a sleep of the machine can
// be told from a loop that had nothing to do.
func (s *Supervisor) next() time.Time {
	at := s.sampleDue()
	earlier := func(t time.Time) {
		if !t.IsZero() && t.Before(at) {
			at = t
		}
	}
	earlier(s.now().Add(s.cfg.LookEvery))
	earlier(s.plan.Wake)
	earlier(s.owed)
	for _, d := range s.desks {
		if d.busy {
			if d.problem == nil {
				earlier(d.since.Add(stuckAfter))
			}
			continue
		}
		earlier(s.due(d))
	}
	return at
}

// due is when an idle desk must look next without any hint: at its turn, when its adapter asks for it, or when an
// agent's silence will have lasted too long. Two looks in a row are never closer than lookGap.
func (s *Supervisor) due(d *desk) time.Time {
	turn := s.turn(d)
	at := turn
	for _, wish := range [...]time.Time{d.again, s.plan.Looks[d.project.Name]} {
		// A turn waits for a wish that comes right after it: one look serves both.
		if wish.IsZero() || !wish.Before(turn.Add(lookGap)) || !at.Equal(turn) && !wish.Before(at) {
			continue
		}
		at = wish
		if soonest := d.lookedAt.Add(lookGap); at.Before(soonest) {
			at = soonest
		}
	}
	return at
}

// lookGap is the least time between two looks that nobody but the clock asks for.
const lookGap = 25 * time.Millisecond

// sampleEvery is the pace of the gauges. The quick pace near the limit serves only tasks that wait. While no task is open
// and no process of an agent's is on record a reading decides on nothing: work that comes has one taken (see freshen).
func (s *Supervisor) sampleEvery() time.Duration {
	cfg := s.cfg.Capacity
	if e := s.load.Exhausted; e > 0 && e < decide.FilesWatched {
		return cfg.SampleNear
	}
	if !s.tasksWait() {
		cfg.SampleNear = cfg.SampleEvery
	}
	return cfg.SampleIn(s.load.Fresh(s.now()), !s.watches)
}

func (s *Supervisor) tasksWait() bool { return len(s.plan.Memory.Gate.Held) > 0 }

// sample reads the gauges; waiting tasks are judged again at once.
func (s *Supervisor) sample() {
	s.sampled = s.now()
	s.load = s.doors.Measure(s.sampled)
	s.survey(s.sampled)
	s.attribute()
	if s.tasksWait() || s.load.Exhausted > 0 && s.load.Exhausted < decide.FilesSoon {
		s.decide()
	}
}
