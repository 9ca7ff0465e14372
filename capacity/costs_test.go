package capacity_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/protocol"
)

// TestCosts: the expected cost of work, given the learnt costs of its kind, on a large and on a small machine.
func TestCosts(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name      string
		gigabytes uint64
		knows     capacity.Cost
		cores     float64
		megabytes uint64
		learnt    bool
	}{
		{"nothing is known", 64, capacity.Cost{}, 1, 1024, false},
		{"nor on a small machine", 2, capacity.Cost{}, 1, 512, false},
		{"of no known size", 0, capacity.Cost{}, 1, 1024, false},
		{"two light runs", 64, capacity.Cost{Cores: 0.1, Memory: 10 * mib, Runs: 2}, 1, 1024, false},
		{"three light runs", 64, capacity.Cost{Cores: 0.1, Memory: 10 * mib, Runs: 3}, 0.5, 256, true},
		{"three, of which nobody saw the memory", 64, capacity.Cost{Cores: 0.1, Runs: 3}, 0.5, 1024, true},
		{"three, of which nobody saw the processor", 64, capacity.Cost{Memory: 10 * mib, Runs: 3}, 1, 256, true},
		{"three middling runs", 64, capacity.Cost{Cores: 0.7, Memory: 600 * mib, Runs: 3}, 0.7, 600, true},
		{"one heavy run", 64, capacity.Cost{Cores: 3, Memory: 9000 * mib, Runs: 1}, 3, 9000, false},
	} {
		mem := capacity.Memory{At: midnight, Learnt: capacity.Learnt{"work": c.knows}}
		list, _, _ := capacity.Statement([]capacity.Reservation{untaken("a", time.Second)}, machine(8, c.gigabytes, 0.1, 0.1), mem, midnight, settings())
		if e := list[0]; e.Cores != c.cores || e.Memory != c.megabytes*mib || e.Learnt != c.learnt {
			t.Errorf("%s: %v cores, %d MiB, learnt %v", c.name, e.Cores, e.Memory/mib, e.Learnt)
		}
	}
}

// TestLearning: one more run in addition to known costs. A higher cost is adopted at once, a lower one slowly.
func TestLearning(t *testing.T) {
	const mib = 1 << 20
	began := midnight.Add(-100 * time.Second)
	ran := func(cores float64, megabytes uint64) capacity.Reserved {
		return capacity.Reserved{Kind: "work", Since: began, Taken: began, First: began, Last: midnight, CPU: time.Duration(cores * float64(100*time.Second)), Peak: megabytes * mib}
	}
	with := func(change func(*capacity.Reserved)) capacity.Reserved {
		k := ran(1, 500)
		change(&k)
		return k
	}
	known := capacity.Cost{Cores: 2, Memory: 1000 * mib, Duration: 200 * time.Second, Runs: 5}
	for _, c := range []struct {
		name      string
		ran       capacity.Reserved
		cores     float64
		megabytes uint64
		lasts     time.Duration
		runs      int
	}{
		{"a lighter one", ran(1, 500), 1.9, 950, 190 * time.Second, 6},
		{"a heavier one", ran(3, 2000), 3, 2000, 190 * time.Second, 6},
		{"nobody saw its processes", with(func(k *capacity.Reserved) { k.First, k.Last, k.CPU, k.Peak = time.Time{}, time.Time{}, 0, 0 }), 2, 1000, 190 * time.Second, 6},
		{"seen for less than a second", with(func(k *capacity.Reserved) { k.First = midnight.Add(-999 * time.Millisecond) }), 2, 950, 190 * time.Second, 6},
		{"seen for a second", with(func(k *capacity.Reserved) { k.First, k.CPUFirst = midnight.Add(-time.Second), 99*time.Second }), 1.9, 950, 190 * time.Second, 6},
		{"its time ran backwards", with(func(k *capacity.Reserved) { k.CPUFirst = 101 * time.Second }), 2, 950, 190 * time.Second, 6},
		{"of no kind", with(func(k *capacity.Reserved) { k.Kind = "" }), 2, 1000, 200 * time.Second, 5},
		{"begun in the future", with(func(k *capacity.Reserved) { k.Taken = midnight.Add(time.Second) }), 2, 1000, 200 * time.Second, 5},
	} {
		mem := capacity.Memory{At: midnight.Add(-time.Second), Learnt: capacity.Learnt{"work": known}, Reservations: map[protocol.Subject]capacity.Reserved{task("a"): c.ran}}
		_, next, _ := capacity.Admit(capacity.Work{Ended: map[protocol.Subject]capacity.Ended{task("a"): {At: midnight, Well: true}}}, machine(8, 64, 0.1, 0.1), mem, midnight, settings())
		got := next.Learnt["work"]
		if got.Cores < c.cores-1e-6 || got.Cores > c.cores+1e-6 || (got.Memory+mib/2)/mib != c.megabytes || got.Duration.Round(time.Millisecond) != c.lasts || got.Runs != c.runs || len(next.Learnt) != 1 {
			t.Errorf("%s: %+v", c.name, next.Learnt)
		}
	}
	first := capacity.Memory{Reservations: map[protocol.Subject]capacity.Reserved{task("a"): ran(0, 0)}}
	_, next, _ := capacity.Admit(capacity.Work{Ended: map[protocol.Subject]capacity.Ended{task("a"): {Well: true}}}, machine(8, 64, 0.1, 0.1), first, midnight, settings())
	if got := next.Learnt["work"]; got.Cores != 0.01 || got.Memory != 0 {
		t.Errorf("work that only waits: %+v", got)
	}
}

// TestMeasuredOverTime: what is remembered of a running claim: its peak memory, and its processor time from scan to
// scan, or from its start if the processes do nothing else.
func TestMeasuredOverTime(t *testing.T) {
	type scan struct {
		after  time.Duration
		cpu    time.Duration
		memory uint64
	}
	began := midnight.Add(-10 * time.Second)
	for _, c := range []struct {
		name  string
		whole bool
		scans []scan
		want  capacity.Reserved
	}{
		{"all its own", true, []scan{{4 * time.Second, 3 * time.Second, 500}, {8 * time.Second, 5 * time.Second, 300}},
			capacity.Reserved{First: began, Last: began.Add(8 * time.Second), CPU: 5 * time.Second, Peak: 500}},
		{"of an agent that did other things before", false, []scan{{4 * time.Second, 60 * time.Second, 300}, {8 * time.Second, 62 * time.Second, 500}},
			capacity.Reserved{First: began.Add(4 * time.Second), CPUFirst: 60 * time.Second, Last: began.Add(8 * time.Second), CPU: 62 * time.Second, Peak: 500}},
		{"processes left with their time", false, []scan{{4 * time.Second, 60 * time.Second, 300}, {6 * time.Second, 62 * time.Second, 300}, {8 * time.Second, 40 * time.Second, 100}},
			capacity.Reserved{First: began.Add(4 * time.Second), CPUFirst: 60 * time.Second, Last: began.Add(6 * time.Second), CPU: 62 * time.Second, Peak: 300}},
	} {
		mem, claim := capacity.Memory{}, running("a", 10*time.Second, nil)
		for _, s := range c.scans {
			at := began.Add(s.after)
			claim.Measured = &capacity.Measured{Cores: 1, Memory: s.memory, CPU: s.cpu, At: at, Whole: c.whole}
			_, mem, _ = capacity.Admit(capacity.Work{Reservations: []capacity.Reservation{claim}}, machine(8, 64, 0.1, 0.1), mem, at, settings())
		}
		got := mem.Reservations[claim.Subject]
		got = capacity.Reserved{First: got.First, CPUFirst: got.CPUFirst, Last: got.Last, CPU: got.CPU, Peak: got.Peak}
		if got != c.want {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// TestPlaceInTime: ended work frees capacity in proportion to the part of the reading's window before its end, for five
// seconds.
func TestPlaceInTime(t *testing.T) {
	for _, c := range []struct {
		name   string
		ended  time.Duration // before now, as stated in its result
		window time.Duration // of the reading, which was taken now
		admit  bool
	}{
		{"in the middle of the reading, more before it", 450 * time.Millisecond, time.Second, true},
		{"in the middle of the reading, more after it", 550 * time.Millisecond, time.Second, false},
		{"just now", 0, time.Second, true},
		{"in a long reading", 3 * time.Second, 8 * time.Second, true},
		{"too long ago, whatever the reading", 5 * time.Second, 20 * time.Second, false},
		{"nobody knows what the reading covers", 2 * time.Second, 0, false},
		{"nor where the two are one moment", -time.Millisecond, 0, true},
		{"before the reading", 1100 * time.Millisecond, time.Second, false},
	} {
		load := machine(2, 64, 1, 0.1)
		mem, waiters := full(t, 1, midnight, load)
		now := midnight.Add(300 * time.Millisecond)
		load.At, load.Window = now, c.window
		end := map[protocol.Subject]capacity.Ended{task("a"): {At: now.Add(-c.ended)}}
		if c.ended < 0 { // ended just now, with an earlier reading
			load.At = now.Add(c.ended)
		}
		verdicts, _, _ := capacity.Admit(capacity.Work{Waiters: waiters, Reservations: both(midnight)[1:], Ended: end}, load, mem, now, settings())
		if verdicts[0].Admit != c.admit {
			t.Errorf("%s: %+v", c.name, verdicts[0])
		}
	}
}

// TestAskAgain: the wait that a waiting task is told, apart from its place in the queue.
func TestAskAgain(t *testing.T) {
	work := capacity.Learnt{"work": {Cores: 1, Memory: 1 << 20, Duration: 30 * time.Second, Runs: 9}}
	agent := protocol.Subject{Kind: protocol.KindAgent, ID: "codex"}
	shut := func(dimension string, clear time.Duration) []capacity.Shut {
		return []capacity.Shut{{Dimension: dimension, Since: midnight.Add(-time.Minute), Clear: midnight.Add(-clear)}}
	}
	for _, c := range []struct {
		name   string
		load   capacity.Load
		base   float64
		shut   []capacity.Shut
		claims []capacity.Reservation
		want   time.Duration
	}{
		{"it is calm since now", machine(4, 64, 0.1, 0.1), 0, shut("cpu", 0), nil, 3 * time.Second},
		{"it is calm for almost long enough", machine(4, 64, 0.1, 0.1), 0, shut("cpu", 2500*time.Millisecond), nil, 2 * time.Second},
		{"memory takes longer", machine(4, 64, 0.1, 0.1), 0, shut("memory", 4*time.Second), nil, 6 * time.Second},
		{"work that ends soon", machine(2, 64, 1, 0.1), 0.1, shut("cpu", 0), []capacity.Reservation{running("a", 20*time.Second, nil)}, 10 * time.Second},
		{"work that is over its usual time", machine(2, 64, 1, 0.1), 0.1, shut("cpu", 0), []capacity.Reservation{running("a", 50*time.Second, nil)}, 2 * time.Second},
		{"work that nobody has taken yet", machine(2, 64, 1, 0.1), 0.1, shut("cpu", 0), []capacity.Reservation{untaken("a", 5*time.Second)}, 30 * time.Second},
		{"others fill the processor", machine(2, 64, 1, 0.1), 1.9, shut("cpu", 0), []capacity.Reservation{running("a", 20*time.Second, &capacity.Measured{Cores: 0})}, time.Minute},
		{"others fill the memory", machine(2, 64, 0.1, 0.9), 0, shut("memory", 0), []capacity.Reservation{running("a", 20*time.Second, &capacity.Measured{Cores: 0})}, time.Minute},
		{"files run out, and no end of work frees any", capacity.Load{At: midnight, CPU: protocol.Used(0.1), Memory: protocol.Used(0.1), Files: protocol.Used(0.9), Cores: 4, MemoryTotal: 64 << 30}, 0,
			shut("files", 0), []capacity.Reservation{running("a", 20*time.Second, nil)}, time.Minute},
	} {
		mem := capacity.Memory{At: midnight.Add(-time.Second), BaseCores: c.base, Learnt: work, Held: map[protocol.Subject]capacity.Held{task("w"): {Since: midnight, Shut: c.shut}}}
		w := capacity.Waiter{Subject: task("w"), Kind: "work", Since: midnight, Held: true, Agent: agent}
		verdicts, _, _ := capacity.Admit(capacity.Work{Waiters: []capacity.Waiter{w}, Reservations: c.claims}, c.load, mem, midnight, settings())
		if v := verdicts[0]; v.Admit || v.RetryAfter != c.want {
			t.Errorf("%s: told %v, not %v (%s)", c.name, v.RetryAfter, c.want, said(v))
		}
	}
}

// TestAgeUnknown: a waiter whose Since is unknown or in the future counts from now.
func TestAgeUnknown(t *testing.T) {
	var work capacity.Work
	for i, since := range []time.Time{midnight.Add(time.Hour), {}, midnight, midnight.Add(-time.Second)} {
		work.Waiters = append(work.Waiters, capacity.Waiter{Subject: task(fmt.Sprint("t", 3-i)), Since: since})
	}
	verdicts, _, _ := capacity.Admit(work, machine(64, 640, 0.1, 0.1), capacity.Memory{}, midnight, settings())
	var order []string
	for _, v := range verdicts {
		order = append(order, v.Subject.ID)
	}
	if !slices.Equal(order, []string{"t0", "t1", "t2", "t3"}) {
		t.Errorf("they go as %v", order)
	}
}

// TestLargest: the largest consumers are those of the scarce dimension; no process list shows which process filled a
// disk.
func TestLargest(t *testing.T) {
	list := []protocol.Consumer{{PID: 1, CPU: 3, Memory: 1, Files: 2}, {PID: 2, CPU: 1, Memory: 3, Files: 1}, {PID: 3, CPU: 2, Memory: 2, Files: 3}, {PID: 4}, {PID: 5, CPU: 0.5, Memory: 1, Files: 1}}
	for _, c := range []struct {
		load capacity.Load
		want []int
	}{
		{capacity.Load{CPU: protocol.Used(0.9), Memory: protocol.Used(0.5), Disk: protocol.Used(0.99)}, []int{1, 3, 2}},
		{capacity.Load{CPU: protocol.Used(0.5), Memory: protocol.Used(0.9)}, []int{2, 3, 1}},
		{capacity.Load{Files: protocol.Used(0.9)}, []int{3, 1, 2}},
		{capacity.Load{Disk: protocol.Used(0.9)}, nil},
	} {
		c.load.Consumers = list
		var pids []int
		for _, one := range c.load.Largest() {
			pids = append(pids, one.PID)
		}
		if !slices.Equal(pids, c.want) {
			t.Errorf("of %s the largest are %v, not %v", c.load.Scarce(), pids, c.want)
		}
	}
}
