// Package supervisor runs the loop that scans projects, decides what should change and applies it. The loop is a state
// machine; Supervisor owns its goroutines, channels and timers.
package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/livhana/steward/supervisor/decide"
)

// Supervisor scans, decides and applies until it is stopped. See docs/decisions.md, "One scanner per project, one loop for all".
type Supervisor struct {
	loop    *loop
	ready   func() // called once, after the first scans
	ask     chan request
	reports chan report
	stopped chan struct{}
	// scanners counts the goroutines of the scanners; ctx and cancel are their context.
	scanners sync.WaitGroup
	ctx      context.Context
	cancel   context.CancelFunc
}

// New prepares a supervisor; Run starts it. Memory is what the last run saved.
func New(cfg decide.Config, projects []Project, memory decide.Memory, deps Deps, log *slog.Logger, metrics *Metrics) *Supervisor {
	return &Supervisor{loop: newLoop(cfg, projects, memory, deps, time.Now, log, metrics), ask: make(chan request), reports: make(chan report), stopped: make(chan struct{})}
}

// OnReady sets a function that is called once, after the first scan of every project that answers in time.
func (s *Supervisor) OnReady(f func()) { s.ready = f }

// State gives the last published state; nil before the first scan.
func (s *Supervisor) State() *State { return s.loop.state.Load() }

// Run supervises until ctx ends, then releases every hold. The error names the tasks that stay held.
func (s *Supervisor) Run(ctx context.Context) error {
	l := s.loop
	s.begin(ctx)
	defer s.close()
	// See docs/decisions.md, "steward uses the system's default timers".
	timer := time.NewTimer(0)
	defer timer.Stop()
	done, hints, exits, ask := ctx.Done(), l.deps.Hints, l.deps.Exits, s.ask
	for !l.removed.done() {
		alarms := l.deps.Alarms
		if !l.gauges.needed {
			alarms = nil
		}
		var e event
		select {
		case <-done:
			e, done, hints, exits, ask = stopAsked{}, nil, nil, nil, nil // from here on only reports count
		case h := <-hints:
			e = h
		case id := <-exits:
			e = processExited{id}
		case r := <-s.reports:
			e = r
		case <-alarms:
			e = alarmRang{}
		case q := <-ask:
			e = q
		case <-timer.C:
			e = timeCame{}
		}
		s.send(l.step(e))
		if s.ready != nil && l.scannedOnce() {
			s.ready()
			s.ready = nil
		}
		l.deps.Heartbeat(l.now())
		timer.Reset(max(0, l.next().Sub(l.now())))
	}
	return l.end()
}

// Once scans, decides and applies until nothing is left to do. A project that does not answer is left out.
func (s *Supervisor) Once(ctx context.Context) error {
	l := s.loop
	l.once = true
	s.begin(ctx)
	defer s.close()
	s.send(l.effects())
	patience := time.NewTimer(stuckAfter)
	defer patience.Stop()
	for l.projects.any((*projectState).working) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-patience.C:
			return errors.Join(l.save(), errors.New("some projects do not answer"))
		case r := <-s.reports:
			s.send(l.step(r))
		}
	}
	return l.save()
}

// Do carries out an operator's command and returns its outcome.
func (s *Supervisor) Do(ctx context.Context, c Command) error {
	return s.put(ctx, request{command: &c})
}

// Reload replaces settings and projects.
func (s *Supervisor) Reload(ctx context.Context, cfg decide.Config, projects []Project) error {
	return s.put(ctx, request{config: &cfg, projects: projects})
}

// Spoken counts a spoken message about a task of the project (Goals).
func (s *Supervisor) Spoken(ctx context.Context, project string) error {
	return s.put(ctx, request{spoken: project})
}

// put sends a request to the loop. The caller returns when its ctx ends, whatever hangs.
func (s *Supervisor) put(ctx context.Context, q request) error {
	q.reply = make(chan answer, 1)
	select {
	case s.ask <- q:
	case <-s.stopped:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
	a := <-q.reply // the loop replies at once
	var errs []error
	for range a.n {
		select {
		case err := <-a.pending:
			errs = append(errs, err)
		case <-ctx.Done():
			return fmt.Errorf("the project does not answer yet; the change may still be made: %w", ctx.Err())
		case <-s.stopped:
			select {
			case err := <-a.pending:
				errs = append(errs, err)
			default:
				return ErrStopped
			}
		}
	}
	return cmp.Or(a.err, errors.Join(errs...))
}

// begin starts the loop. The processor load is known only from the second sample on.
func (s *Supervisor) begin(ctx context.Context) {
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.loop.start()
	pause := time.NewTimer(warmUp)
	defer pause.Stop()
	select {
	case <-ctx.Done():
	case <-pause.C:
	}
	s.loop.sampleAgain()
}

// warmUp is the time between the first two samples.
const warmUp = 120 * time.Millisecond

// send gives orders to the scanners. It never blocks: an idle scanner has an empty channel.
func (s *Supervisor) send(list []effect) {
	for _, e := range list {
		if e.project.stop == nil {
			s.startScanner(e.project)
		}
		e.project.orders <- e.order
	}
}

// startScanner starts the scanner of a project.
func (s *Supervisor) startScanner(d *projectState) {
	ctx, stop := context.WithCancel(s.ctx)
	d.stop = stop
	l := newScanner(d, s.loop.now, s.loop.deps.Watch)
	s.scanners.Add(1)
	go func() {
		defer s.scanners.Done()
		l.run(ctx, d.orders, s.reports)
	}()
}

// close stops the scanners. A scanner that hangs in a system call is abandoned.
func (s *Supervisor) close() {
	close(s.stopped)
	s.cancel()
	gone := make(chan struct{})
	go func() { s.scanners.Wait(); close(gone) }()
	patience := time.NewTimer(scannerGrace)
	defer patience.Stop()
	select {
	case <-gone:
	case <-patience.C:
		s.loop.log.Error("a project does not answer; it is left behind")
	}
}
