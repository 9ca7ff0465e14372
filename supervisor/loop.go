package supervisor

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/livhana/steward/supervisor/decide"
)

// loop is the supervisor as a state machine: step takes one event and returns its effects, the orders for the scanners. The
// loop reaches the gauges, the memory file and the incidents through its dependencies. It starts no goroutine and sets no
// timer. See docs/decisions.md, "The loop is a state machine".
type loop struct {
	deps    Deps
	log     *slog.Logger
	now     func() time.Time
	judge   func(decide.View, decide.Memory, decide.Config) decide.Plan // Decide
	metrics *Metrics
	state   atomic.Pointer[State]

	cfg      decide.Config
	memory   decide.Memory
	plan     decide.Plan
	projects projects
	removed  removals

	schedule schedule
	gauges   gauges
	doubts   doubts
	saver    saver
	record   recorder
	ended    endings

	once  bool // a single scan: nothing may stay held after it
	scans int
	clock struct {
		started  time.Time
		lastStep time.Time
		resumed  bool // the machine slept, or its clock was set, since the last decision
	}
}

// effect is what step returns: an order for the scanner of one project.
type effect struct {
	project *projectState
	order   order
}

func newLoop(cfg decide.Config, list []Project, memory decide.Memory, deps Deps, now func() time.Time, log *slog.Logger, metrics *Metrics) *loop {
	deps.fillOptional()
	l := &loop{deps: deps, log: log, now: now, judge: Decide, cfg: cfg, memory: memory, metrics: metrics, projects: projects{},
		record: recorder{note: deps.Note, log: log, overflow: map[string]time.Time{}}, ended: endings{}}
	for _, p := range list {
		l.projects[p.Name] = newProjectState(p)
	}
	return l
}

// inUse is what the gauges need to know of the projects.
func (l *loop) inUse() machineInUse { return machineInUse{l.projects.scanned(), &l.memory} }

// scannedOnce reports whether every project that answers in time was scanned.
func (l *loop) scannedOnce() bool {
	return l.now().Sub(l.clock.started) >= l.cfg.LookEvery || !l.projects.any(func(d *projectState) bool { return d.scannedAt.IsZero() })
}

// intervals are how often things are due now.
func (l *loop) intervals() intervals {
	every := l.gauges.every(l.cfg.Capacity, len(l.plan.Memory.Gate.Held) > 0, l.now())
	return intervals{sample: every, round: l.cfg.LookEvery, unwatched: l.cfg.LookUnwatched(), quiet: !l.gauges.needed}
}

// save writes the memory to disk. A failure is told once.
func (l *loop) save() error {
	err := l.saver.save(&l.deps, l.memory, l.now())
	if err != nil {
		l.log.Error("save memory; nothing is changed until it can be saved", "error", err)
	}
	return err
}

// remove takes a project out of the loop.
func (l *loop) remove(d *projectState) {
	delete(l.projects, d.project.Name)
	l.removed.add(d, l.now(), l.cfg.Tasks.Lease)
}

// end saves the memory at the end, and logs and returns what could not be released.
func (l *loop) end() error {
	_ = l.save() // logged
	err := l.removed.stayHeld(l.cfg.Tasks.Lease)
	if err != nil {
		l.log.Error("tasks stay held: steward stops before it could release them; the next start of steward releases them, and any steward command once their lease has ended",
			"count", len(l.removed.failed), "error", err)
	}
	return err
}
