package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/livhana/steward/protocol"
)

// folder is one project's files in memory. It changes them in the same steps as the adapter of protocol 000 does.
type folder struct {
	mu    sync.Mutex
	order []string
	cards map[string]*card
	sims  []*sim
	locks int
	// step is called before each step that a crash can come before; an error is the crash.
	step func() error
	// beforeLook and beforeChange let a test hang, panic or refuse.
	beforeLook   func()
	beforeChange func(protocol.Change) error
	again        time.Time
	looks        int
	foreign      foreign
	applied      []protocol.Change
	called       []string // incidents that the log names
}

// card is one task's files.
type card struct {
	task       protocol.Task // what the request says
	open, held bool          // where the request lies
	appeared   time.Time
	notice     *protocol.Hold
	result     *protocol.Outcome
	late       *protocol.Ref
	ledger     []protocol.Attempt
	taken      map[int]protocol.Outcome
	buried     bool
	cancelled  bool
	named      string
	listed     bool // once, in active_tasks
	progress   time.Time
	percent    float64
	logged     []string
	workers    []protocol.Identity
	shown      int // how often it came into sight
}

// sim is an agent that beats.
type sim struct {
	agent  protocol.Agent
	every  time.Duration
	next   time.Time
	silent bool
	beats  int
	tasks  []string
}

func newFolder() *folder {
	return &folder{cards: map[string]*card{}, step: func() error { return nil }}
}

func (f *folder) submit(t protocol.Task, now time.Time) {
	t.Created, t.Ref = now, protocol.Ref{Path: "task_" + t.ID + ".request.json", Sum: "request of " + t.ID}
	f.cards[t.ID] = &card{task: t, open: true, appeared: now, taken: map[int]protocol.Outcome{}, shown: 1}
	f.order = append(f.order, t.ID)
	slices.Sort(f.order)
}

func (f *folder) finish(id string, o protocol.Outcome, now time.Time) {
	f.locks++
	o.At, o.Appeared, o.Ref = now, now, protocol.Ref{Path: "task_" + id + ".result.json", Sum: fmt.Sprint("result ", f.locks)}
	f.cards[id].result = &o
}

// live lets the agents beat that are due.
func (f *folder) live(now time.Time) {
	for _, s := range f.sims {
		for !s.silent && !s.next.After(now) {
			s.beats++
			s.agent.Beat = protocol.Beat{Mark: fmt.Sprint("beat ", s.beats), Touched: s.next, At: s.next, Kept: s.agent.Kept}
			s.agent.Tasks = slices.Clone(s.tasks)
			s.next = s.next.Add(s.every)
		}
	}
}

func (f *folder) Dirs() []string                               { return []string{"tmp"} }
func (f *folder) Prepare(context.Context, protocol.Boot) error { return nil }

func (f *folder) Observe(_ context.Context, look protocol.ScanOrder) protocol.Snapshot {
	if f.beforeLook != nil {
		f.beforeLook()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looks++
	f.live(look.Now)
	s := protocol.Snapshot{At: look.Now, Again: f.again, SharedLog: protocol.SharedLog{LogsCalls: true, Called: slices.Clone(f.called)}}
	f.foreign.fill(&s)
	for _, sim := range f.sims {
		s.Agents = append(s.Agents, sim.agent)
	}
	for _, id := range f.order {
		s.Tasks = append(s.Tasks, f.cards[id].read())
	}
	return s
}

func (c *card) read() protocol.Task {
	t := c.task
	t.Visible = c.open && c.result == nil
	if c.open {
		t.Appeared = c.appeared
	}
	if t.Foreign {
		t.Visible = t.Visible && c.named == ""
		t.Named, t.Workers = c.named, c.workers
	} else if t.Visible {
		t.Named, t.Progress.At, t.Progress.Percent = c.named, c.progress, c.percent
		t.Workers = c.workers
	}
	if c.result != nil {
		o := *c.result
		t.Outcome = &o
	}
	t.Attempts, t.Buried, t.Cancelled, t.Late = slices.Clone(c.ledger), c.buried, c.cancelled, c.late
	t.Logged, t.Hold = slices.Clone(c.logged), c.hold()
	return t
}

func (c *card) hold() *protocol.Hold {
	if !c.held && (c.notice == nil || !c.open) {
		return nil
	}
	h := protocol.Hold{Reason: protocol.HoldCapacity}
	if len(c.ledger) > 0 {
		h.Reason = protocol.HoldRetry
	}
	if c.notice != nil {
		h = *c.notice
	}
	if n := len(c.ledger); n > 0 && c.ledger[n-1].Committed && h.Reason == protocol.HoldRetry {
		h.NotBefore = c.ledger[n-1].Due
	}
	h.Half = c.open || !c.held
	return &h
}

var errMoved = fmt.Errorf("%w: test", protocol.ErrConflict)

func (f *folder) Apply(_ context.Context, c protocol.Change, now time.Time) error {
	f.mu.Lock()
	before := f.beforeChange
	f.mu.Unlock()
	if before != nil {
		if err := before(c); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.apply(c, now)
	if err == nil {
		f.applied = append(f.applied, c)
	}
	return err
}

func (f *folder) apply(c protocol.Change, now time.Time) error {
	if c.Verb == protocol.VerbLog && c.Code != "" {
		return f.do(func() { f.called = append(f.called, c.Code) })
	}
	if c.Subject.Kind == protocol.KindAgent && c.Verb != protocol.VerbReap && c.Verb != protocol.VerbLog {
		return f.applyAgent(c)
	}
	if done, err := f.applyForeign(c); done {
		return err
	}
	t := f.cards[c.Subject.ID]
	if t == nil {
		return errMoved
	}
	switch c.Verb {
	case protocol.VerbHold:
		return f.holdTask(t, c, now)
	case protocol.VerbRelease:
		return f.show(t, now)
	case protocol.VerbRenew:
		return f.do(func() {
			t.notice = &protocol.Hold{Reason: t.hold().Reason, Since: t.hold().Since, NotBefore: t.hold().NotBefore, ReleaseBy: c.ReleaseBy}
		})
	case protocol.VerbRetry:
		return f.retry(t, c, now)
	case protocol.VerbBury:
		return f.do(func() { t.buried = true })
	case protocol.VerbConclude:
		return f.conclude(t, c, now)
	case protocol.VerbCancel:
		return f.cancel(t, c, now)
	case protocol.VerbFile:
		return f.do(func() {
			if t.late != nil && *t.late == c.Ref {
				t.late = nil
			} else {
				t.result = nil
			}
		})
	case protocol.VerbLog:
		return f.do(func() {
			if !slices.Contains(t.logged, c.Event) {
				t.logged = append(t.logged, c.Event)
			}
		})
	}
	return protocol.ErrUnsupported
}

func (f *folder) applyAgent(c protocol.Change) error {
	for _, s := range f.sims {
		if s.agent.Name != c.Subject.ID {
			continue
		}
		return f.do(func() {
			switch c.Verb {
			case protocol.VerbMark:
				s.agent.Recorded = c.Status
			case protocol.VerbPause:
				s.agent.Held = c.Why
			case protocol.VerbResume:
				s.agent.Held = ""
			}
		})
	}
	return errMoved
}

// do makes the steps one after the other.
func (f *folder) do(steps ...func()) error {
	for _, step := range steps {
		if err := f.step(); err != nil {
			return err
		}
		step()
	}
	return nil
}

func (f *folder) holdTask(t *card, c protocol.Change, now time.Time) error {
	if t.held {
		return nil
	}
	if !t.open || t.result != nil {
		return errMoved
	}
	return f.do(
		func() {
			t.notice = &protocol.Hold{Reason: c.Hold, Since: now, NotBefore: c.Until, ReleaseBy: c.ReleaseBy}
		},
		func() { t.open, t.held = false, true })
}

func (f *folder) show(t *card, now time.Time) error {
	return f.do(
		func() {
			if t.held {
				t.open, t.held, t.appeared, t.progress = true, false, now, time.Time{}
				if t.shown++; len(t.workers) == 0 { // a claim holds whenever it was made
					t.named = ""
				}
			}
		},
		func() { t.notice = nil })
}

func (f *folder) retry(t *card, c protocol.Change, now time.Time) error {
	if t.result == nil || t.result.Ref != c.Ref {
		if old, ok := t.taken[c.Attempt]; ok && old.Ref == c.Ref {
			return nil
		}
		return errMoved
	}
	k := protocol.Attempt{N: c.Attempt, Action: c.Action, Rule: c.Rule, Code: c.Code, Agent: c.Agent, Due: c.Until, Ours: t.result.Ours, Twice: c.Twice}
	n := len(t.ledger)
	switch {
	case n >= c.Attempt && t.ledger[c.Attempt-1].Committed:
		return errMoved
	case n >= c.Attempt && c.Rule != "operator":
		k = t.ledger[c.Attempt-1]
	case n < c.Attempt:
		if err := f.do(func() { t.ledger = append(t.ledger, k) }); err != nil {
			return err
		}
	}
	if c.NoHold && now.Before(k.Due) {
		return nil
	}
	err := f.do(
		func() {
			if !t.held && c.Timeout > 0 {
				t.task.Timeout = c.Timeout
			}
			t.open, t.held = false, true
		},
		func() {
			t.notice = &protocol.Hold{Reason: c.Hold, Since: now, NotBefore: k.Due, ReleaseBy: c.ReleaseBy}
		},
		func() {
			k.Committed = true
			t.taken[c.Attempt] = *t.result
			t.ledger[c.Attempt-1], t.result, t.buried, t.cancelled = k, nil, false, false
			if t.workers != nil {
				t.workers, t.named = nil, "" // the claim is put away with the attempt
			}
		})
	if err != nil || now.Before(k.Due) {
		return err
	}
	return f.show(t, now)
}

func (f *folder) conclude(t *card, c protocol.Change, now time.Time) error {
	if t.result != nil || !t.open {
		return errMoved
	}
	return f.do(func() {
		f.finish(c.Subject.ID, protocol.Outcome{Status: "failed", Agent: "steward", Ours: true, Twice: c.Twice,
			Failures: []protocol.Failure{{Code: c.Code, Severity: "error", Message: c.Why}}}, now)
	})
}

func (f *folder) cancel(t *card, c protocol.Change, now time.Time) error {
	if err := f.do(func() { t.cancelled = true }); err != nil {
		return err
	}
	if t.result == nil {
		err := f.do(func() {
			if n := len(t.ledger); n > 0 && t.ledger[n-1].Committed && t.held {
				o := t.taken[n]
				t.result = &o
				return
			}
			f.finish(c.Subject.ID, protocol.Outcome{Status: "failed", Agent: "steward", Ours: true, Failures: []protocol.Failure{{Code: "CANCELLED", Severity: "error"}}}, now)
		})
		if err != nil {
			return err
		}
	}
	if t.held || t.notice != nil {
		return f.show(t, now)
	}
	return nil
}

var errKilled = errors.New("killed")
