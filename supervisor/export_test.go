package supervisor

import (
	"context"
	"log/slog"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor/decide"
)

// Driver moves the loop by hand, as Supervisor does with goroutines: the simulation is its shell.
type Driver struct {
	loop    *loop
	lookers map[*projectState]*scanner
}

// Judge is what decides: decide.Decide, or a test around it.
type Judge func(decide.View, decide.Memory, decide.Config) decide.Plan

// NewDriver makes a loop that asks for the time by now, and has its plans made by judge.
func NewDriver(cfg decide.Config, projects []Project, memory decide.Memory, deps Deps, now func() time.Time, judge Judge) *Driver {
	l := newLoop(cfg, projects, memory, deps, now, slog.New(slog.DiscardHandler), nil)
	l.judge = judge
	return &Driver{loop: l, lookers: map[*projectState]*scanner{}}
}

// Job is an order for a scanner.
type Job struct {
	looker *scanner
	order  order
}

// Outcome is what a scanner reports.
type Outcome struct{ report report }

// Project names the project of the job.
func (j Job) Project() string { return j.looker.project.Name }

// CarryOut makes the changes, and looks.
func (j Job) CarryOut() Outcome {
	r := j.looker.carryOut(context.Background(), j.order)
	return Outcome{r}
}

// Start begins a run, up to the first orders.
func (d *Driver) Start() []Job {
	d.loop.start()
	d.loop.sampleAgain()
	return d.step(timeCame{})
}

// Hint tells of a path that may have changed; "" means any.
func (d *Driver) Hint(project, path string) []Job { return d.step(Hint{Project: project, Path: path}) }

// Exited tells that a process has ended.
func (d *Driver) Exited(id protocol.Identity) []Job { return d.step(processExited{id}) }

// Tick tells that time has passed.
func (d *Driver) Tick() []Job { return d.step(timeCame{}) }

// Report tells what a scanner saw and did.
func (d *Driver) Report(o Outcome) []Job { return d.step(o.report) }

// Stop begins the end of the run; it is over when Over says so.
func (d *Driver) Stop() []Job { return d.step(stopAsked{}) }

// Over reports whether the run has come to its end. Err is what it ended with.
func (d *Driver) Over() bool { return d.loop.removed.done() }

// Err ends the run that is over: it saves the memory and names what stays held.
func (d *Driver) Err() error { return d.loop.end() }

// Order has a change made that a person asked for.
func (d *Driver) Order(c protocol.Change) []Job {
	if desk := d.loop.projects[c.Subject.Project]; desk != nil {
		desk.next.commands = append(desk.next.commands, command{change: c, reply: make(chan error, 1)})
	}
	return d.jobs(d.loop.effects())
}

// Command has the loop carry out a person's command.
func (d *Driver) Command(c Command) ([]Job, error) {
	a := d.loop.command(c)
	return d.jobs(d.loop.effects()), a.err
}

// Next is how long the loop has nothing to do.
func (d *Driver) Next() time.Duration { return max(0, d.loop.next().Sub(d.loop.now())) }

// Configure puts other settings in force.
func (d *Driver) Configure(cfg decide.Config) { d.loop.cfg = cfg }

// DeskState is how far a project is.
type DeskState struct {
	Busy      bool
	Since     time.Duration // for how long it has been
	Waits     bool          // changes wait for the scanner
	Rests     bool          // some change that failed is not tried at present
	Scanned   time.Time     // when the last report was taken in
	Snapshots []protocol.Snapshot
}

// Desk gives the state of a project; the zero value if it is not looked after any more.
func (d *Driver) Desk(project string) (s DeskState) {
	desk := d.loop.projects[project]
	if desk == nil {
		return s
	}
	now := d.loop.now()
	s = DeskState{Busy: desk.busy, Since: now.Sub(desk.since), Waits: len(desk.next.changes)+len(desk.next.commands) > 0, Scanned: desk.scannedAt, Snapshots: desk.snapshots}
	for _, t := range desk.efforts {
		s.Rests = s.Rests || now.Before(t.rest)
	}
	return s
}

func (d *Driver) step(e event) []Job { return d.jobs(d.loop.step(e)) }

func (d *Driver) jobs(list []effect) []Job {
	jobs := make([]Job, 0, len(list))
	for _, a := range list {
		l := d.lookers[a.project]
		if l == nil {
			l = newScanner(a.project, d.loop.now, nil)
			d.lookers[a.project] = l
		}
		jobs = append(jobs, Job{l, a.order})
	}
	return jobs
}
