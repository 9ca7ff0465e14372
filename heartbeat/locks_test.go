package heartbeat

import (
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
)

// TestLocks judges one lock by each row of the rules (protocol 001, Lock Protocol and Same-File Conflicts): at first
// sight, and again after watching it.
func TestLocks(t *testing.T) {
	start := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	cfg := LockConfig{TTL: 30 * time.Minute, Watch: 30 * time.Second}
	verdict := func(state protocol.AgentState, proof bool) *Verdict { return &Verdict{State: state, Proof: proof} }
	ago := func(d time.Duration) time.Time { return start.Add(-d) }
	past := protocol.Lock{Resource: "r", Holder: "builder", Acquired: ago(73 * time.Hour), Expires: ago(72 * time.Hour)} // by any clock
	running := protocol.Lock{Resource: "r", Holder: "builder", Acquired: ago(time.Minute), Expires: start.Add(29 * time.Minute)}
	granted := func(l protocol.Lock) protocol.Lock {
		l.Process = protocol.Identity{PID: 7, Start: 8, Boot: "b"}
		return l
	}
	for _, tc := range []struct {
		name    string
		lock    protocol.Lock
		holder  *Verdict
		process ProcessState
		resume  time.Duration // remaining grace after a resume
		first   protocol.LockState
		then    protocol.LockState // after watching it for 40 s
		release bool
	}{
		{"not over", running, verdict(protocol.AgentAlive, false), "", 0, protocol.LockHeld, protocol.LockHeld, false},
		{"not over, holder silent", running, verdict(protocol.AgentDead, false), "", 0, protocol.LockHeld, protocol.LockHeld, false},
		{"not over, holder proved dead", running, verdict(protocol.AgentDead, true), "", 0, protocol.LockStale, protocol.LockStale, true},
		{"over, holder lives", past, verdict(protocol.AgentAlive, false), "", 0, protocol.LockOverdue, protocol.LockOverdue, false},
		{"over, holder late", past, verdict(protocol.AgentLate, false), "", 0, protocol.LockOverdue, protocol.LockOverdue, false},
		{"over, holder paused", past, verdict(protocol.AgentPaused, false), "", 0, protocol.LockOverdue, protocol.LockOverdue, false},
		{"over, holder dead", past, verdict(protocol.AgentDead, false), "", 0, protocol.LockOverdue, protocol.LockStale, true},
		{"over, holder silent before we came", past, verdict(protocol.AgentUnknown, false), "", 0, protocol.LockOverdue, protocol.LockStale, true},
		{"over, nobody of that name", past, nil, "", 0, protocol.LockOverdue, protocol.LockStale, true},
		{"over, the machine has just woken", past, nil, "", time.Minute, protocol.LockOverdue, protocol.LockOverdue, false},
		{"no end named", protocol.Lock{Holder: "builder", Acquired: ago(29 * time.Minute)}, nil, "", 0, protocol.LockHeld, protocol.LockHeld, false},
		{"no end named, past its time to live", protocol.Lock{Holder: "builder", Acquired: ago(72 * time.Hour)}, nil, "", 0, protocol.LockOverdue, protocol.LockStale, true},
		{"no time at all", protocol.Lock{Holder: "builder"}, nil, "", 0, protocol.LockHeld, protocol.LockHeld, false},
		{"process gone", granted(running), verdict(protocol.AgentAlive, false), ProcessGone, 0, protocol.LockStale, protocol.LockStale, true},
		{"process gone, over, holder lives", granted(past), verdict(protocol.AgentAlive, false), ProcessGone, 0, protocol.LockStale, protocol.LockStale, true},
		{"process gone, just woken", granted(running), nil, ProcessGone, time.Minute, protocol.LockOverdue, protocol.LockOverdue, false},
		{"process lives, over, nobody of that name", granted(past), nil, ProcessAlive, 0, protocol.LockOverdue, protocol.LockOverdue, false},
		{"process lives, over, holder proved dead", granted(past), verdict(protocol.AgentDead, true), ProcessAlive, 0, protocol.LockOverdue, protocol.LockOverdue, false},
		{"process stopped, over", granted(past), nil, ProcessStopped, 0, protocol.LockOverdue, protocol.LockOverdue, false},
		{"nobody can say, over", granted(past), nil, ProcessUnknown, 0, protocol.LockOverdue, protocol.LockOverdue, false},
		{"process lives", granted(running), verdict(protocol.AgentDead, true), ProcessAlive, 0, protocol.LockHeld, protocol.LockHeld, false},
		{"of the kernel", protocol.Lock{Holder: "bash (7)", Kernel: true}, verdict(protocol.AgentDead, true), "", 0, protocol.LockHeld, protocol.LockHeld, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.lock.Ref.Sum = "s"
			clock := Clock{Now: start, LookEvery: 5 * time.Second, ResumeUntil: start.Add(tc.resume)}
			v, m := JudgeLock(tc.lock, tc.holder, tc.process, LockMemory{}, clock, cfg)
			if v.State != tc.first || said(v.Cause) == "" {
				t.Errorf("at first sight %+v, want %s", v, tc.first)
			}
			for range 8 {
				clock.Now = clock.Now.Add(5 * time.Second)
				v, m = JudgeLock(tc.lock, tc.holder, tc.process, m, clock, cfg)
			}
			if v.State != tc.then || v.Release != tc.release {
				t.Errorf("after 40 s %+v, want %s, release %v", v, tc.then, tc.release)
			}
			if v.State == protocol.LockOverdue && !lives(tc.holder) && (tc.process == ProcessGone || !tc.lock.Process.Proves()) && v.Deadline.IsZero() {
				t.Error("nobody is told when it will be released")
			}
			tc.lock.Ref.Sum = "renewed"
			if v, _ = JudgeLock(tc.lock, tc.holder, tc.process, m, clock, cfg); v.Release && tc.process != ProcessGone && (tc.holder == nil || !tc.holder.Proof) {
				t.Error("a lock that was renewed a moment ago is released")
			}
		})
	}
}

// TestRenewedGrantStaysOverdue: steward renews the entry of its lock while the command runs, and the lock still ends at
// its original end.
func TestRenewedGrantStaysOverdue(t *testing.T) {
	start := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	cfg := LockConfig{TTL: 30 * time.Minute, Watch: 30 * time.Second}
	clock := Clock{Now: start, LookEvery: time.Second, Watched: true}
	lock := protocol.Lock{Resource: "r", Holder: "builder", Acquired: start, Expires: start.Add(time.Second), Fence: 1,
		Process: protocol.Identity{PID: 7, Start: 8, Boot: "b"}}
	var m LockMemory
	for i, want := range []protocol.LockState{protocol.LockHeld, protocol.LockOverdue, protocol.LockOverdue} {
		lock.Ref.Sum = string(rune('a' + i)) // its entry was renewed
		var v LockVerdict
		v, m = JudgeLock(lock, nil, ProcessAlive, m, clock, cfg)
		if v.State != want {
			t.Errorf("after %d s: %+v, want %s", i, v, want)
		}
		clock.Now = clock.Now.Add(time.Second)
	}
}

// TestLockSleep: time that the machine sleeps does not count as watched.
func TestLockSleep(t *testing.T) {
	start := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	cfg := LockConfig{TTL: 30 * time.Minute, Watch: 30 * time.Second}
	lock := protocol.Lock{Holder: "builder", Expires: start.Add(-72 * time.Hour), Ref: protocol.Ref{Sum: "s"}}
	clock := Clock{Now: start, LookEvery: 5 * time.Second}
	_, m := JudgeLock(lock, nil, ProcessUnknown, LockMemory{}, clock, cfg)
	clock.Now = start.Add(8 * time.Hour)
	if v, _ := JudgeLock(lock, nil, ProcessUnknown, m, clock, cfg); v.Release {
		t.Errorf("released at the first look after a sleep: %+v", v)
	}
}

// TestPresence: proof by an adapter overrides beat and silence, and an idle agent is never dead.
func TestPresence(t *testing.T) {
	start := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	cfg := document()
	look := func(a protocol.Agent, m Memory, at time.Duration) (Verdict, Memory) {
		return Judge(Facts{Agent: a}, m, Clock{Now: start.Add(at), LookEvery: time.Hour}, cfg.Of("ralph", &a), cfg)
	}
	a := protocol.Agent{Name: "w", Presence: protocol.PresenceHere, Evidence: "its session 7 lives"}
	v, m := look(a, Memory{}, 0)
	if v.State != protocol.AgentAlive || said(v.Cause) != a.Evidence {
		t.Errorf("here: %+v", v)
	}
	if v, m = look(a, m, time.Hour); v.State != protocol.AgentAlive {
		t.Errorf("here, silent for an hour: %+v", v)
	}
	a.Presence, a.Evidence = protocol.PresenceGone, "nobody of its session 7 lives"
	if v, m = look(a, m, time.Hour+time.Second); v.State != protocol.AgentDead || !v.Proof || said(v.Cause) != a.Evidence {
		t.Errorf("gone: %+v", v)
	}

	a.Idle = true // its program says that it will resume
	if v, _ = look(a, m, time.Hour+2*time.Second); v.State == protocol.AgentDead {
		t.Errorf("gone for now, and nothing is expected: %+v", v)
	}

	b := protocol.Agent{Name: "planner", Idle: true, Beat: protocol.Beat{Mark: "1", At: start}}
	v, m = look(b, Memory{}, 0)
	if v.State != protocol.AgentAlive {
		t.Errorf("idle, active just now: %+v", v)
	}
	if v, m = look(b, m, 3*time.Hour); v.State != protocol.AgentUnknown || !strings.HasPrefix(said(v.Cause), "idle") || !v.Deadline.IsZero() {
		t.Errorf("idle for hours: %+v", v)
	}
	b.Idle = false // its orchestrator came back, with the old timestamp
	if v, _ = look(b, m, 3*time.Hour+time.Second); v.State == protocol.AgentDead {
		t.Errorf("at work again a second ago: %+v", v)
	}
	c := protocol.Agent{Name: "developer", Limit: 15 * time.Minute}
	if l := cfg.Of("mailbox", &c); l.Dead != 15*time.Minute || l.Late >= l.Dead {
		t.Errorf("a role's own limit: %+v", l)
	}
	cfg.Agents["developer"] = Limits{Dead: time.Hour}
	if l := cfg.Of("mailbox", &c); l.Dead != time.Hour {
		t.Errorf("the configured limit stands before the role's: %+v", l)
	}
}
