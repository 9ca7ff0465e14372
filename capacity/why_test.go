package capacity_test

import (
	"testing"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status/words"
)

// said is the sentence of a verdict.
func said(v capacity.Verdict) string { return words.Sentence(v.Cause, midnight) }

// TestWhy: the reason that a waiting task is told, and the share that its gate shows.
func TestWhy(t *testing.T) {
	at := func(d time.Duration) time.Time { return midnight.Add(-d) }
	calm := capacity.Load{At: midnight, CPU: protocol.Used(0.2), Memory: protocol.Used(0.3)}
	full := capacity.Load{At: midnight, CPU: protocol.Used(0.9), Memory: protocol.Used(0.85), Because: map[string]string{"cpu": "a build of everything"}}
	memory := func(shut ...capacity.Shut) capacity.Memory {
		return capacity.Memory{At: at(time.Second), Held: map[protocol.Subject]capacity.Held{task("t"): {Since: at(time.Minute), Shut: shut}}}
	}
	turned := memory(capacity.Shut{Dimension: "files", Since: at(time.Minute), Clear: at(10 * time.Second)})
	turned.Turns = map[protocol.Subject]capacity.Turn{{Kind: protocol.KindMachine}: {Sample: midnight, At: midnight}}
	filesCalm := calm
	filesCalm.Files = protocol.Used(0.1)
	claimed := machine(2, 64, 0.5, 0.1)
	for _, c := range []struct {
		name   string
		load   capacity.Load
		mem    capacity.Memory
		claims []capacity.Reservation
		why    string
		used   float64
	}{
		{"over the limit, and its cause", full, memory(), nil, "cpu is at 90 % (a build of everything), over the limit of 80 %", 0.9},
		{"above the line", capacity.Load{At: midnight, CPU: protocol.Used(0.78)}, memory(capacity.Shut{Dimension: "cpu", Since: at(time.Minute)}), nil, "cpu is at 78 % and must fall to 75 %", 0.78},
		{"not calm for long", calm, memory(capacity.Shut{Dimension: "cpu", Since: at(time.Minute), Clear: at(time.Second)}), nil, "cpu must stay at 75 % or below for 3s", 0.2},
		{"one calm, the other not", calm, memory(capacity.Shut{Dimension: "cpu", Since: at(time.Minute), Clear: at(9 * time.Second)}, capacity.Shut{Dimension: "memory", Since: at(time.Minute), Clear: at(9 * time.Second)}), nil,
			"memory must stay at 75 % or below for 10s", 0.3},
		{"one cannot be read", calm, memory(capacity.Shut{Dimension: "files", Since: at(time.Minute), Blind: at(time.Second)}), nil, "files cannot be read; the task is admitted if that lasts 1m0s", -1},
		{"another has gone on this sample", filesCalm, turned, nil, "one goes per sample, and one has gone on this one", 0.1},
		{"promised to others", claimed, capacity.Memory{At: at(time.Second), BaseCores: 1, Held: memory(capacity.Shut{Dimension: "cpu", Since: at(time.Minute)}).Held}, []capacity.Reservation{untaken("a", time.Second)},
			"cpu 50 % used + 50 % reserved > limit 80 %", 1},
	} {
		_, held := c.mem.Held[task("t")]
		w := capacity.Waiter{Subject: task("t"), Since: at(time.Minute), Held: held && len(c.mem.Held[task("t")].Shut) > 0}
		verdicts, _, _ := capacity.Admit(capacity.Work{Waiters: []capacity.Waiter{w}, Reservations: c.claims}, c.load, c.mem, midnight, settings())
		v := verdicts[0]
		if used := v.Gate.Used.Or(-1); v.Admit || said(v) != c.why || used < c.used-1e-9 || used > c.used+1e-9 {
			t.Errorf("%s: admit %v, %q, used %v", c.name, v.Admit, said(v), v.Gate.Used)
		}
	}
}

// TestHowManyGoAtOnce: where claims predict the effect of another start, every task that fits is released; otherwise
// one per sample.
func TestHowManyGoAtOnce(t *testing.T) {
	sized, files := machine(8, 64, 0.1, 0.1), machine(8, 64, 0.1, 0.1)
	files.Files = protocol.Used(0.1)
	unsized, half := sized, sized
	unsized.Cores, unsized.MemoryTotal, half.MemoryTotal = 0, 0, 0
	for _, c := range []struct {
		name string
		load capacity.Load
		shut string
		want int
	}{
		{"held for the processor", sized, "cpu", 3}, {"held for files", files, "files", 1},
		{"on a machine of unknown size", unsized, "cpu", 1}, {"of unknown memory", half, "cpu", 1},
	} {
		mem := capacity.Memory{At: midnight.Add(-time.Second), Held: map[protocol.Subject]capacity.Held{}}
		var work capacity.Work
		for _, id := range []string{"a", "b", "c"} {
			mem.Held[task(id)] = capacity.Held{Since: midnight.Add(-time.Minute), Shut: []capacity.Shut{{Dimension: c.shut, Since: midnight.Add(-time.Minute), Clear: midnight.Add(-20 * time.Second)}}}
			work.Waiters = append(work.Waiters, capacity.Waiter{Subject: task(id), Since: midnight.Add(-time.Minute), Held: true})
		}
		verdicts, _, _ := capacity.Admit(work, c.load, mem, midnight, settings())
		in := 0
		for _, v := range verdicts {
			if v.Admit {
				in++
			}
		}
		if in != c.want {
			t.Errorf("%s: %d go at once, not %d", c.name, in, c.want)
		}
	}
}
