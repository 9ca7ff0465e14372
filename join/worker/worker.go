// Package worker is the executor's side of protocol 000: it takes the tasks of one agent, runs them, and writes what
// came of them.
package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/livhana/steward/platform/confine"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
)

// Settings are what the configuration says: [worker], and of [tasks] the limits.
type Settings struct {
	Poll, Beat  time.Duration // how often it looks for tasks unasked, and beats
	Stop        time.Duration // between asking a command to end and ending it; how long a result that cannot be written is tried at the end
	Output      int           // bytes kept of each of stdout and stderr
	Keep        time.Duration // how long files with the output are kept
	Programs    []string      // absolute: programs outside that execute may run, or folders of such
	Paths       []string      // absolute: where the paths of requests may lie, beside the project
	Writable    []string      // absolute: where commands may write besides
	Confine     bool          // writing is confined where the kernel can
	Environment []string      // names of variables that commands see; * at the end stands for anything

	Research, Validate, Deploy, DeployDryRun []string // the commands; none: the task is blocked

	Timeout, MaxTimeout time.Duration // of tasks that name none, and of those that name more
}

// Options are what a worker is, and what it needs of the world.
type Options struct {
	Settings
	Project     string            // absolute
	Agent       string            // whose tasks it takes
	Process     protocol.Identity // this process
	Program     string            // the path of steward itself, which runs between the worker and a command
	Environ     []string          // the worker's own environment
	Temp        string            // the folder for temporary files
	Jobs        int               // so many tasks at once
	Once, Drain bool              // end after one task; end when none is left
	Cores       int               // of the machine; 0: unknown
	Memory      uint64            // of the machine, in bytes; 0: unknown

	Client *agentstatus.Client
	// Gate says whether the machine has room for the task, else why not and when to ask again (0: at the next look).
	Gate func(ctx context.Context, task string, throttle *float64) (ok bool, why string, wait time.Duration)
	// Supervised reports whether a daemon looks after the project.
	Supervised func() bool
	// Hints come when files of tasks may have changed.
	Hints <-chan struct{}
	Now   func() time.Time // also called by the goroutines of tasks
	Say   func(text string)
}

// Tally is what a worker has done.
type Tally struct {
	Taken   int
	Last    *agentstatus.Result // the last result; nil without one
	Unsaved []string            // tasks whose result could not be written
}

// Worker takes tasks. One goroutine, that of Run, has the Client and all that is here; each task that runs has one more,
// which sends what is to be done back to it.
type Worker struct {
	o       Options
	planner planner
	confine bool // commands may write only where they should
	events  chan func()

	jobs    map[string]*job // by task: running, or over with a result that is not written yet
	tally   Tally
	started time.Time
	chores  int                 // goroutines other than those of tasks
	lost    map[string]struct{} // orphans that are being concluded

	look     bool // for tasks, at once
	nothing  bool // the last look left nothing to take
	told     map[string]string
	diskFull bool
	trouble  string // the last error of a write

	stopping                                bool
	pollAt, beatAt, gateAt, sweepAt, stopBy time.Time
}

// New makes a worker. Nothing happens yet.
func New(o Options) *Worker {
	w := &Worker{o: o, events: make(chan func()), jobs: map[string]*job{}, told: map[string]string{}, lost: map[string]struct{}{}, look: true}
	w.o.Jobs = max(o.Jobs, 1)
	w.planner = planner{Settings: o.Settings, ground: newGround(o.Project, o.Paths), programs: newGround(o.Project, append(o.Programs, o.Paths...))}
	return w
}

// Run works until ctx ends, or there is no more to do (Once, Drain). When ctx ends, no more tasks are taken, and those
// that run are stopped. The error is of a worker that could not begin.
func (w *Worker) Run(ctx context.Context) (Tally, error) {
	base := context.WithoutCancel(ctx)
	w.started = w.o.Now()
	if err := w.o.Client.Enroll(base, agentstatus.Registration{Agent: w.o.Agent, Process: w.o.Process, Shared: true, Claims: true}, w.started); err != nil {
		return w.tally, err
	}
	w.confineWrites()
	for {
		w.turn(ctx)
		if w.over() {
			break
		}
		w.wait(ctx)
	}
	if err := w.o.Client.Leave(base, w.o.Agent, w.o.Process, agentstatus.Leaving{Why: "the worker ended"}, w.o.Now()); err != nil {
		w.say("leave: %v", err)
	}
	return w.tally, nil
}

// confineWrites settles where commands may write.
func (w *Worker) confineWrites() {
	switch {
	case !w.o.Confine:
	case !confine.Supported():
		w.say("this system cannot confine where commands write ([worker] confine); they may write wherever this user may")
	default:
		w.confine = true
	}
}

// turn does all that is due.
func (w *Worker) turn(ctx context.Context) {
	base := context.WithoutCancel(ctx)
	now := w.o.Now()
	w.deliver(base, now)
	if !now.Before(w.pollAt) || !w.gateAt.IsZero() && !now.Before(w.gateAt) {
		w.look = true
	}
	if !now.Before(w.pollAt) {
		w.pollAt = now.Add(w.o.Poll)
		w.collect(base, now)
	}
	if !now.Before(w.sweepAt) && w.o.Keep > 0 {
		w.sweepAt = now.Add(time.Hour)
		if err := w.o.Client.SweepOutput(now.Add(-w.o.Keep), now); err != nil {
			w.fret("remove old output", err)
		}
	}
	if w.look {
		w.look = false
		w.heed()
		w.take(ctx, now)
	}
	w.report(base, now)
	w.beat(now)
}

// over reports whether there is nothing left to do.
func (w *Worker) over() bool {
	if len(w.jobs) > 0 || w.chores > 0 {
		return false
	}
	return w.stopping || w.o.Once && (w.tally.Taken > 0 || w.nothing) || w.o.Drain && w.nothing
}

// wait sleeps until something is due or happens.
func (w *Worker) wait(ctx context.Context) {
	if w.look {
		return
	}
	timer := time.NewTimer(w.due().Sub(w.o.Now()))
	defer timer.Stop()
	asked := ctx.Done()
	if w.stopping {
		asked = nil
	}
	select {
	case <-asked:
		w.stop()
	case do := <-w.events:
		do()
	case <-w.o.Hints:
		w.look = true
	case <-timer.C:
	}
}

// stop begins the end: no more tasks are taken, and those that run are stopped.
func (w *Worker) stop() {
	w.stopping, w.stopBy = true, w.o.Now().Add(w.o.Stop)
	if n := len(w.jobs); n > 0 {
		w.say("asked to end: %s being stopped", plural(n, "running task"))
	}
	for _, j := range w.jobs {
		j.halt(haltStopping)
	}
}

// due is when the next thing is to be done.
func (w *Worker) due() time.Time {
	at := w.pollAt
	sooner := func(t time.Time) {
		if !t.IsZero() && t.Before(at) {
			at = t
		}
	}
	sooner(w.beatAt)
	sooner(w.gateAt)
	for _, j := range w.jobs {
		if j.result != nil {
			sooner(j.saveAt)
		} else {
			sooner(j.reportAt)
		}
	}
	return at
}

func (w *Worker) say(format string, args ...any) {
	w.o.Say(line(fmt.Sprintf(format, args...), longestMessage))
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
