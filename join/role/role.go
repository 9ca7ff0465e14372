// Package role plays a role in a protocol: it takes the tasks of one agent, starts a command for each, and reports how the
// run ended. For the orchestrator's role it can act without a command, by the document's own rules.
package role

import (
	"context"
	"time"

	"github.com/livhana/steward/join/worker"
	"github.com/livhana/steward/protocol"
)

// Options say which role is played, and how.
type Options struct {
	Part
	Command     []string // with {prompt}, {task}, {file} and {project} to be replaced; empty: the orchestrator acts by itself
	Dir         string   // working folder, absolute
	Environment []string // KEY=value
	Limit       time.Duration
	Jobs        int // the most runs at once
	Once, Drain bool
	Log         string // absolute path of the file that gets the commands' output, appended; "" for none
	// Returns precedes the names of further keys that a run prints, in Report.Fields ("payload.").
	Returns string

	Pace
	Process     protocol.Identity // this process
	Participant protocol.Participant
	// Execute runs a command until its tree has ended. ctx ends the run earlier; its cause says why.
	Execute func(context.Context, worker.Command) worker.Ended
	// Gate says whether a task may start now; if not, why, and when to ask again.
	Gate func(ctx context.Context, task string) (ok bool, why string, wait time.Duration)
	// Hints arrive when the protocol's files may have changed.
	Hints <-chan struct{}
	Now   func() time.Time
	Say   func(text string)
}

// Part is the role that a Runner plays.
type Part struct {
	Role, Protocol string
	Project        string // absolute
	Program        string // absolute, of steward itself, for the commands in prompts
}

// Pace says when a Runner acts by time.
type Pace struct {
	Poll time.Duration // between scans of the files without a hint
	Beat time.Duration // between signs of life
	Stop time.Duration // at the end, for writing reports
}

// Tally counts what a Runner has done.
type Tally struct {
	Taken   int
	Failed  bool     // the last task
	Unsaved []string // tasks whose report could not be written
}

// Runner plays the role. The goroutine of Run owns the Participant and every field; each run has one more goroutine, which
// sends functions to events.
type Runner struct {
	o      Options
	events chan func()
	jobs   map[string]*taken // by task: running, or ended with a report that is not written yet
	told   map[string]string
	tally  Tally

	scanNow, nothing, stopping     bool
	pollAt, beatAt, gateAt, stopBy time.Time
}

// taken is one task in hand.
type taken struct {
	task     protocol.Assignment
	note     string             // what the protocol said when the task was taken
	accepted protocol.TaskState // the task's state while its run has not reported itself
	ctx      context.Context    // ends when the run is to end; its cause says why
	halt     context.CancelCauseFunc
	endBy    time.Time // the task has ended, so the run must end by then; zero: it has not

	report *protocol.Report // set when the run is over
	saveAt time.Time
	tries  int
}

// New makes a Runner. It starts nothing.
func New(o Options) *Runner {
	o.Jobs = max(o.Jobs, 1)
	return &Runner{o: o, events: make(chan func()), jobs: map[string]*taken{}, told: map[string]string{}, scanNow: true}
}

// Run works until ctx ends or nothing is left to do (Once, Drain). When ctx ends, the runs are stopped and reported as such.
func (r *Runner) Run(ctx context.Context) (Tally, error) {
	if len(r.o.Command) == 0 {
		return r.tally, r.orchestrate(ctx)
	}
	base := context.WithoutCancel(ctx)
	for {
		r.step(ctx, base)
		if r.isDone() {
			break
		}
		r.wait(ctx)
	}
	if err := r.o.Participant.Leave(base, r.run(), r.o.Now()); err != nil {
		r.say("leave: %v", err)
	}
	return r.tally, nil
}

// step does everything that is due.
func (r *Runner) step(ctx, base context.Context) {
	now := r.o.Now()
	r.deliver(base, now)
	if !now.Before(r.pollAt) {
		r.pollAt, r.scanNow = now.Add(r.o.Poll), true
	}
	if r.scanNow || reached(r.gateAt, now) {
		r.scanNow = false
		r.attend(base, now)
		r.take(ctx, now)
	}
	if !now.Before(r.beatAt) {
		r.beatAt = now.Add(r.o.Beat)
		if err := r.o.Participant.Join(base, r.run(), now); err != nil {
			r.once("join", "write the heartbeat of the role: "+err.Error())
		}
	}
}

// run is what the protocol is told about this process.
func (r *Runner) run() protocol.AgentRun {
	a := protocol.AgentRun{Agent: r.o.Role, Process: r.o.Process}
	for id, j := range r.jobs {
		if j.report == nil && (a.Task == "" || id < a.Task) {
			a.Task = id
		}
	}
	return a
}

func reached(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }

// isDone reports whether nothing is left to do.
func (r *Runner) isDone() bool {
	if len(r.jobs) > 0 {
		return false
	}
	return r.stopping || r.o.Once && (r.tally.Taken > 0 || r.nothing) || r.o.Drain && r.nothing
}

// wait sleeps until something is due or happens.
func (r *Runner) wait(ctx context.Context) {
	if r.scanNow {
		return
	}
	at := r.pollAt
	sooner := func(t time.Time) {
		if !t.IsZero() && t.Before(at) {
			at = t
		}
	}
	sooner(r.beatAt)
	sooner(r.gateAt)
	for _, j := range r.jobs {
		sooner(j.saveAt)
		sooner(j.endBy)
	}
	timer := time.NewTimer(at.Sub(r.o.Now()))
	defer timer.Stop()
	asked := ctx.Done()
	if r.stopping {
		asked = nil
	}
	select {
	case <-asked:
		r.stopping, r.stopBy = true, r.o.Now().Add(r.o.Stop)
		for _, j := range r.jobs {
			j.halt(worker.ErrStopped)
		}
	case do := <-r.events:
		do()
	case <-r.o.Hints:
		r.scanNow = true
	case <-timer.C:
		for _, j := range r.jobs {
			r.scanNow = r.scanNow || reached(j.endBy, r.o.Now())
		}
	}
}
