package main

import (
	"errors"
	"fmt"
	"time"
)

// among is what events cost in a project with so many finished tasks.
type among struct {
	look  time.Duration // from the start until the first look has ended
	holds sample
	cpu   time.Duration // of the daemon, per event, with all that follows
}

// measureHistory compares one event among many finished tasks with one among few, on two daemons in one run. The
// events are so far apart that none waits for what the one before has caused.
func measureHistory(b *bench) ([]row, error) {
	const few, many, target = 100, 100_000, "≤ 2 × among 100"
	a, err := b.timeAmong(few)
	if err != nil {
		return nil, fmt.Errorf("among %d: %w", few, err)
	}
	z, err := b.timeAmong(many)
	if err != nil {
		return nil, fmt.Errorf("among %d: %w", many, err)
	}
	compare := func(figure string, before, after time.Duration) row {
		ratio := float64(after) / float64(before)
		return judged(figure, target, fmt.Sprintf("%.1f × (%s against %s)", ratio, show(after), show(before)), ratio <= 2)
	}
	return []row{
		compare("one event among 100,000 finished tasks: request → held, p50", a.holds.p50(), z.holds.p50()),
		compare("  processor time of the daemon per event", a.cpu, z.cpu),
		told("  request → held among 100,000", z.holds.String()),
		told("  start until the first look has ended, 100 / 100,000", show(a.look)+" / "+show(z.look)),
	}, nil
}

// timeAmong times holds in a project where so many tasks have finished two days ago.
func (b *bench) timeAmong(finished int) (m among, err error) {
	const n, pause = 20, 400 * time.Millisecond
	h, err := b.newHouse("")
	if err != nil {
		return m, err
	}
	p, err := h.addProject("p", "livhana-layer1.1", "codex-cursor")
	if err != nil {
		return m, err
	}
	if err := p.finish(&b.finished, 0, finished); err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, p.giveBack(&b.finished, 0, finished)) }()
	stop, err := p.beating(0.15)
	if err != nil {
		return m, err
	}
	defer stop()
	began := time.Now()
	if _, err := h.start(); err != nil {
		return m, err
	}
	defer h.stop()
	// Ready is said after five seconds at the latest; a request that comes before the first look has ended is
	// never held, for it may have been taken by then.
	if err := h.awaitLook("codex-cursor", time.Minute); err != nil {
		return m, err
	}
	m.look = time.Since(began)
	time.Sleep(3 * time.Second) // what the first look has left behind is collected
	before, err := usageOf(h.pid())
	if err != nil {
		return m, err
	}
	if m.holds, err = p.timeHolds(1<<24, n, pause); err != nil {
		return m, err
	}
	after, err := usageOf(h.pid())
	m.cpu = (after.cpu - before.cpu) / n
	return m, err
}

// awaitLook waits until the daemon has looked at the project of that agent for the first time.
func (h *house) awaitLook(agent string, limit time.Duration) error {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if h.agentState(agent) != "" {
			return nil
		}
	}
	return fmt.Errorf("the first look did not end within %v", limit)
}
