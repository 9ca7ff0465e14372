package capacity_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/protocol"
)

// machine returns a load with the given number of cores and GiB.
func machine(cores float64, gigabytes uint64, cpu, memory float64) capacity.Load {
	return capacity.Load{At: midnight, Window: time.Second, CPU: protocol.Used(cpu), Memory: protocol.Used(memory), Cores: cores, MemoryTotal: gigabytes << 30}
}

// admitted returns how many of n equal tasks are admitted at once.
func admitted(n int, work capacity.Work, load capacity.Load, mem capacity.Memory) (in int, last capacity.Verdict) {
	for i := range n {
		work.Waiters = append(work.Waiters, capacity.Waiter{Subject: task(fmt.Sprintf("new%03d", i)), Kind: "work", Since: midnight})
	}
	verdicts, _, _ := capacity.Admit(work, load, mem, midnight, settings())
	for _, v := range verdicts {
		if v.Admit {
			in++
		} else {
			last = v
		}
	}
	return in, last
}

func running(id string, age time.Duration, measured *capacity.Measured) capacity.Reservation {
	return capacity.Reservation{Subject: task(id), Kind: "work", Since: midnight.Add(-age), Taken: midnight.Add(-age), Measured: measured}
}

func untaken(id string, age time.Duration) capacity.Reservation {
	return capacity.Reservation{Subject: task(id), Kind: "work", Since: midnight.Add(-age)}
}

func TestClaims(t *testing.T) {
	learnt := func(cores float64, gigabytes uint64) capacity.Memory {
		return capacity.Memory{At: midnight, Learnt: capacity.Learnt{"work": {Cores: cores, Memory: gigabytes << 30, Runs: 3}}}
	}
	before := func(cores float64) capacity.Memory {
		return capacity.Memory{At: midnight.Add(-time.Second), BaseCores: cores}
	}
	for _, c := range []struct {
		name string
		load capacity.Load
		mem  capacity.Memory
		have []capacity.Reservation
		want int // of 20 simultaneous tasks
		gate string
	}{
		{"an idle machine of two cores", machine(2, 64, 0.02, 0.1), capacity.Memory{}, nil, 2, "cpu"},
		{"an idle machine of eight", machine(8, 64, 0.02, 0.1), capacity.Memory{}, nil, 7, "cpu"},
		{"one core, and one goes all the same", machine(1, 64, 0.5, 0.1), capacity.Memory{}, nil, 1, "cpu"},
		{"readings over the limit admit nobody", machine(2, 64, 0.9, 0.1), capacity.Memory{}, nil, 0, "cpu"},
		{"little memory, and one goes all the same", machine(64, 1, 0.1, 0.5), capacity.Memory{}, nil, 1, "memory"},
		{"memory for three", machine(64, 8, 0.1, 0.4), capacity.Memory{}, nil, 3, "memory"},
		{"small work was learnt: twice the processors go, for the next one may be large", machine(2, 64, 0.02, 0.1), learnt(0.01, 1), nil, 4, "cpu"},
		{"small work on many processors", machine(16, 64, 0.02, 0.1), learnt(0.01, 1), nil, 20, ""},
		{"large work was learnt", machine(16, 64, 0.02, 0.1), learnt(8, 1), nil, 2, "cpu"},
		{"more than there is was learnt: one goes", machine(2, 4, 0.02, 0.1), learnt(8, 64), nil, 1, "cpu"},
		{"what nobody has taken yet counts", machine(2, 64, 0.02, 0.1), before(0.04), []capacity.Reservation{untaken("a", time.Second)}, 1, "cpu"},
		{"what nobody takes for long does not", machine(2, 64, 0.02, 0.1), before(0.04), []capacity.Reservation{untaken("a", time.Minute), untaken("b", time.Minute)}, 2, "cpu"},
		{"young work that does not show yet", machine(2, 64, 0.02, 0.1), before(0.04), []capacity.Reservation{running("a", time.Second, nil), running("b", time.Second, nil)}, 0, "cpu"},
		{"old work is in the readings", machine(4, 64, 0.5, 0.1), before(2), []capacity.Reservation{running("a", time.Minute, nil), running("b", time.Minute, nil)}, 2, "cpu"},
		{"old work that idles", machine(4, 64, 0.02, 0.1), before(0.08), []capacity.Reservation{running("a", time.Minute, nil), running("b", time.Minute, nil)}, 4, "cpu"},
		{"young work that was measured", machine(4, 64, 0.5, 0.1), before(0), []capacity.Reservation{running("a", 9*time.Second, &capacity.Measured{Cores: 2})}, 2, "cpu"},
		{"what settled work is measured to take is not that of young work", machine(4, 64, 0.75, 0.1), before(0), []capacity.Reservation{running("a", time.Minute, &capacity.Measured{Cores: 1}),
			running("b", 9500*time.Millisecond, &capacity.Measured{Cores: 1}), running("c", 300*time.Millisecond, nil), running("d", 150*time.Millisecond, nil)}, 0, "cpu"},
		{"what others take is theirs", machine(4, 64, 0.5, 0.1), before(2), []capacity.Reservation{untaken("a", time.Second)}, 1, "cpu"},
		{"half of what it needs is idle", machine(16, 64, 0.74, 0.1), learnt(8, 1), []capacity.Reservation{running("a", time.Minute, nil)}, 1, "cpu"},
		{"less than half of what it needs is idle", machine(16, 64, 0.79, 0.1), learnt(8, 1), []capacity.Reservation{running("a", time.Minute, nil)}, 0, "cpu"},
		{"memory that is used already is not asked for again", machine(64, 8, 0.1, 0.4),
			capacity.Memory{}, []capacity.Reservation{running("a", time.Minute, &capacity.Measured{Cores: 1, Memory: 1 << 30})}, 3, "memory"},
		{"memory that is still to come", machine(64, 8, 0.1, 0.4), capacity.Memory{}, []capacity.Reservation{running("a", time.Minute, &capacity.Measured{Cores: 1})}, 2, "memory"},
		{"a machine whose size nobody knows", capacity.Load{At: midnight, CPU: protocol.Used(0.1), Memory: protocol.Used(0.1)}, capacity.Memory{}, nil, 20, ""},
		{"a processor that cannot be read", capacity.Load{At: midnight, Memory: protocol.Used(0.1), Cores: 2, MemoryTotal: 64 << 30}, capacity.Memory{}, nil, 20, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			in, last := admitted(20, capacity.Work{Reservations: c.have}, c.load, c.mem)
			if in != c.want || last.Gate.Dimension != c.gate {
				t.Errorf("%d were admitted, not %d; then %q: %s", in, c.want, last.Gate.Dimension, said(last))
			}
		})
	}
}

// full returns waiters, and a memory in which they wait because two claims fill two cores.
func full(t *testing.T, n int, at time.Time, load capacity.Load) (capacity.Memory, []capacity.Waiter) {
	t.Helper()
	var waiters []capacity.Waiter
	for i := range n {
		waiters = append(waiters, capacity.Waiter{Subject: task(fmt.Sprintf("w%d", i)), Kind: "work", Since: at})
	}
	_, mem, _ := capacity.Admit(capacity.Work{Waiters: waiters, Reservations: both(at)}, load, capacity.Memory{At: at.Add(-time.Second), BaseCores: 0.1}, at, settings())
	if len(mem.Held) != n {
		t.Fatalf("%d of %d wait", len(mem.Held), n)
	}
	for i := range waiters {
		waiters[i].Held = true
	}
	return mem, waiters
}

func both(at time.Time) []capacity.Reservation {
	return []capacity.Reservation{{Subject: task("a"), Kind: "work", Since: at.Add(-20 * time.Second), Taken: at.Add(-20 * time.Second)},
		{Subject: task("b"), Kind: "work", Since: at.Add(-20 * time.Second), Taken: at.Add(-20 * time.Second)}}
}

// TestEndMakesRoom: the first waiting task takes the place of ended work at once, although the reading still includes
// that work; the second must wait. If other processes already wait for the processor, no task follows.
func TestEndMakesRoom(t *testing.T) {
	for name, c := range map[string]struct {
		stalled protocol.Share
		want    int
	}{"alone": {protocol.Used(0.1), 1}, "nobody says": {protocol.Share{}, 1}, "crowded": {protocol.Used(0.9), 0}} {
		t.Run(name, func(t *testing.T) {
			load := machine(2, 64, 1, 0.1)
			load.Stalled = c.stalled
			mem, waiters := full(t, 3, midnight, load)
			now := midnight.Add(300 * time.Millisecond)
			verdicts, _, _ := capacity.Admit(capacity.Work{Waiters: waiters, Reservations: both(midnight)[1:], Ended: map[protocol.Subject]capacity.Ended{task("a"): {At: now}}}, load, mem, now, settings())
			in := 0
			for _, v := range verdicts {
				if v.Admit {
					in++
				}
			}
			if in != c.want || c.want == 1 && !verdicts[0].Admit {
				t.Errorf("%d were admitted: %+v", in, verdicts)
			}
		})
	}
}

// TestLapsedIsNext: work that its busy agent could not take in time has no reservation; when the agent becomes free,
// the place goes to that work only.
func TestLapsedIsNext(t *testing.T) {
	x := protocol.Subject{Project: "demo", Kind: protocol.KindAgent, ID: "x"}
	load := machine(2, 64, 1, 0.1)
	claims := both(midnight)
	claims[0].Agent, claims[0].Told = x, true
	claims = append(claims, capacity.Reservation{Subject: task("lapsed"), Kind: "work", Agent: x, Told: true, Since: midnight.Add(-time.Minute)})
	waiters := []capacity.Waiter{{Subject: task("w"), Kind: "work", Since: midnight}}
	judge := func(mem capacity.Memory, now time.Time, claims []capacity.Reservation, ended map[protocol.Subject]capacity.Ended) (bool, capacity.Memory) {
		load.At = now
		verdicts, mem, _ := capacity.Admit(capacity.Work{Waiters: waiters, Reservations: claims, Ended: ended}, load, mem, now, settings())
		waiters[0].Held = true
		return verdicts[0].Admit, mem
	}
	_, mem := judge(capacity.Memory{At: midnight.Add(-time.Second), BaseCores: 2}, midnight, claims, nil)
	now := midnight.Add(time.Second)
	if in, _ := judge(mem, now, claims[1:], map[protocol.Subject]capacity.Ended{task("a"): {At: now}}); in {
		t.Error("somebody else was admitted")
	}
	if in, _ := judge(mem, now, claims[1:2], map[protocol.Subject]capacity.Ended{task("a"): {At: now}}); !in {
		t.Error("nothing lies before the agent, and nobody was admitted")
	}
}

// TestNoCreditWithoutAResult: an agent judged dead may still be working, so the end of its claim frees nothing.
func TestNoCreditWithoutAResult(t *testing.T) {
	load := machine(2, 64, 1, 0.1)
	mem, waiters := full(t, 1, midnight, load)
	verdicts, _, _ := capacity.Admit(capacity.Work{Waiters: waiters, Reservations: both(midnight)[1:]}, load, mem, midnight.Add(300*time.Millisecond), settings())
	if verdicts[0].Admit {
		t.Error("admitted")
	}
}

// TestLessons: costs are learnt from finished work and not from lost work, and they survive the file format.
func TestLessons(t *testing.T) {
	at := midnight
	claim := capacity.Reservation{Subject: task("a"), Kind: "demo/codex/execute", Since: at, Taken: at}
	mem := capacity.Memory{}
	load := machine(4, 64, 0.2, 0.2)
	for second := range 10 {
		at = midnight.Add(time.Duration(second+1) * time.Second)
		load.At = at
		claim.Measured = &capacity.Measured{Cores: 0.5, Memory: uint64(100+second) << 20, CPU: time.Duration(second+1) * time.Second / 2, At: at, Whole: true}
		_, mem, _ = capacity.Admit(capacity.Work{Reservations: []capacity.Reservation{claim}}, load, mem, at, settings())
	}
	at = at.Add(time.Second)
	_, lost, _ := capacity.Admit(capacity.Work{}, load, mem, at, settings())
	if len(lost.Learnt) != 0 {
		t.Errorf("work that was lost taught %+v", lost.Learnt)
	}
	_, mem, _ = capacity.Admit(capacity.Work{Ended: map[protocol.Subject]capacity.Ended{claim.Subject: {Well: true}}}, load, mem, at, settings())
	c := mem.Learnt[claim.Kind]
	if c.Cores < 0.49 || c.Cores > 0.51 || c.Memory != 109<<20 || c.Duration != 11*time.Second || c.Runs != 1 {
		t.Errorf("learnt %+v", c)
	}
	data, err := json.Marshal(mem)
	var back capacity.Memory
	if err == nil {
		err = json.Unmarshal(data, &back)
	}
	if err != nil || !reflect.DeepEqual(back.Learnt, mem.Learnt) {
		t.Errorf("%v: read back %+v", err, back.Learnt)
	}
}

// TestKindsAreBounded: a new kind for every task does not fill the memory.
func TestKindsAreBounded(t *testing.T) {
	mem, at := capacity.Memory{}, midnight
	for i := range 1200 {
		c := capacity.Reservation{Subject: task(fmt.Sprint("t", i)), Kind: fmt.Sprint("kind ", i), Since: at, Taken: at}
		_, mem, _ = capacity.Admit(capacity.Work{Reservations: []capacity.Reservation{c}}, machine(4, 64, 0.1, 0.1), mem, at, settings())
		at = at.Add(time.Second)
		_, mem, _ = capacity.Admit(capacity.Work{Ended: map[protocol.Subject]capacity.Ended{c.Subject: {Well: true}}}, machine(4, 64, 0.1, 0.1), mem, at, settings())
	}
	if n := len(mem.Learnt); n != 500 || mem.Learnt["kind 1199"].Runs != 1 {
		t.Errorf("%d kinds are kept", n)
	}
}

// TestForecast: the next task in the queue is told when the running work will probably end.
func TestForecast(t *testing.T) {
	mem := capacity.Memory{At: midnight.Add(-time.Second), Learnt: capacity.Learnt{"work": {Cores: 1, Memory: 1 << 20, Duration: 30 * time.Second, Runs: 9}}}
	work := capacity.Work{Reservations: []capacity.Reservation{running("a", 20*time.Second, nil), running("b", 5*time.Second, nil)}}
	for i := range 6 {
		work.Waiters = append(work.Waiters, capacity.Waiter{Subject: task(fmt.Sprint("w", i)), Kind: "work", Since: midnight})
	}
	verdicts, _, _ := capacity.Admit(work, machine(2, 64, 1, 0.1), mem, midnight, settings())
	want := []time.Duration{10 * time.Second, 25 * time.Second, 40 * time.Second, 55 * time.Second, time.Minute, time.Minute}
	for i, v := range verdicts {
		if v.RetryAfter != want[i] {
			t.Errorf("place %d is told %v, not %v", i, v.RetryAfter, want[i])
		}
	}
	// If other processes alone fill the machine, the end of a claim frees no capacity.
	work.Reservations = nil
	verdicts, _, _ = capacity.Admit(work, machine(2, 64, 1, 0.1), mem, midnight, settings())
	if v := verdicts[0]; v.RetryAfter != time.Minute {
		t.Errorf("told %v although nothing of ours runs", v.RetryAfter)
	}
	// A dimension disabled by configuration holds no task.
	cfg := settings()
	cfg.Dimensions = []string{capacity.DimMemory}
	work.Reservations = []capacity.Reservation{running("a", 22*time.Second, nil)}
	mem.Learnt["work"] = capacity.Cost{Cores: 1, Memory: 40 << 30, Duration: 30 * time.Second, Runs: 9}
	verdicts, _, _ = capacity.Admit(work, machine(2, 64, 1, 0.1), mem, midnight, cfg)
	if v := verdicts[0]; v.Admit || v.RetryAfter != 8*time.Second {
		t.Errorf("told %v (%s), for work that ends in 8 s", v.RetryAfter, said(v))
	}
}

// TestLedgerProperties: whatever the claims and readings, claims alone never shut an idle machine, the tasks admitted
// at one moment fit the machine, and a verdict has no effect on the next one of the same moment.
func TestLedgerProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		load := machine(float64(rapid.IntRange(1, 64).Draw(t, "cores")), uint64(rapid.IntRange(1, 256).Draw(t, "gigabytes")),
			rapid.Float64Range(0, 1).Draw(t, "cpu"), rapid.Float64Range(0, 1).Draw(t, "memory"))
		mem := capacity.Memory{At: midnight.Add(-time.Second), BaseCores: rapid.Float64Range(0, 64).Draw(t, "base")}
		if rapid.Bool().Draw(t, "learnt") {
			mem.Learnt = capacity.Learnt{"work": {Cores: rapid.Float64Range(0.01, 32).Draw(t, "costs"), Memory: rapid.Uint64Range(1, 64<<30).Draw(t, "peak"), Runs: 1}}
		}
		var work capacity.Work
		for i := range rapid.IntRange(0, 5).Draw(t, "claims") {
			age := time.Duration(rapid.IntRange(0, 40_000).Draw(t, "age")) * time.Millisecond
			c := untaken(fmt.Sprint("c", i), age)
			if rapid.Bool().Draw(t, "taken") {
				c = running(fmt.Sprint("c", i), age, nil)
			}
			work.Reservations = append(work.Reservations, c)
		}
		n := rapid.IntRange(1, 30).Draw(t, "tasks")
		in, _ := admitted(n, work, load, mem)
		cfg := settings()
		idle := len(work.Reservations) == 0 && load.CPU.Or(0) <= cfg.Threshold && load.Memory.Or(0) <= cfg.Threshold
		if idle && in == 0 {
			t.Fatal("claims shut an idle machine")
		}
		if over := load.CPU.Or(0) > cfg.Threshold || load.Memory.Or(0) > cfg.Threshold; over && in > 0 {
			t.Fatal("admitted although a reading is over the limit")
		}
		cost := max(mem.Learnt["work"].Cores, 0)
		if cost == 0 {
			cost = cfg.ClaimCores
		}
		if all := load.CPU.Or(0)*load.Cores + float64(in)*cost; in > 1 && all > load.Cores+cost/2+1e-6 {
			t.Fatalf("%d were admitted: %.2f cores of %.0f", in, all, load.Cores)
		}
		again, _ := admitted(n, work, load, mem)
		if again != in {
			t.Fatalf("%d, then %d", in, again)
		}
	})
}
