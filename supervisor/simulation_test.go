package supervisor_test

import (
	"flag"
	"fmt"
	"iter"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

var (
	simSeed  = flag.Uint64("sim.seed", 0, "play only this seed of TestSimulation, with its transcript")
	simFrom  = flag.Uint64("sim.from", 1, "the first seed of TestSimulation")
	simCount = flag.Uint64("sim.count", 0, "how many seeds TestSimulation plays; 0: as many as its form asks for")
	simFails = flag.Uint64("sim.fails", 5, "how many seeds of TestSimulation may fail until it gives up")
)

// TestSimulation plays worlds of many projects, agents, tasks, faults, clocks and crashes, each from one seed, and holds
// them to the laws in simulation_laws_test.go. A seed that fails is played again with -sim.seed=N -v.
func TestSimulation(t *testing.T) {
	if *simSeed != 0 {
		m := play1(*simSeed)
		t.Log("\n" + m.log.String())
		if m.broken != "" {
			t.Fatal(m.broken)
		}
		return
	}
	seeds := uint64(80)
	switch {
	case *simCount > 0:
		seeds = *simCount
	case os.Getenv("STEWARD_LONG") == "1":
		seeds = 10_000
	case testing.Short():
		seeds = 15
	}
	begin := time.Now()
	t.Cleanup(func() { debug.SetGCPercent(100) })
	debug.SetGCPercent(400)
	var next, played, broken atomic.Uint64
	next.Store(*simFrom - 1)
	seeds += *simFrom - 1
	for i := range 2 {
		t.Run(fmt.Sprint("player ", i+1), func(t *testing.T) {
			t.Parallel()
			for seed := next.Add(1); seed <= seeds && broken.Load() < *simFails; seed = next.Add(1) {
				m := play1(seed)
				if m.broken != "" {
					broken.Add(1)
					t.Errorf("seed %d: %s\nreplay: go test ./supervisor -run 'TestSimulation$' -sim.seed=%d -v\n%s", seed, m.broken, seed, tail(m.log.String(), 12))
				}
				if seed%20 == 0 && play1(seed).sum() != m.sum() {
					broken.Add(1)
					t.Errorf("seed %d does not lead to the same world twice", seed)
				}
				played.Add(1)
			}
		})
	}
	t.Cleanup(func() {
		t.Logf("seeds %d to %d: %d played in %v, %d broken", *simFrom, seeds, played.Load(), time.Since(begin).Round(time.Millisecond), broken.Load())
	})
}

// TestSimulationAgain plays seeds that once broke a law: a look from before a clock change killed an agent (951), an old look
// gave up work that another process had taken (1231, 4375, 5255), failures were told to nobody, because the memory could not
// be saved since the start (1788, 5564) or nobody had looked for long (6418), an end of unknown time made room at once (1460),
// a lock that was renewed across a clock change lasted for hours (2959, 5677), one was broken because it was watched before a
// restart (6092), a deferral was forgotten with the folder that was gone for a while (3226), and so was a lock, which then
// seemed to be taken just now (9268), and a loss that was written late, on a disk that hung, reissued a task that its agent
// had taken again meanwhile (1493).
func TestSimulationAgain(t *testing.T) {
	for _, seed := range []uint64{951, 1231, 1460, 1493, 1788, 2959, 3226, 4375, 5255, 5564, 5677, 6092, 6418, 9268} {
		if m := play1(seed); m.broken != "" {
			t.Errorf("seed %d: %s\nreplay: go test ./supervisor -run 'TestSimulation$' -sim.seed=%d -v", seed, m.broken, seed)
		}
	}
}

// play1 plays one seed to its end.
func play1(seed uint64) (m *simulation) {
	m = newSimulation(seed)
	defer func() {
		switch why := recover().(type) {
		case nil:
		case lost:
			m.broken = why.why
			m.note("%s", m.broken)
		default: // a panic of what is under test is the worst of all
			m.broken = fmt.Sprintf("at %s: panic: %v\n%s", m.moment(), why, debug.Stack())
		}
	}()
	m.play()
	return m
}

// play lets things happen, then the world get quiet, and waits for an hour in which nothing is left to do.
func (m *simulation) play() {
	m.assign()
	m.brain.start()
	if m.kind == mixed {
		m.after(20*time.Second, m.disasters)
	}
	for end := m.lasting(); m.awake < end; {
		m.run(min(m.between(20*time.Second, 90*time.Second), end-m.awake))
		m.brain.rest()
	}
	m.heal()
	for healed := m.awake; m.awake-m.brain.calm < time.Hour || m.awaits(); m.run(5 * time.Minute) {
		if m.awake-healed > 14*time.Hour {
			m.Fatalf("no rest: 14 hours after it got quiet there is still something to do")
		}
	}
	if !m.brain.up {
		m.Fatalf("steward is not there")
	}
	m.brain.rest()
	m.checkEnd()
	m.note("all is well after %d decisions and %d changes", m.brain.decided, m.brain.changes)
}

// awaits reports whether some task, or a lock, waits for a time that is known.
func (m *simulation) awaits() bool {
	for _, s := range m.sites {
		if slices.ContainsFunc(s.files.foreign.locks, func(l protocol.Lock) bool {
			return s.actor(l.Holder).clock.real(l.Expires).After(m.now()) && !s.actor(l.Holder).able()
		}) {
			return true // until then it is its holder's word against silence
		}
		for _, id := range s.files.order {
			c := s.files.cards[id]
			state := m.job(c).last
			if h := c.hold(); h != nil && h.NotBefore.After(m.now()) || c.result != nil && c.result.Appeared.After(m.resume.forgot) && (state == protocol.TaskWaiting || state == protocol.TaskDeferred) {
				return true
			}
		}
	}
	return false
}

// gateByClaims holds the gate to what was promised and is not in the readings yet, besides to what the gauges show; so does
// STEWARD_SIM_GATE=1.
const gateByClaims = true

func tail(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

func orderedHeads(heads map[string]rules.Head) iter.Seq[string] {
	return slices.Values(slices.Sorted(maps.Keys(heads)))
}

func cloneHeads(heads map[string]rules.Head) map[string]rules.Head { return maps.Clone(heads) }

// TestClockOfTheSimulation: a simulated moment has the readings of a real one, wall and monotonic.
func TestClockOfTheSimulation(t *testing.T) {
	a, b := withMonotonic(midnight, time.Second), withMonotonic(midnight.Add(-time.Hour), 3*time.Second)
	if !a.Round(0).Equal(midnight) || b.Sub(a) != 2*time.Second || b.Round(0).Sub(a.Round(0)) != -time.Hour {
		t.Errorf("%v and %v lie %v apart by the monotonic clock, %v by the wall clock", a, b, b.Sub(a), b.Round(0).Sub(a.Round(0)))
	}
}
