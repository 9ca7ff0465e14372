package main

import (
	"fmt"
	"time"
)

// measureHeld: codex-cursor is 85 % used, every request asks for less than 80 %, so each must be held.
func measureHeld(b *bench) ([]row, error) {
	const n = 200
	h, err := b.newHouse("")
	if err != nil {
		return nil, err
	}
	p, err := h.addProject("p", "livhana-layer1.1", "codex-cursor")
	if err != nil {
		return nil, err
	}
	stop, err := p.beating(0.15)
	if err != nil {
		return nil, err
	}
	defer stop()
	if _, err := h.start(); err != nil {
		return nil, err
	}
	defer h.stop()
	times, err := p.timeHolds(1, n, 0)
	judgement := times.within("request file → held", "p99 ≤ 100 ms", 100*time.Millisecond)
	return []row{judgement}, err
}

// timeHolds submits requests one after another, each so long after the one before was held.
func (p *project) timeHolds(first, n int, pause time.Duration) (sample, error) {
	var times sample
	for i := range n {
		id := taskID(first + i)
		began, err := put(p.task(id, "request"), request(id, 0.8, time.Now()))
		if err != nil {
			return times, err
		}
		held := p.task(id, "request") + ".held"
		seen, err := await(fmt.Sprintf("the hold of request %d", i+1), func() bool { return exists(held) })
		if err != nil {
			return times, err
		}
		times = append(times, seen.Sub(began))
		time.Sleep(pause)
	}
	return times, nil
}
