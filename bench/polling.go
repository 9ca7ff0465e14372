package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// pollMeanwhile times the document's executor while something else is watched.
func (b *bench) pollMeanwhile(span time.Duration) <-chan row {
	const figure = "request appears → taken by the document's polling loop (10 s)"
	done := make(chan row, 1)
	go func() {
		times, err := b.timePolling(span)
		if err != nil {
			done <- absent(figure, "for comparison", "not measured: "+err.Error())
			return
		}
		done <- beside(figure, times.String())
	}()
	return done
}

// timePolling has the document's executor alone in a project, with requests that come at any moment between its looks:
// what work waits for when everybody polls. Next to nothing runs meanwhile.
func (b *bench) timePolling(span time.Duration) (sample, error) {
	h, err := b.newHouse("")
	if err != nil {
		return nil, err
	}
	p, err := h.addProject("p", "livhana-layer1.1", "codex-cursor")
	if err != nil {
		return nil, err
	}
	script := filepath.Join(p.dir, "work.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nexit 0\n"), 0o755); err != nil {
		return nil, err
	}
	executor, err := h.poller("executor", p)
	if err != nil {
		return nil, err
	}
	defer executor.stop()
	asked := map[string]time.Time{}
	const every = 4 * time.Second
	for i, end := 0, time.Now().Add(span); time.Now().Before(end); i++ {
		time.Sleep(rand.N(every))
		asked[taskID(9000+i)] = time.Now()
		if _, err := p.order(script, 9000+i); err != nil {
			return nil, err
		}
	}
	var times sample
	for id, at := range asked {
		var taken time.Time
		if _, err := await("the document's executor", func() (ok bool) { taken, ok = executor.when("taken", id); return ok }); err != nil {
			return nil, err
		}
		times = append(times, taken.Sub(at))
	}
	return times, nil
}

// pollers are the document's two loops in each of so many projects: nobody has anything to do, and an orchestrator waits.
func (b *bench) pollers(projects int) (*rival, error) {
	h, err := b.newHouse("")
	if err != nil {
		return nil, err
	}
	r := &rival{name: fmt.Sprintf("the document's polling loops, %d executors (10 s) and %d orchestrators (5 s)", projects, projects)}
	for i := range projects {
		p, err := h.addProject(fmt.Sprintf("p%d", i), "livhana-layer1.1", "codex-cursor")
		if err != nil {
			return nil, errors.Join(err, r.close())
		}
		for side, args := range map[string][]string{"executor": nil, "orchestrator": {taskID(1)}} {
			l, err := h.poller(side, p, args...)
			if err != nil {
				return nil, errors.Join(err, r.close())
			}
			r.pids, r.stops = append(r.pids, l.pid()), append(r.stops, l.stop)
		}
	}
	return r, nil
}
