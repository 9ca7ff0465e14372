package capacity_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/protocol"
)

// TestSound: implausible costs in a damaged or forged file are dropped, and an oversized file is pruned.
func TestSound(t *testing.T) {
	var l capacity.Learnt
	text := `{"good":{"cores":0.5,"memory":1048576,"duration":1000,"runs":2,"at":"2026-01-01T00:00:00Z"},"less than nothing":{"cores":-3,"runs":1,"at":"2026-01-01T00:00:00Z"},
		"too much":{"cores":1e300,"runs":1,"at":"2026-01-01T00:00:00Z"},"all memory":{"memory":18446744073709551615,"runs":1,"at":"2026-01-01T00:00:00Z"},
		"ends before it begins":{"duration":-5,"runs":1,"at":"2026-01-01T00:00:00Z"},"":{"cores":1,"runs":1,"at":"2026-01-01T00:00:00Z"}}`
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		t.Fatal(err)
	}
	if got := l.Sound(); len(got) != 1 || got["good"].Runs != 2 {
		t.Errorf("believed %+v", got)
	}
	for i := range 20_000 {
		l[fmt.Sprint("k", i)] = capacity.Cost{Cores: 1, Runs: 1, At: midnight.Add(time.Duration(i) * time.Second)}
	}
	if got := l.Sound(); len(got) != 500 || got["k19999"].Runs != 1 {
		t.Errorf("%d kinds are kept", len(got))
	}
	if capacity.Learnt(nil).Sound() != nil {
		t.Error("something of nothing")
	}
}

// TestMark: a cost that replaces another changes the mark; otherwise it would never be stored.
func TestMark(t *testing.T) {
	l := capacity.Learnt{}
	for i := range 500 {
		l[fmt.Sprint("k", i)] = capacity.Cost{Runs: 1, At: midnight.Add(time.Duration(i-1000) * time.Second)}
	}
	mem := capacity.Memory{At: midnight.Add(-time.Second), Learnt: l, Reservations: map[protocol.Subject]capacity.Reserved{
		task("x"): {Kind: "new", Since: midnight.Add(-time.Minute), Taken: midnight.Add(-time.Minute)}}}
	_, next, _ := capacity.Admit(capacity.Work{Ended: map[protocol.Subject]capacity.Ended{task("x"): {At: midnight, Well: true}}}, machine(2, 8, 0.1, 0.1), mem, midnight, settings())
	if next.Learnt["new"].Runs != 1 || len(next.Learnt) != 500 || next.Learnt.Mark() == l.Mark() {
		t.Errorf("%d kinds, marks %d and %d", len(next.Learnt), l.Mark(), next.Learnt.Mark())
	}
}

// TestOverdueClaim: work that never ends and cannot be measured does not keep an idle machine shut.
func TestOverdueClaim(t *testing.T) {
	stale := capacity.Reservation{Subject: task("stale"), Kind: "large", Since: midnight.Add(-48 * time.Hour), Taken: midnight.Add(-48 * time.Hour), Overdue: true}
	mem := capacity.Memory{At: midnight, Learnt: capacity.Learnt{"large": {Cores: 1, Memory: 900 << 20, Runs: 1}, "work": {Cores: 1, Memory: 900 << 20, Runs: 1}}}
	if in, v := admitted(1, capacity.Work{Reservations: []capacity.Reservation{stale}}, machine(2, 1, 0.02, 0.2), mem); in != 1 {
		t.Errorf("held: %s", said(v))
	}
	stale.Overdue = false
	if in, _ := admitted(1, capacity.Work{Reservations: []capacity.Reservation{stale}}, machine(2, 1, 0.02, 0.2), mem); in != 0 {
		t.Error("work within its time keeps no room")
	}
}

// TestOthersComeToRest: under an unbroken stream of work steward detects that the rest of the machine has become idle.
func TestOthersComeToRest(t *testing.T) {
	h := newHerd(8, 4)
	left := map[protocol.Subject]time.Duration{}
	for i := range 600 {
		w := capacity.Waiter{Subject: task(fmt.Sprintf("t%03d", i)), Kind: "work", Since: h.now}
		h.waiting, left[w.Subject] = append(h.waiting, w), 5*time.Second
	}
	begin, sampled := h.now, h.now
	for h.now.Sub(begin) < 2*time.Minute {
		if h.now.Sub(begin) > 20*time.Second {
			h.foreign = 0
		}
		ended := h.run(10 * time.Millisecond)
		h.now = h.now.Add(10 * time.Millisecond)
		if due := h.now.Sub(sampled) >= 250*time.Millisecond; due || ended {
			if due {
				h.sample(h.now.Sub(sampled))
				sampled = h.now
			}
			h.judge(left, 1)
		}
	}
	if h.mem.BaseCores > 0.3 {
		t.Errorf("it believes that others take %.2f cores", h.mem.BaseCores)
	}
}

// TestLearntAboveTheMachine: shared pages are counted once per process, so the learnt cost of a kind may exceed the
// memory of the machine. Its tasks still start beside others.
func TestLearntAboveTheMachine(t *testing.T) {
	work := capacity.Work{
		Waiters: []capacity.Waiter{{Subject: task("big"), Kind: "huge"}},
		Reservations: []capacity.Reservation{{Subject: task("other"), Kind: "small", Since: midnight.Add(-time.Minute), Taken: midnight.Add(-time.Minute),
			Measured: &capacity.Measured{Cores: 0.1, Memory: 100 << 20, At: midnight}}},
	}
	mem := capacity.Memory{At: midnight.Add(-time.Second), Learnt: capacity.Learnt{"huge": {Memory: 40 << 30, Runs: 9, At: midnight}}}
	if verdicts, _, _ := capacity.Admit(work, machine(4, 16, 0.1, 0.1), mem, midnight, settings()); !verdicts[0].Admit {
		t.Error(said(verdicts[0]))
	}
}
