package heartbeat

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
)

// TestReport: the state of a pid applies to the proven process only if it is the same process.
func TestReport(t *testing.T) {
	ours := protocol.Identity{PID: 42, Start: 1, Boot: "boot", UID: 1000}
	other := protocol.Identity{PID: 42, Start: 2, Boot: "boot", UID: 1000}
	reboot := protocol.Identity{PID: 42, Start: 1, Boot: "another boot", UID: 1000}
	root := protocol.Identity{PID: 42, Start: 1, Boot: "boot"}
	for _, tc := range []struct {
		name  string
		state ProcessState
		about protocol.Identity
		want  protocol.AgentState
	}{
		{"it lives", ProcessAlive, ours, protocol.AgentAlive},
		{"it lives as another user", ProcessAlive, root, protocol.AgentAlive},
		{"it is gone", ProcessGone, ours, protocol.AgentDead},
		{"nobody carries its number", ProcessGone, protocol.Identity{PID: 42}, protocol.AgentDead},
		{"another process carries its number", ProcessAlive, other, protocol.AgentDead},
		{"a stopped process carries its number", ProcessStopped, other, protocol.AgentDead},
		{"its number lives under another boot", ProcessAlive, reboot, protocol.AgentDead},
		{"nobody can say who carries its number", ProcessAlive, protocol.Identity{PID: 42}, protocol.AgentAlive},
		{"another process with its number is gone", ProcessGone, other, protocol.AgentAlive},
		{"a process with another number is gone", ProcessGone, protocol.Identity{PID: 43, Start: 1, Boot: "boot"}, protocol.AgentAlive},
		{"nobody asked", ProcessUnknown, protocol.Identity{}, protocol.AgentAlive},
	} {
		f := Facts{Agent: beating(1), Process: tc.state, Identity: tc.about}
		f.Agent.Process = ours
		v, m := Judge(f, Memory{}, Clock{Now: epoch, LookEvery: lookEvery}, document().For("", ""), document())
		if v.State != tc.want {
			t.Errorf("%s: got %s, %s", tc.name, v.State, said(v.Cause))
		}
		f.Process, f.Identity = ProcessAlive, ours
		if v, _ = Judge(f, m, Clock{Now: epoch, LookEvery: lookEvery}, document().For("", ""), document()); v.State != tc.want {
			t.Errorf("%s, then found alive: got %s: gone is for ever", tc.name, v.State)
		}
	}
}

// TestOutlived: the pid of a dead process is spent even if it is no longer looked up.
func TestOutlived(t *testing.T) {
	ours := protocol.Identity{PID: 42, Start: 1, Boot: "boot", UID: 1000}
	f := Facts{Agent: beating(1)}
	f.Agent.PID = ours.PID
	m := Memory{First: epoch, Looked: epoch, Heard: Heard{Mark: "0"}, Owner: Owner{Proven: ours, Process: ProcessGone}, Judged: Judged{State: protocol.AgentDead}}
	v, m := Judge(f, m, Clock{Now: epoch.Add(time.Second), LookEvery: lookEvery}, document().For("", ""), document())
	if id := Watch(f.Agent, m); v.State != protocol.AgentAlive || id != (protocol.Identity{}) {
		t.Errorf("got %s, and asks about %+v", v.State, id)
	}
}

func beating(n int) protocol.Agent {
	stamp := epoch.Add(time.Duration(n) * time.Second)
	return protocol.Agent{Name: "codex-cursor", Beat: protocol.Beat{Mark: fmt.Sprint(n), At: stamp, Touched: stamp}}
}

// TestGaps: gaps are counted between beats in sight, and uptime from the first evidence on.
func TestGaps(t *testing.T) {
	var m Memory
	judge := func(at, beat int) {
		f := Facts{Agent: beating(beat)}
		_, m = Judge(f, m, Clock{Now: epoch.Add(time.Duration(at) * time.Second), LookEvery: 30 * time.Second}, document().For("", ""), document())
	}
	for _, look := range [][2]int{{0, 0}, {30, 0}, {60, 0}, {75, 75}, {90, 75}, {120, 120}, {150, 120}, {180, 120}, {240, 120}} {
		judge(look[0], look[1])
	}
	if m.Beats != 2 || m.LastGap != 45*time.Second || m.LongestGap != 45*time.Second {
		t.Errorf("%d beats, last gap %v, longest %v", m.Beats, m.LastGap, m.LongestGap)
	}
	if m.Observed != 240*time.Second || m.Covered != 210*time.Second {
		t.Errorf("covered %v of %v, want 3m30s of 4m0s", m.Covered, m.Observed)
	}
}

// TestWholeSeconds: a beat with a time in whole seconds is not older than a registration within that second.
func TestWholeSeconds(t *testing.T) {
	f := Facts{Agent: beating(0)}
	f.Agent.Registered = epoch.Add(700 * time.Millisecond)
	v, _ := Judge(f, Memory{}, Clock{Now: epoch.Add(time.Second), LookEvery: lookEvery}, document().For("", ""), document())
	if v.State != protocol.AgentAlive {
		t.Errorf("got %s, %s", v.State, said(v.Cause))
	}
}

// TestLeftover: a heartbeat from before steward's time is not downtime, and neither is a pause.
func TestLeftover(t *testing.T) {
	for _, script := range []string{
		"at 00:00 a heartbeat from 3h ago lies there\nat 20:00 expect dead",
		"at 00:00 it beats saying paused\nat 20:00 expect paused",
	} {
		s := newStage(t)
		s.play(script)
		if s.m.Observed != 0 {
			t.Errorf("%s: observed %v", script, s.m.Observed)
		}
	}
}

// TestDroppedIsBounded: Dropped is bounded, and a newer Memory never modifies an older one.
func TestDroppedIsBounded(t *testing.T) {
	var m Memory
	var older []Memory
	var tasks [][]string
	for n := range 200 {
		f := Facts{Agent: beating(n)}
		f.Agent.Tasks = []string{fmt.Sprint("task ", n)}
		_, m = Judge(f, m, Clock{Now: epoch.Add(time.Duration(n) * time.Second), LookEvery: lookEvery}, document().For("", ""), document())
		older, tasks = append(older, m), append(tasks, slices.Clone(m.Dropped))
	}
	if len(m.Dropped) != droppedMost || m.Dropped[droppedMost-1] != "task 198" || !m.Names {
		t.Errorf("dropped %d: %v", len(m.Dropped), m.Dropped)
	}
	for i := range older {
		if !slices.Equal(older[i].Dropped, tasks[i]) {
			t.Fatalf("memory %d was changed later: %v, was %v", i, older[i].Dropped, tasks[i])
		}
	}
}

// TestHostileTimes: an mtime that JSON cannot represent must not keep the Memory from being written.
func TestHostileTimes(t *testing.T) {
	for _, stamp := range []time.Time{{}, time.Unix(1<<55, 0), time.Unix(-1<<55, 0), time.Unix(253402300800, 0)} {
		f := Facts{Agent: beating(1)}
		f.Agent.Beat.Touched, f.Agent.Beat.At, f.Agent.Registered = stamp, stamp, stamp
		v, m := Judge(f, Memory{}, Clock{Now: time.Now(), LookEvery: lookEvery}, document().For("", ""), document())
		if restored(t, m); v.State != protocol.AgentAlive {
			t.Errorf("%v: got %s, %s", stamp.Unix(), v.State, said(v.Cause))
		}
	}
}

// TestTags: every field of Memory and of the configuration has a key in snake case.
func TestTags(t *testing.T) {
	for tag, typ := range map[string]reflect.Type{"json": reflect.TypeFor[Memory](), "toml": reflect.TypeFor[Config]()} {
		for _, field := range reflect.VisibleFields(typ) {
			if !field.Anonymous && field.Tag.Get(tag) == "" {
				t.Errorf("%s.%s has no %s key", typ, field.Name, tag)
			}
		}
	}
}

// steady returns agents whose scans show no change.
func steady() map[string]Facts {
	alive, dead, watched := beating(0), beating(0), beating(0)
	watched.Process = protocol.Identity{PID: 42, Start: 1, Boot: "boot"}
	watched.Tasks, watched.Signs = []string{"a", "b"}, "signs"
	dead.Process = watched.Process
	return map[string]Facts{
		"alive":   {Agent: alive},
		"watched": {Agent: watched, Process: ProcessAlive, Identity: watched.Process},
		"dead":    {Agent: dead, Process: ProcessGone, Identity: dead.Process},
		"unknown": {Agent: protocol.Agent{Name: "codex-cursor", Recorded: "unknown"}},
	}
}

// TestRestCostsNothing: a scan without changes does not allocate.
func TestRestCostsNothing(t *testing.T) {
	for name, f := range steady() {
		cfg := document()
		_, m := Judge(f, Memory{}, Clock{Now: epoch, LookEvery: lookEvery}, cfg.For("", ""), cfg)
		clock := Clock{Now: epoch.Add(time.Second), LookEvery: lookEvery}
		if n := testing.AllocsPerRun(100, func() { Judge(f, m, clock, cfg.For("", "codex-cursor"), cfg) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkJudge(b *testing.B) {
	for name, f := range steady() {
		b.Run(name, func(b *testing.B) {
			cfg := document()
			limits := cfg.For("", "codex-cursor")
			_, m := Judge(f, Memory{}, Clock{Now: epoch, LookEvery: lookEvery}, limits, cfg)
			clock := Clock{Now: epoch.Add(time.Second), LookEvery: lookEvery}
			b.ReportAllocs()
			for b.Loop() {
				Judge(f, m, clock, limits, cfg)
			}
		})
	}
}

// An agent that takes its tasks by claims takes them in no other way, even after it has gone and while its last beat is
// recent.
func TestWhoClaimsNamesItsTasks(t *testing.T) {
	f := Facts{Agent: beating(0)}
	f.Agent.Claims = true
	_, m := Judge(f, Memory{}, Clock{Now: epoch, LookEvery: lookEvery}, document().For("", ""), document())
	f.Agent.Claims = false
	_, m = Judge(f, m, Clock{Now: epoch.Add(time.Second), LookEvery: lookEvery}, document().For("", ""), document())
	if !m.Names {
		t.Error("forgotten")
	}
}
