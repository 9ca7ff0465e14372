package supervisor_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
)

// flat is a Book as a map, to compare with another whatever they share.
func flat[V any](b supervisor.Book[V]) map[protocol.Subject]V { return maps.Collect(b.All()) }

// flatMemory is a Memory that can be compared, with its Books beside it.
func flatMemory(m supervisor.Memory) []any {
	books := []any{flat(m.Agents), flat(m.Tasks), flat(m.Locks), flat(m.Reaps)}
	m.Agents, m.Tasks = supervisor.BookOf[heartbeat.Memory](nil), supervisor.BookOf[supervisor.TaskMemory](nil)
	m.Locks, m.Reaps = supervisor.BookOf[heartbeat.LockMemory](nil), supervisor.BookOf[supervisor.Reap](nil)
	return append(books, m)
}

// flatPlan is a Plan that can be compared.
func flatPlan(p supervisor.Plan) []any {
	parts := append(flatMemory(p.Memory), flat(p.Agents), flat(p.Tasks), flat(p.Locks))
	p.Memory, p.Agents, p.Tasks, p.Locks = supervisor.Memory{}, supervisor.BookOf[heartbeat.Verdict](nil), supervisor.BookOf[supervisor.TaskVerdict](nil), supervisor.BookOf[heartbeat.LockVerdict](nil)
	return append(parts, p)
}

// mind is a Brain that is held to the law that, whatever it has in mind, it decides like Decide, which has nothing in mind.
type mind struct {
	brain *supervisor.Brain
	cfg   supervisor.Config
}

func (m *mind) decide(t fataler, view supervisor.View, old supervisor.Memory, cfg supervisor.Config) supervisor.Plan {
	t.Helper()
	if m.brain == nil || !reflect.DeepEqual(m.cfg, cfg) {
		m.brain, m.cfg = supervisor.NewBrain(cfg), cfg
	}
	plan := m.brain.Decide(view, old)
	a, b := flatPlan(plan), flatPlan(supervisor.Decide(view, old, cfg))
	for i := range a {
		if !reflect.DeepEqual(a[i], b[i]) {
			t.Fatalf("at %v another plan than from scratch:\n%s", view.Now, difference(reflect.ValueOf(a[i]), reflect.ValueOf(b[i])))
		}
	}
	return plan
}

// difference says where two values differ.
func difference(a, b reflect.Value) string {
	switch a.Kind() {
	case reflect.Map:
		var all []string
		for _, k := range append(a.MapKeys(), b.MapKeys()...) {
			x, y := a.MapIndex(k), b.MapIndex(k)
			if !x.IsValid() || !y.IsValid() || !reflect.DeepEqual(x.Interface(), y.Interface()) {
				all = append(all, fmt.Sprintf("%v:\n%+v\n%+v", k, x, y))
			}
		}
		return strings.Join(all, "\n")
	case reflect.Struct:
		var all []string
		for i := range a.NumField() {
			if x, y := a.Field(i), b.Field(i); !reflect.DeepEqual(x.Interface(), y.Interface()) {
				all = append(all, a.Type().Field(i).Name+": "+difference(x, y))
			}
		}
		return strings.Join(all, "\n")
	}
	return fmt.Sprintf("%+v\n%+v", a, b)
}

// TestBrainSparesWhatHasNotChanged: where nothing has happened since the last decision, nothing is judged.
func TestBrainSparesWhatHasNotChanged(t *testing.T) {
	view, memory := crowd(5, 20, 4, 50)
	cfg, brain := settings(), supervisor.NewBrain(settings())
	for range 3 {
		memory = brain.Decide(view, memory).Memory
	}
	all := testing.AllocsPerRun(20, func() { supervisor.Decide(view, memory, cfg) })
	spared := testing.AllocsPerRun(20, func() { memory = brain.Decide(view, memory).Memory })
	if spared*3 > all {
		t.Errorf("%.0f allocations, from scratch %.0f", spared, all)
	}
}

// TestBrainFindsOtherMemory: a Memory that is not the last plan's is judged as it is.
func TestBrainFindsOtherMemory(t *testing.T) {
	view, memory := crowd(2, 2, 3, 2)
	m := mind{}
	for range 3 {
		memory = m.decide(t, view, memory, settings()).Memory
	}
	id := view.Snapshots[0].Subject(protocol.KindTask, view.Snapshots[0].Tasks[4].ID)
	other := memory
	task := other.Tasks.Of(id)
	task.Running = midnight.Add(-48 * time.Hour)
	other.Tasks = other.Tasks.With(id, task)
	for _, next := range []supervisor.Memory{other, {}, memory} {
		m.decide(t, view, next, settings())
	}
}

// TestBrainSeesEveryGround: whatever a judgement rests on, a change of it is seen at the next decision.
func TestBrainSeesEveryGround(t *testing.T) {
	lives := protocol.Identity{PID: 7, Start: 1, Boot: "b"}
	for name, change := range map[string]func(*supervisor.View, *supervisor.Memory){
		"a process ends":      func(v *supervisor.View, _ *supervisor.Memory) { v.Processes[0].State = heartbeat.ProcessGone },
		"a claimed pid":       func(v *supervisor.View, _ *supervisor.Memory) { v.Processes[1].State = heartbeat.ProcessGone },
		"it may act no more":  func(v *supervisor.View, _ *supervisor.Memory) { v.Snapshots[0].Act = false },
		"it is busy":          func(v *supervisor.View, _ *supervisor.Memory) { v.Snapshots[0].Busy = true },
		"it yields":           func(v *supervisor.View, _ *supervisor.Memory) { v.Snapshots[0].Yield = "others are at work" },
		"another look":        func(v *supervisor.View, _ *supervisor.Memory) { v.Snapshots[0].At = v.Now.Add(5 * time.Second) },
		"other tasks":         func(v *supervisor.View, _ *supervisor.Memory) { v.Snapshots[0].Tasks = v.Snapshots[0].Tasks[1:] },
		"time goes by":        func(v *supervisor.View, _ *supervisor.Memory) { v.Now = v.Now.Add(24 * time.Hour) },
		"the clock goes back": func(v *supervisor.View, _ *supervisor.Memory) { v.Now = v.Now.Add(-10 * time.Hour) },
		"another place":       func(v *supervisor.View, _ *supervisor.Memory) { v.Now = v.Now.In(time.FixedZone("", 3600)) },
		"a sleep":             func(v *supervisor.View, _ *supervisor.Memory) { v.Resumed = true },
		"doubt":               func(v *supervisor.View, _ *supervisor.Memory) { v.Doubt = 2 },
		"once":                func(v *supervisor.View, _ *supervisor.Memory) { v.Once = true },
		"a project is gone":   func(v *supervisor.View, _ *supervisor.Memory) { v.Snapshots = v.Snapshots[1:] },
		"a promise": func(v *supervisor.View, _ *supervisor.Memory) {
			v.Promised = []supervisor.Promise{{Subject: v.Snapshots[0].Subject(protocol.KindTask, v.Snapshots[0].Tasks[0].ID), At: v.Now}}
		},
		"what it takes": func(v *supervisor.View, _ *supervisor.Memory) {
			v.Usage = []capacity.Usage{{Identity: lives, At: v.Now, Cores: 2, CPU: time.Minute, Memory: 1 << 30, Tree: "x"}}
		},
		"an incident": func(v *supervisor.View, _ *supervisor.Memory) { v.Incidents = nil },
		"another first look": func(_ *supervisor.View, m *supervisor.Memory) {
			m.Projects = map[string]supervisor.ProjectMemory{"project0": {Since: midnight.Add(25 * time.Hour)}}
		},
		"no standing": func(_ *supervisor.View, m *supervisor.Memory) { m.Standing = nil },
		"silence": func(v *supervisor.View, m *supervisor.Memory) {
			m.Silence.Agents = []protocol.Subject{v.Snapshots[0].Subject(protocol.KindAgent, "agent0")}
		},
		"a resume": func(v *supervisor.View, m *supervisor.Memory) { m.ResumeUntil = v.Now.Add(time.Minute) },
	} {
		for _, start := range []time.Duration{0, 25 * time.Hour} {
			view, memory := crowd(2, 3, 3, 2)
			view.Now = midnight.Add(start)
			for i := range view.Snapshots {
				s := &view.Snapshots[i]
				s.At, s.Tasks[0].Outcome = view.Now, &protocol.Outcome{Status: "blocked", Appeared: midnight, Ref: protocol.Ref{Sum: "x"}}
				s.Agents[0].Process, s.Agents[1].PID = lives, 9
				s.Agents[2].Status, s.Agents[2].Failed, s.Agents[2].Complaint = "error", true, "it is stuck"
				s.Findings = []protocol.Finding{{Subject: s.Subject(protocol.KindTask, "t1"), Code: "gate", Severity: protocol.High, Text: "the audit failed"}}
			}
			view.Processes = []supervisor.Process{{Identity: lives, State: heartbeat.ProcessAlive},
				{Identity: protocol.Identity{PID: 9, Start: 3, Boot: "b"}, State: heartbeat.ProcessAlive, Claimed: true}}
			m := mind{}
			for range 3 {
				view.Now = view.Now.Add(time.Millisecond)
				memory = m.decide(t, view, memory, settings()).Memory
			}
			next := view
			next.Now, next.Snapshots, next.Processes = next.Now.Add(time.Millisecond), slices.Clone(view.Snapshots), slices.Clone(view.Processes)
			change(&next, &memory)
			memory = m.decide(t, next, memory, settings()).Memory
			m.decide(t, next, memory, settings())
			t.Log(name, "seen")
		}
	}
}

// TestBrainRepeatsWhatIsDue: what is not done yet is asked for at every decision, each time by the clock of the day, and
// whatever steward might do there before.
func TestBrainRepeatsWhatIsDue(t *testing.T) {
	terms := map[string]func(*protocol.Snapshot){"acts": func(*protocol.Snapshot) {}, "observes": func(s *protocol.Snapshot) { s.Act = false },
		"is busy": func(s *protocol.Snapshot) { s.Busy = true }, "yields": func(s *protocol.Snapshot) { s.Yield = "others are at work" }}
	for from, first := range terms {
		for to, then := range terms {
			t.Run(from+", then "+to, func(t *testing.T) {
				view, memory, m := aLook(midnight), supervisor.Memory{}, mind{}
				view.Load.CPU = protocol.Used(0.95)
				plain := view.Snapshots[0]
				for _, set := range []func(*protocol.Snapshot){first, then} {
					s := plain
					set(&s)
					view.Snapshots = []protocol.Snapshot{s}
					for range 4 {
						memory = m.decide(t, view, memory, settings()).Memory
						view.Now = view.Now.Add(700 * time.Millisecond)
					}
				}
			})
		}
	}
}

// The same Memory at a later moment, with a moment in it that is yet to come.
func TestBrainSameMemoryLater(t *testing.T) {
	view, memory := crowd(1, 2, 3, 2)
	m := mind{}
	for range 3 {
		memory = m.decide(t, view, memory, settings()).Memory
	}
	id := view.Snapshots[0].Subject(protocol.KindTask, view.Snapshots[0].Tasks[2].ID)
	task := memory.Tasks.Of(id)
	task.FirstSeen = view.Now.Add(time.Hour)
	memory.Tasks = memory.Tasks.With(id, task)
	m.decide(t, view, memory, settings())
	view.Now = view.Now.Add(time.Millisecond)
	m.decide(t, view, memory, settings())
}

// A scan from the future comes to count by the clock alone.
func TestBrainUsageFromTheFuture(t *testing.T) {
	lives := protocol.Identity{PID: 7, Start: 1, Boot: "b"}
	view, memory := crowd(1, 2, 3, 2)
	m := mind{}
	s := &view.Snapshots[0]
	s.Agents[0].Process = lives
	view.Processes = []supervisor.Process{{Identity: lives, State: heartbeat.ProcessAlive}}
	view.Usage = []capacity.Usage{{Identity: lives, At: view.Now.Add(2*settings().LookEvery + time.Second), Cores: 2, CPU: time.Minute, Memory: 1 << 30, Tree: "x"}}
	for range 6 {
		memory = m.decide(t, view, memory, settings()).Memory
		view.Now = view.Now.Add(300 * time.Millisecond)
	}
}
