package capacity_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/protocol"
)

// herd is a machine on which every task takes one core for a while.
type herd struct {
	cores   float64
	foreign float64 // cores used by others
	mem     capacity.Memory
	now     time.Time
	waiting []capacity.Waiter
	running map[protocol.Subject]*job
	most    int
	load    capacity.Load
	spent   float64 // core seconds since the last sample
	ended   map[protocol.Subject]capacity.Ended
	pick    time.Duration // how long agents take to see an admitted task
	silent  bool          // tasks in flight are not reported, only results
	chance  *rand.Rand
}

type job struct {
	claim capacity.Reservation
	due   time.Time // when its agent takes it
	began time.Time
	left  time.Duration
	cores float64
}

// burst creates n tasks at once and runs them to the end; it returns the makespan.
func (h *herd) burst(n int, cores float64, lasts func() time.Duration) (makespan time.Duration) {
	begin := h.now
	for i := range n {
		h.waiting = append(h.waiting, capacity.Waiter{Subject: task(fmt.Sprintf("t%03d", i)), Kind: "work", Priority: protocol.PriorityMedium, Since: h.now})
	}
	left := map[protocol.Subject]time.Duration{}
	for _, w := range h.waiting {
		left[w.Subject] = lasts()
	}
	const tick = 10 * time.Millisecond
	sampled := h.now
	for step := 0; len(h.waiting)+len(h.running) > 0; step++ {
		ended := h.run(tick)
		h.now = h.now.Add(tick)
		if due := h.now.Sub(sampled) >= 250*time.Millisecond; due || ended || step == 0 {
			if due || step == 0 {
				h.sample(h.now.Sub(sampled))
				sampled = h.now
			}
			h.judge(left, cores)
		}
		if h.now.Sub(begin) > time.Hour {
			return time.Hour
		}
	}
	return h.now.Sub(begin)
}

// run advances time on the machine; it reports whether a task ended.
func (h *herd) run(d time.Duration) (ended bool) {
	want := h.foreign
	busy := 0
	for _, j := range h.running {
		if !h.now.Before(j.due) {
			if j.began.IsZero() {
				j.began = h.now
			}
			if !h.silent {
				j.claim.Taken = j.began
			}
			want += j.cores
			busy++
		}
	}
	h.most = max(h.most, busy)
	share := 1.0
	if want > h.cores {
		share = h.cores / want
	}
	h.spent += min(want, h.cores) * d.Seconds()
	for s, j := range h.running {
		if j.began.IsZero() {
			continue
		}
		if j.left -= time.Duration(float64(d) * share); j.left <= 0 {
			delete(h.running, s)
			h.ended[s] = capacity.Ended{At: h.now, Took: h.now.Sub(j.began), Well: true}
			ended = true
		}
	}
	return ended
}

func (h *herd) sample(window time.Duration) {
	used := 0.0
	if window > 0 {
		used = h.spent / window.Seconds() / h.cores
	}
	noise := 0.02 * h.chance.Float64()
	h.load = capacity.Load{At: h.now, CPU: protocol.Used(used + noise), Memory: protocol.Used(0.3), Window: window, Cores: h.cores, MemoryTotal: 64 << 30}
	h.spent = 0
}

func (h *herd) judge(left map[protocol.Subject]time.Duration, cores float64) {
	work := capacity.Work{Waiters: h.waiting, Ended: h.ended}
	for _, s := range sortedJobs(h.running) {
		work.Reservations = append(work.Reservations, h.running[s].claim)
	}
	verdicts, mem, _ := capacity.Admit(work, h.load, h.mem, h.now, claiming())
	h.mem, h.ended = mem, map[protocol.Subject]capacity.Ended{}
	admitted := map[protocol.Subject]bool{}
	for _, v := range verdicts {
		if v.Admit {
			admitted[v.Subject] = true
			h.running[v.Subject] = &job{claim: capacity.Reservation{Subject: v.Subject, Kind: "work", Since: h.now}, due: h.now.Add(h.pick), left: left[v.Subject], cores: cores}
		}
	}
	var rest []capacity.Waiter
	for _, w := range h.waiting {
		if !admitted[w.Subject] {
			w.Held = true
			rest = append(rest, w)
		}
	}
	h.waiting = rest
}

func claiming() capacity.Config {
	cfg := settings()
	cfg.ClaimCores, cfg.ClaimMemoryMB, cfg.ClaimDecays, cfg.ClaimLapses = 1, 1024, 10*time.Second, 30*time.Second
	return cfg
}

func newHerd(cores, foreign float64) *herd {
	return &herd{cores: cores, foreign: foreign, now: midnight, running: map[protocol.Subject]*job{}, ended: map[protocol.Subject]capacity.Ended{}, chance: rand.New(rand.NewPCG(1, 2))}
}

func TestHerd(t *testing.T) {
	for _, c := range []struct {
		name           string
		cores, foreign float64
		lasts          func(*rand.Rand) time.Duration
		pick           time.Duration // until an agent sees an admitted task
		silent         bool
		atOnce         int
		most           float64 // factor of the ideal
	}{
		{"2 s each", 2, 0.05, func(*rand.Rand) time.Duration { return 2 * time.Second }, 0, false, 2, 1.1},
		{"2 s each, taken 200 ms later", 2, 0.1, func(*rand.Rand) time.Duration { return 2 * time.Second }, 200 * time.Millisecond, false, 2, 1.2},
		{"20 s each", 2, 0.05, func(*rand.Rand) time.Duration { return 20 * time.Second }, 0, false, 2, 1.1},
		{"1 s to 15 s", 2, 0.05, func(r *rand.Rand) time.Duration { return time.Second + time.Duration(r.Int64N(int64(14*time.Second))) }, 0, false, 2, 1.1},
		{"1.5 s each, taken 125 ms later, and nobody says so", 2, 0.05, func(*rand.Rand) time.Duration { return 1500 * time.Millisecond }, 125 * time.Millisecond, true, 4, 1.2},
		{"5 s each, taken 125 ms later, and nobody says so", 2, 0.05, func(*rand.Rand) time.Duration { return 5 * time.Second }, 125 * time.Millisecond, true, 4, 1.2},
		{"20 s each, taken 125 ms later, and nobody says so", 2, 0.05, func(*rand.Rand) time.Duration { return 20 * time.Second }, 125 * time.Millisecond, true, 4, 1.2},
		// Seven tasks run on eight cores: at 80 % used, 7.4 would be the ideal.
		{"8 cores", 8, 0.2, func(r *rand.Rand) time.Duration { return time.Second + time.Duration(r.Int64N(int64(5*time.Second))) }, 0, false, 8, 1.25},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHerd(c.cores, c.foreign)
			h.pick, h.silent = c.pick, c.silent
			lengths := rand.New(rand.NewPCG(3, 4))
			sum := time.Duration(0)
			took := h.burst(50, 1, func() time.Duration {
				d := c.lasts(lengths)
				sum += d
				return d
			})
			ideal := time.Duration(float64(sum) / c.cores)
			ratio := float64(took) / float64(ideal)
			t.Logf("%d at once at the most, %v, %.2f × the ideal", h.most, took, ratio)
			if h.most > c.atOnce || ratio > c.most {
				t.Errorf("%d at once, %.2f × the ideal", h.most, ratio)
			}
		})
	}
}

func sortedJobs(m map[protocol.Subject]*job) []protocol.Subject {
	return slices.SortedFunc(maps.Keys(m), func(a, b protocol.Subject) int { return strings.Compare(a.ID, b.ID) })
}
