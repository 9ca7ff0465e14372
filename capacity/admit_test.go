package capacity_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/protocol"
)

func share(label string) *rapid.Generator[protocol.Share] {
	return rapid.Custom(func(t *rapid.T) protocol.Share {
		if rapid.IntRange(0, 5).Draw(t, label+" unknown") == 0 {
			return protocol.Share{}
		}
		// Coarse steps, so that values fall on limits and lines as often as between them.
		return protocol.Used(float64(rapid.IntRange(0, 20).Draw(t, label)) / 20)
	})
}

func waiter(now time.Time) *rapid.Generator[capacity.Waiter] {
	return rapid.Custom(func(t *rapid.T) capacity.Waiter {
		w := capacity.Waiter{
			Subject:  task(fmt.Sprint("t", rapid.IntRange(0, 999).Draw(t, "id"))),
			Priority: protocol.Priority(rapid.IntRange(0, 3).Draw(t, "priority")),
			Since:    now.Add(-time.Duration(rapid.IntRange(0, 3).Draw(t, "age")) * time.Second),
			Throttle: share("throttle").Draw(t, "throttle"),
		}
		if a := rapid.IntRange(0, 2).Draw(t, "agent"); a > 0 {
			w.Agent = protocol.Subject{Kind: protocol.KindAgent, ID: fmt.Sprint("a", a)}
			w.AgentUsed = share("agent used").Draw(t, "agent used")
		}
		return w
	})
}

func load(at time.Time) *rapid.Generator[capacity.Load] {
	return rapid.Custom(func(t *rapid.T) capacity.Load {
		s := share("share")
		return capacity.Load{
			CPU: s.Draw(t, "cpu"), Memory: s.Draw(t, "memory"), Files: s.Draw(t, "files"), Disk: s.Draw(t, "disk"), At: at,
		}
	})
}

// world simulates the files: held tasks stay, admitted tasks leave.
type world struct {
	now   time.Time
	load  capacity.Load
	tasks []capacity.Waiter
	mem   capacity.Memory
}

func (w *world) step(t *rapid.T) {
	w.now = w.now.Add(time.Duration(rapid.IntRange(0, 12000).Draw(t, "ms")) * time.Millisecond)
	if rapid.Bool().Draw(t, "new sample") {
		// A stepped clock can leave a sample in the future.
		ahead := time.Duration(max(0, rapid.IntRange(-3000, 1000).Draw(t, "ahead"))) * time.Millisecond
		w.load = load(w.now.Add(ahead)).Draw(t, "load")
	}
	for _, n := range rapid.SliceOfN(waiter(w.now), 0, 3).Draw(t, "arrivals") {
		if !slices.ContainsFunc(w.tasks, func(o capacity.Waiter) bool { return o.Subject == n.Subject }) {
			w.tasks = append(w.tasks, n)
		}
	}
	for i := range w.tasks {
		if rapid.IntRange(0, 2).Draw(t, "beat") == 0 {
			w.tasks[i].AgentUsed = share("agent used").Draw(t, "agent used")
		}
	}
}

func (w *world) judge(cfg capacity.Config) ([]capacity.Verdict, time.Time) {
	verdicts, mem, wake := capacity.Admit(capacity.Work{Waiters: w.tasks}, w.load, w.mem, w.now, cfg)
	w.mem = mem
	return verdicts, wake
}

func (w *world) follow(verdicts []capacity.Verdict) (admitted []capacity.Waiter) {
	for _, v := range verdicts {
		i := slices.IndexFunc(w.tasks, func(o capacity.Waiter) bool { return o.Subject == v.Subject })
		if v.Admit {
			admitted = append(admitted, w.tasks[i])
			w.tasks = slices.Delete(w.tasks, i, i+1)
		} else {
			w.tasks[i].Held = true
		}
	}
	return admitted
}

func TestAdmitProperties(t *testing.T) {
	cfg := settings()
	rapid.Check(t, func(t *rapid.T) {
		w := world{now: midnight}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			w.step(t)
			checkPure(t, w, cfg)
			before := w.mem
			verdicts, wake := w.judge(cfg)
			admitted := w.follow(verdicts)
			checkWithinLimits(t, w, admitted, cfg)
			checkTurns(t, w, before, admitted)
			checkMemory(t, w)
			checkRest(t, w, cfg)
			checkWake(t, w, wake, cfg)
		}
	})
}

func checkPure(t *rapid.T, w world, cfg capacity.Config) {
	before := stored(t, w.mem)
	v1, m1, k1 := capacity.Admit(capacity.Work{Waiters: w.tasks}, w.load, w.mem, w.now, cfg)
	shuffled := rapid.Permutation(w.tasks).Draw(t, "shuffled")
	var reread capacity.Memory
	if err := json.Unmarshal(before, &reread); err != nil {
		t.Fatal(err)
	}
	v2, m2, k2 := capacity.Admit(capacity.Work{Waiters: shuffled}, w.load, reread, w.now, cfg)
	if !reflect.DeepEqual(v1, v2) || !k1.Equal(k2) || string(stored(t, m1)) != string(stored(t, m2)) {
		t.Fatalf("the same facts in another order, from disk, gave another answer:\n%v %v\n%v %v", v1, k1, v2, k2)
	}
	if after := stored(t, w.mem); string(before) != string(after) {
		t.Fatalf("the memory passed in was changed:\n%s\n%s", before, after)
	}
	if len(v1) != len(w.tasks) {
		t.Fatalf("%d verdicts for %d tasks", len(v1), len(w.tasks))
	}
}

func checkWithinLimits(t *rapid.T, w world, admitted []capacity.Waiter, cfg capacity.Config) {
	fresh := w.load.Fresh(w.now)
	for _, a := range admitted {
		limit := a.Throttle.Or(cfg.Threshold)
		for _, s := range []protocol.Share{fresh.CPU, fresh.Memory, fresh.Files, fresh.Disk, a.AgentUsed} {
			if s.Or(0) > limit+1e-9 {
				t.Fatalf("%v admitted at %v, its limit is %v", a.Subject, s, limit)
			}
		}
	}
}

// checkTurns: of the tasks held for the machine at most one is released per sample; likewise per agent and per project
// disk.
func checkTurns(t *rapid.T, w world, before capacity.Memory, admitted []capacity.Waiter) {
	seen := map[string]int{}
	for _, a := range admitted {
		if !a.Held {
			continue
		}
		queues := map[string]bool{}
		for _, s := range before.Held[a.Subject].Shut {
			switch s.Dimension {
			case capacity.DimAgent:
				queues["agent "+a.Agent.ID] = true
			case capacity.DimDisk:
				queues["disk "+a.Subject.Project] = true
			default:
				queues["machine"] = true
			}
		}
		if len(queues) == 0 {
			queues["machine"] = true
		}
		for queue := range queues {
			if seen[queue]++; seen[queue] > 1 {
				t.Fatalf("%d of the queue %q released at once", seen[queue], queue)
			}
		}
		turn, took := w.mem.Turns[protocol.Subject{Kind: protocol.KindMachine}]
		if queues["machine"] && (!took || !turn.Sample.Equal(w.load.At)) {
			t.Fatalf("%v went without taking the turn: %v", a.Subject, turn)
		}
	}
}

func checkMemory(t *rapid.T, w world) {
	for _, o := range w.tasks {
		if _, ok := w.mem.Held[o.Subject]; !ok {
			t.Fatalf("%v is held and not remembered", o.Subject)
		}
	}
	if len(w.mem.Held) != len(w.tasks) {
		t.Fatalf("%d remembered, %d held", len(w.mem.Held), len(w.tasks))
	}
}

// checkRest: a second judgement at the same moment changes nothing.
func checkRest(t *rapid.T, w world, cfg capacity.Config) {
	verdicts, mem, _ := capacity.Admit(capacity.Work{Waiters: w.tasks}, w.load, w.mem, w.now, cfg)
	for _, v := range verdicts {
		if v.Admit {
			t.Fatalf("%v is admitted by looking twice: %s", v.Subject, said(v))
		}
	}
	if a, b := stored(t, w.mem), stored(t, mem); string(a) != string(b) {
		t.Fatalf("looking twice changed the memory:\n%s\n%s", a, b)
	}
}

// checkWake: before the returned wake time nothing changes without a new sample.
func checkWake(t *rapid.T, w world, wake time.Time, cfg capacity.Config) {
	cfg.PromoteAfter = 7 * 24 * time.Hour // the wake time does not cover ageing
	span := time.Hour
	if !wake.IsZero() {
		span = wake.Sub(w.now)
	}
	if span <= 0 {
		t.Fatalf("wake %v is not after now %v", wake, w.now)
	}
	between := w.now.Add(time.Duration(rapid.Int64Range(0, int64(span)-1).Draw(t, "between")))
	verdicts, _, _ := capacity.Admit(capacity.Work{Waiters: w.tasks}, w.load, w.mem, between, cfg)
	for _, v := range verdicts {
		if v.Admit {
			t.Fatalf("%v admitted at %v, before the wake %v: %s", v.Subject, between, wake, said(v))
		}
	}
}

func stored(t *rapid.T, m capacity.Memory) []byte {
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A low task is admitted although a critical task arrives every second and the machine has capacity only at times.
func TestLowNeverStarves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := settings()
		cfg.PromoteAfter = 10 * time.Second
		shut, open := rapid.IntRange(1, 20).Draw(t, "shut"), rapid.IntRange(4, 10).Draw(t, "open")
		w := world{now: midnight, tasks: []capacity.Waiter{{Subject: task("low"), Since: midnight}}}
		deadline := 30 + 2*(shut+open)
		for second := range deadline {
			w.now = midnight.Add(time.Duration(second) * time.Second)
			used := 0.95
			if second%(shut+open) >= shut {
				used = 0.1
			}
			w.load = capacity.Load{CPU: protocol.Used(used), At: w.now}
			w.tasks = append(w.tasks, capacity.Waiter{
				Subject: task(fmt.Sprint("c", second)), Priority: protocol.PriorityCritical, Since: w.now,
			})
			verdicts, _ := w.judge(cfg)
			if slices.ContainsFunc(w.follow(verdicts), func(a capacity.Waiter) bool { return a.Subject.ID == "low" }) {
				return
			}
		}
		t.Fatalf("still waiting after %d s", deadline)
	})
}

// The memory of a task is kept while its project is being changed.
func TestBusyIsRemembered(t *testing.T) {
	cfg := settings()
	w := world{now: midnight, load: capacity.Load{CPU: protocol.Used(0.9), At: midnight}}
	w.tasks = []capacity.Waiter{{Subject: task("t1")}, {Subject: task("t2")}}
	verdicts, _ := w.judge(cfg)
	w.follow(verdicts)
	for second := 1; second <= 4; second++ {
		w.now = midnight.Add(time.Duration(second) * time.Second)
		w.load = capacity.Load{CPU: protocol.Used(0.1), At: w.now}
		w.tasks[0].Busy = second < 4
		verdicts, _ = w.judge(cfg)
		if second < 4 && slices.ContainsFunc(verdicts, func(v capacity.Verdict) bool { return v.Subject.ID == "t1" || v.Admit }) {
			t.Fatalf("second %d: %+v; t1 is busy and t2 is behind it", second, verdicts)
		}
	}
	if !verdicts[0].Admit || verdicts[0].Subject.ID != "t1" {
		t.Errorf("t1 has been calm for 3 s, but %+v", verdicts[0])
	}
	if got := w.mem.Held; len(got) != 1 {
		t.Errorf("remembered: %v", got)
	}
}

// The gate holds the binding dimension, its share, the limit and its three largest consumers.
func TestGate(t *testing.T) {
	l := capacity.Load{CPU: protocol.Used(0.85), Memory: protocol.Used(0.93), At: midnight}
	for pid := range 5 {
		l.Consumers = append(l.Consumers, protocol.Consumer{PID: pid + 1, CPU: float64(5 - pid), Memory: uint64(pid + 1)})
	}
	verdicts, _, _ := capacity.Admit(capacity.Work{Waiters: []capacity.Waiter{{Subject: task("t1")}}}, l, capacity.Memory{}, midnight, settings())
	g := verdicts[0].Gate
	if g.Dimension != "memory" || g.Used != l.Memory || g.Limit != 0.8 || len(g.Consumers) != 3 || g.Consumers[0].PID != 5 {
		t.Errorf("gate = %+v", g)
	}
	l.Disk = protocol.Used(0.99) // no process list shows which process filled a disk
	full, _, _ := capacity.Admit(capacity.Work{Waiters: []capacity.Waiter{{Subject: task("t1")}}}, l, capacity.Memory{}, midnight, settings())
	if g := full[0].Gate; g.Dimension != "disk" || len(g.Consumers) != 0 {
		t.Errorf("gate = %+v", g)
	}
	if verdicts[0].RetryAfter != time.Minute {
		t.Errorf("retry after %v", verdicts[0].RetryAfter)
	}
}

func BenchmarkAdmit(b *testing.B) {
	cfg := settings()
	agent := protocol.Subject{Project: "demo", Kind: protocol.KindAgent, ID: "codex"}
	w := world{now: midnight, load: capacity.Load{CPU: protocol.Used(0.85), Memory: protocol.Used(0.5), At: midnight}}
	for i := range 5 {
		w.tasks = append(w.tasks, capacity.Waiter{
			Subject: task(fmt.Sprint("t", i)), Agent: agent, AgentUsed: protocol.Used(0.2), Since: midnight,
		})
	}
	verdicts, _ := w.judge(cfg)
	w.follow(verdicts)
	b.ReportAllocs()
	for b.Loop() {
		w.judge(cfg)
	}
}

func BenchmarkAdmit1000(b *testing.B) {
	cfg := settings()
	w := world{now: midnight, load: capacity.Load{CPU: protocol.Used(0.85), At: midnight}}
	for i := range 1000 {
		w.tasks = append(w.tasks, capacity.Waiter{Subject: task(fmt.Sprint("t", i)), Since: midnight})
	}
	verdicts, _ := w.judge(cfg)
	w.follow(verdicts)
	for b.Loop() {
		w.judge(cfg)
	}
}

// TestFollow: a clock set back during a gap in judgements does not keep a gate shut until the clock has caught up, and
// the gap does not count as proof of calm.
func TestFollow(t *testing.T) {
	at := func(d time.Duration) time.Time { return midnight.Add(d) }
	shut := []capacity.Shut{{Dimension: "memory", Since: at(0), Clear: at(5 * time.Second)}, {Dimension: "cpu", Since: at(0)}}
	mem := capacity.Memory{At: at(6 * time.Second), Held: map[protocol.Subject]capacity.Held{task("t"): {Since: at(0), Shut: shut}}}
	for name, c := range map[string]struct{ now, since, clear time.Duration }{
		"as it was":          {8 * time.Second, 0, 5 * time.Second},
		"after a gap":        {time.Hour, 0, time.Hour},
		"the clock set back": {-time.Hour, -time.Hour, -time.Hour},
	} {
		got := mem.Follow(at(c.now)).Held[task("t")]
		if s := got.Shut[0]; !got.Since.Equal(at(c.since)) || !s.Since.Equal(at(c.since)) || !s.Clear.Equal(at(c.clear)) || !got.Shut[1].Clear.IsZero() {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if !mem.Held[task("t")].Shut[0].Clear.Equal(at(5 * time.Second)) {
		t.Error("the memory that was handed in has changed")
	}
}
