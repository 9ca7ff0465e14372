package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// measureWork times work from the request's appearance to its result, with one worker of ours that has nothing else to
// do: one task after another, then a queue of them.
func measureWork(b *bench) ([]row, error) {
	const single, queued = 60, 100
	h, err := b.newHouse("[capacity]\ndimensions = [\"agent\"]\n[escalate]\nchannels = []\n")
	if err != nil {
		return nil, err
	}
	p, err := h.addProject("p", "livhana-layer1.1")
	if err != nil {
		return nil, err
	}
	script := filepath.Join(p.dir, "work.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nexit 0\n"), 0o755); err != nil {
		return nil, err
	}
	if _, err := h.start(); err != nil {
		return nil, err
	}
	defer h.stop()
	stop, err := h.hire(p)
	if err != nil {
		return nil, err
	}
	defer stop()
	times, err := p.timeWork(script, single)
	if err != nil {
		return nil, err
	}
	each, err := p.timeQueue(script, queued)
	if err != nil {
		return nil, err
	}
	return []row{
		told("request appears → result of an empty script, one worker, idle", times.String()),
		told(fmt.Sprintf("  the same, per task of a queue of %d", queued), show(each)),
	}, nil
}

// hire starts a worker.
func (h *house) hire(p *project, args ...string) (stop func(), err error) {
	c := exec.Command(h.bench.steward, append([]string{"worker", "--agent", "codex-cursor", "--project", p.dir}, args...)...)
	c.Env, c.Dir = h.environ(), p.dir
	if err := c.Start(); err != nil {
		return nil, err
	}
	stop = func() {
		_ = c.Process.Signal(os.Interrupt)
		_ = c.Wait()
	}
	if _, err := await("the worker", func() bool { return p.registered("codex-cursor") == "active" }); err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// order puts the request for one empty script where workers look.
func (p *project) order(script string, n int) (id string, err error) {
	id = taskID(n)
	r := request(id, 0.8, time.Now())
	r["payload"] = object{"task_type": "execute", "parameters": object{"script_path": script, "args": []string{id}}}
	_, err = put(p.task(id, "request"), r)
	return id, err
}

func (p *project) ended(id string) bool {
	_, err := os.Stat(p.task(id, "result"))
	return err == nil
}

func (p *project) timeWork(script string, n int) (sample, error) {
	var times sample
	for i := range n {
		time.Sleep(50 * time.Millisecond)
		begun := time.Now()
		id, err := p.order(script, 7000+i)
		if err != nil {
			return nil, err
		}
		if _, err := await("the result", func() bool { return p.ended(id) }); err != nil {
			return nil, err
		}
		times = append(times, time.Since(begun))
	}
	return times, nil
}

func (p *project) timeQueue(script string, n int) (time.Duration, error) {
	var ids []string
	begun := time.Now()
	for i := range n {
		id, err := p.order(script, 8000+i)
		if err != nil {
			return 0, err
		}
		ids = append(ids, id)
	}
	for _, id := range ids {
		if _, err := await("the result", func() bool { return p.ended(id) }); err != nil {
			return 0, err
		}
	}
	return time.Since(begun) / time.Duration(n), nil
}
