package supervisor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
	"github.com/livhana/steward/supervisor/decide"
)

var midnight = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// fataler is a *testing.T or a *rapid.T.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// stage drives Decide by hand, with its own clock, over projects in memory. It checks two laws at the turns that matter: a plan
// is the same when everything was read back from a dump, and at one moment it is empty within three turns.
type stage struct {
	turns     int // so far
	t         fataler
	cfg       decide.Config
	now       time.Time
	folders   map[string]*folder
	load      capacity.Load
	processes map[protocol.Identity]heartbeat.ProcessState
	heads     map[string]rules.Head
	memory    decide.Memory
	plan      decide.Plan
	snapshots map[string]protocol.Snapshot
	once      bool
	ran       bool
	resumed   bool
	troubles  []decide.Trouble
	show      map[protocol.Verb]bool
	log       strings.Builder
	alerts    int
	eyes      eyes
	asks      *supervisor.Admissions // those that ask before they begin; nil before the first
	// after is called with every view and plan.
	after func(decide.View, decide.Plan)
}

func newStage(t fataler) *stage {
	quarter := protocol.Used(0.25)
	return &stage{t: t, cfg: settings(), now: midnight, folders: map[string]*folder{"demo": newFolder()},
		load:      capacity.Load{CPU: quarter, Memory: quarter, Files: quarter, Disk: quarter},
		processes: map[protocol.Identity]heartbeat.ProcessState{}, heads: map[string]rules.Head{},
		snapshots: map[string]protocol.Snapshot{}, after: func(decide.View, decide.Plan) {},
		show: map[protocol.Verb]bool{"mark": true, "hold": true, "release": true, "retry": true, "bury": true, "conclude": true, "cancel": true, "file": true,
			"unlock": true, "requeue": true, "reap": true}}
}

func (s *stage) demo() *folder { return s.folders["demo"] }

// until lets time go by: a look every 5 seconds and whenever the plan asks for one, a sample every second while tasks wait.
func (s *stage) until(to time.Time) {
	s.t.Helper()
	for s.now.Before(to) {
		s.rest()
		next := s.now.Add(s.cfg.LookEvery).Truncate(s.cfg.LookEvery)
		for _, at := range append(s.wishes(), to) {
			if at.After(s.now) && at.Before(next) {
				next = at
			}
		}
		s.now = next
	}
}

func (s *stage) wishes() []time.Time {
	list := []time.Time{s.plan.Wake}
	for _, at := range s.plan.Looks {
		list = append(list, at)
	}
	for _, f := range s.folders {
		list = append(list, f.again)
	}
	if len(s.memory.Gate.Held) > 0 {
		list = append(list, s.now.Add(time.Second).Truncate(time.Second))
	}
	return list
}

// rest looks, decides and acts until nothing is left to do.
func (s *stage) rest() {
	s.t.Helper()
	for range 3 {
		if s.turn().Empty() {
			return
		}
	}
	if plan := s.turn(); !plan.Empty() {
		s.t.Fatalf("no rest at %s: %+v %+v\n%s", s.clock(s.now), plan.Changes, plan.Alerts, s.log.String())
	}
}

func (s *stage) turn() decide.Plan {
	s.t.Helper()
	s.ran = true
	view := s.look()
	plan := supervisor.Decide(view, s.memory, s.cfg)
	if s.turns++; s.turns <= 20 || s.turns%10 == 0 || len(plan.Changes)+len(plan.Alerts) > 0 {
		s.checkDump(view, plan) // in a long wait, nine turns of ten are like the one before
	}
	checkReasons(s.t, plan)
	checkSettled(s.t, view, s.memory, s.cfg, plan)
	s.after(view, plan)
	s.plan, s.memory, s.resumed = plan, plan.Memory, false
	for _, a := range plan.Alerts {
		s.raise(a)
	}
	for _, say := range plan.Says {
		s.note("say %s", say.Text)
	}
	s.noteEnds(plan)
	for _, c := range plan.Changes {
		if err := s.folders[c.Subject.Project].Apply(context.Background(), c, s.now); err != nil {
			s.t.Fatalf("%s: %+v: %v", s.clock(s.now), c, err)
		}
		if s.show[c.Verb] {
			s.note("%s", s.told(c))
		}
	}
	return plan
}

func (s *stage) look() decide.View {
	s.load.At = s.now
	v := decide.View{Now: s.now, Load: s.load, Incidents: s.heads, Once: s.once, Resumed: s.resumed, Troubles: s.troubles}
	for _, name := range []string{"demo", "other"} {
		f := s.folders[name]
		if f == nil {
			continue
		}
		snap := f.Observe(context.Background(), protocol.ScanOrder{Now: s.now})
		snap.Name(name, "agentstatus", !f.foreign.observed)
		v.Snapshots, v.Looked = append(v.Snapshots, snap), append(v.Looked, name)
	}
	for id, state := range s.processes {
		v.Processes = append(v.Processes, decide.Process{Identity: id, State: state})
	}
	slices.SortFunc(v.Processes, func(a, b decide.Process) int { return a.Identity.PID - b.Identity.PID })
	s.eyes.see(&v)
	if s.asks != nil {
		v.Promised = s.asks.Promised(s.now)
	}
	return v
}

// checkDump decides once more on what a dump of everything gives back.
func (s *stage) checkDump(view decide.View, plan decide.Plan) {
	s.t.Helper()
	var v decide.View
	var m decide.Memory
	reread(s.t, view, &v)
	reread(s.t, s.memory, &m)
	again := supervisor.Decide(v, m, s.cfg)
	if a, b := dump(s.t, plan), dump(s.t, again); a != b {
		s.t.Fatalf("at %s a dump leads to another plan:\n%s\n%s", s.clock(s.now), a, b)
	}
	if !reflect.DeepEqual(flat(plan.Tasks), flat(again.Tasks)) {
		s.t.Fatalf("at %s a dump leads to other verdicts:\n%v\n%v", s.clock(s.now), plan.Tasks, again.Tasks)
	}
}

func dump(t fataler, p decide.Plan) string {
	return string(encoded(t, p)) + "\n" + string(encoded(t, p.Memory))
}

func encoded(t fataler, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("dump: %v", err)
	}
	return b
}

func reread(t fataler, from, to any) {
	t.Helper()
	if err := json.Unmarshal(encoded(t, from), to); err != nil {
		t.Fatalf("read the dump: %v", err)
	}
}

// raise enters an alert the way the ledger does.
func (s *stage) raise(a rules.Alert) {
	head := s.heads[a.Key]
	next := map[string]rules.Head{}
	for key, h := range s.heads {
		next[key] = h
	}
	if a.Resolve {
		head.State, head.ResolvedBy = rules.Resolved, rules.ByFiles
		s.note("resolve %s: %s", a.Subject.ID, a.Detail)
	} else {
		head = rules.Head{State: rules.Raised, Rev: head.Rev + 1, Occurrence: a.Occurrence, Lasting: a.Lasting, Foreign: a.Foreign, Subject: a.Subject, Severity: a.Severity}
		s.alerts++
		s.note("alert %s %s: %s%s", a.Severity, a.Subject.ID, a.Summary, s.extras(a))
	}
	next[a.Key] = head
	s.heads = next
}

// extras are what more there is to an alert: whether somebody waits for it, what may be answered, and that no voice
// may say it.
func (s *stage) extras(a rules.Alert) (text string) {
	if s.show["words"] {
		text = fmt.Sprintf(" | %s | %s", a.Detail, a.Spoken)
	}
	if !s.show["alert"] {
		return text
	}
	if a.Blocking {
		text += " (blocking)"
	}
	if a.Silent {
		text += " (silent)"
	}
	for _, o := range a.Options {
		text += " [" + o.Label + "]"
	}
	return text
}

// told puts a change into a line that people can read.
func (s *stage) told(c protocol.Change) string {
	line := string(c.Verb) + " " + c.Subject.ID
	switch c.Verb {
	case protocol.VerbHold:
		line += " " + c.Hold
		if c.Gate != nil {
			line += " (" + c.Gate.Dimension + ")"
		}
		if s.show["wait"] && !c.Until.IsZero() {
			line += fmt.Sprintf(", ask again in %v", c.Until.Sub(s.now))
		}
	case protocol.VerbRetry:
		line += fmt.Sprintf(" %s %s, due %s", c.Action, c.Code, s.clock(c.Until))
		if c.Timeout > 0 {
			line += fmt.Sprintf(", timeout %.0f s", c.Timeout.Seconds())
		}
		if c.Twice {
			line += ", may run twice"
		}
		if c.NoHold {
			line += ", on record only"
		}
	case protocol.VerbMark:
		line += " " + c.Status
	case protocol.VerbLog:
		line += " " + c.Event
	case protocol.VerbConclude:
		line += " " + c.Code
		if c.Twice {
			line += ", may run twice"
		}
	case protocol.VerbReap:
		line += " " + c.Status
	case protocol.VerbRequeue:
		line += fmt.Sprintf(" attempt %d", c.Attempt)
	case protocol.VerbRelease, protocol.VerbCancel, protocol.VerbFile, protocol.VerbUnlock:
		line += " (" + string(c.Reason) + ")"
	}
	return line
}

func (s *stage) note(format string, args ...any) {
	fmt.Fprintf(&s.log, s.clock(s.now)+" "+format+"\n", args...)
}

// clock gives minutes and seconds since the beginning.
func (s *stage) clock(t time.Time) string {
	d := t.Sub(midnight).Round(time.Second)
	return fmt.Sprintf("%02d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}

// restart is a new process: only what is stored survives.
func (s *stage) restart() {
	var m decide.Memory
	reread(s.t, s.memory, &m)
	s.memory, s.plan, s.asks = m, decide.Plan{}, nil
}
