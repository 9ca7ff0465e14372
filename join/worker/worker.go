// Package worker is the executor's side of protocol 000: it takes the tasks of one agent, runs them, and writes their
// results.
package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/livhana/steward/platform/confine"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
)

// Settings come from the configuration: [worker], and the limits of [tasks].
type Settings struct {
	Poll, Beat  time.Duration // between scans without a hint; between heartbeats
	Stop        time.Duration // between stopping and killing a command; at shutdown, for writing results
	Output      int           // bytes kept of each of stdout and stderr
	Keep        time.Duration // how long output files are kept
	Programs    []string      // absolute: programs outside the project that execute may run, or folders of such programs
	Paths       []string      // absolute: where the paths of requests may lie, besides the project
	Writable    []string      // absolute: where else commands may write
	Confine     bool          // confine writing where the kernel supports it
	Environment []string      // names of variables that commands see; a trailing * matches anything

	Research, Validate, Deploy, DeployDryRun []string // the commands; empty: the task is blocked

	Timeout, MaxTimeout time.Duration // of tasks that name none; the upper bound
}

// Options are the worker's identity, settings and dependencies.
type Options struct {
	Settings
	Project     string            // absolute
	Agent       string            // the agent whose tasks it takes
	Process     protocol.Identity // this process
	Program     string            // the path of steward itself, the shim between the worker and a command
	Environ     []string          // the worker's own environment
	Temp        string            // the folder for temporary files
	Jobs        int               // the most tasks at once
	Once, Drain bool              // end after one task; end when no task is left
	Cores       int               // of the machine; 0: unknown
	Memory      uint64            // of the machine, in bytes; 0: unknown

	Client *agentstatus.Client
	// Gate says whether the machine has room for the task; if not, why, and when to ask again (0: at the next scan).
	Gate func(ctx context.Context, task string, throttle *float64) (ok bool, why string, wait time.Duration)
	// Supervised reports whether a daemon supervises the project.
	Supervised func() bool
	// Hints arrive when task files may have changed.
	Hints <-chan struct{}
	Now   func() time.Time // also called by the goroutines of tasks
	Say   func(text string)
}

// Tally counts what a worker has done.
type Tally struct {
	Taken   int
	Last    *agentstatus.Result // the last result; nil without one
	Unsaved []string            // tasks whose result could not be written
}

// Worker takes tasks. The goroutine of Run owns the Client and every field here. Each running task has one more
// goroutine, which sends functions to events for Run's goroutine to call.
type Worker struct {
	o       Options
	planner planner
	runner  *runner
	log     log
	events  chan func()

	jobs       map[string]*job // by task: running, or finished with a result that is not written yet
	tally      Tally
	started    time.Time
	orphanJobs int                 // goroutines other than those of tasks
	orphans    map[string]struct{} // orphans being concluded

	scanNow   bool // scan for tasks at once
	nothing   bool // the last scan left no task to take
	diskFull  bool
	lastError string // the last write error

	stopping                                bool
	pollAt, beatAt, gateAt, sweepAt, stopBy time.Time
}

// New makes a worker. It does not start anything.
func New(o Options) *Worker {
	o.Jobs = max(o.Jobs, 1)
	return &Worker{o: o, log: log{o.Say, map[string]string{}}, runner: &runner{o: o, confine: o.Confine && confine.Supported()},
		planner: planner{Settings: o.Settings, paths: allow(o.Project, o.Paths), programs: allow(o.Project, append(o.Programs, o.Paths...))},
		events:  make(chan func()), jobs: map[string]*job{}, orphans: map[string]struct{}{}, scanNow: true}
}

// Run works until ctx ends or there is nothing left to do (Once, Drain). When ctx ends, the worker takes no more tasks
// and stops those that run. The error means that the worker could not start.
func (w *Worker) Run(ctx context.Context) (Tally, error) {
	base := context.WithoutCancel(ctx)
	w.started = w.o.Now()
	if err := w.o.Client.Enroll(base, agentstatus.Registration{Agent: w.o.Agent, Process: w.o.Process, Shared: true, Claims: true}, w.started); err != nil {
		return w.tally, err
	}
	if w.o.Confine && !w.runner.confine {
		w.log.say("this system cannot confine where commands write ([worker] confine); they may write wherever this user may")
	}
	for {
		w.step(ctx)
		if w.isDone() {
			break
		}
		w.wait(ctx)
	}
	if err := w.o.Client.Leave(base, w.o.Agent, w.o.Process, agentstatus.Leaving{Why: "the worker ended"}, w.o.Now()); err != nil {
		w.log.say("leave: %v", err)
	}
	return w.tally, nil
}

// step does everything that is due.
func (w *Worker) step(ctx context.Context) {
	base := context.WithoutCancel(ctx)
	now := w.o.Now()
	w.deliver(base, now)
	if !now.Before(w.pollAt) || !w.gateAt.IsZero() && !now.Before(w.gateAt) {
		w.scanNow = true
	}
	if !now.Before(w.pollAt) {
		w.pollAt = now.Add(w.o.Poll)
		w.collectOrphans(base, now)
	}
	if !now.Before(w.sweepAt) && w.o.Keep > 0 {
		w.sweepAt = now.Add(time.Hour)
		if err := w.o.Client.SweepOutput(now.Add(-w.o.Keep), now); err != nil {
			w.failed("remove old output", err)
		}
	}
	if w.scanNow {
		w.scanNow = false
		w.stopRevoked()
		w.claimTasks(ctx, now)
	}
	w.report(base, now)
	w.beat(now)
}

// isDone reports whether there is nothing left to do.
func (w *Worker) isDone() bool {
	if len(w.jobs) > 0 || w.orphanJobs > 0 {
		return false
	}
	return w.stopping || w.o.Once && (w.tally.Taken > 0 || w.nothing) || w.o.Drain && w.nothing
}

// wait sleeps until something is due or happens.
func (w *Worker) wait(ctx context.Context) {
	if w.scanNow {
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
		w.scanNow = true
	case <-timer.C:
	}
}

// stop begins the shutdown: the worker takes no more tasks and stops those that run.
func (w *Worker) stop() {
	w.stopping, w.stopBy = true, w.o.Now().Add(w.o.Stop)
	if n := len(w.jobs); n > 0 {
		w.log.say("asked to end: %s being stopped", plural(n, "running task"))
	}
	for _, j := range w.jobs {
		j.halt(haltStopping)
	}
}

// due is when the next turn is needed.
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

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
