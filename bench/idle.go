package main

import (
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	crowdProjects = 5
	crowdAgents   = 20 // per project
	beatEvery     = 30 * time.Second
	settleTime    = 15 * time.Second
	idleTime      = 40 * time.Second
)

// crowd is a house of five projects with twenty agents each, all of which beat.
type crowd struct {
	*house
	agents []seat
	quit   chan struct{}
	done   chan struct{}
}

// seat is where an agent's heartbeat lies.
type seat struct{ name, file string }

func (b *bench) newCrowd() (*crowd, error) {
	h, err := b.newHouse("")
	if err != nil {
		return nil, err
	}
	c := &crowd{house: h, quit: make(chan struct{}), done: make(chan struct{})}
	for i := range crowdProjects {
		p, err := h.addProject(fmt.Sprintf("p%d", i))
		if err != nil {
			return nil, err
		}
		for j := range crowdAgents {
			name := fmt.Sprintf("agent-%d-%02d", i, j)
			if err := h.boot(p, name, "--protocol", "agentstatus"); err != nil {
				return nil, err
			}
			c.agents = append(c.agents, seat{name, p.path(name + "_status/heartbeat.json")})
		}
	}
	return c, nil
}

// beat lets everybody beat, one agent after another, evenly spread.
func (c *crowd) beat() {
	defer close(c.done)
	ticker := time.NewTicker(beatEvery / time.Duration(len(c.agents)))
	defer ticker.Stop()
	for i := 0; ; i++ {
		// The projects take turns, as they would by chance.
		a := c.agents[i%crowdProjects*crowdAgents+i/crowdProjects%crowdAgents]
		_, _ = put(a.file, heartbeat(a.name, 0.5))
		select {
		case <-c.quit:
			return
		case <-ticker.C:
		}
	}
}

func (c *crowd) close() {
	close(c.quit)
	<-c.done
	c.stop()
}

// measureIdle watches a daemon with a hundred agents and one with nobody at the same time, then asks the first one
// for its status, then kills it and starts it again.
func measureIdle(b *bench) ([]row, error) {
	empty, err := b.newHouse("")
	if err != nil {
		return nil, err
	}
	if _, err := empty.addProject("p"); err != nil {
		return nil, err
	}
	alone, err := empty.start()
	if err != nil {
		return nil, err
	}
	defer empty.stop()
	c, err := b.newCrowd()
	if err != nil {
		return nil, err
	}
	full, err := c.start()
	if err != nil {
		return nil, err
	}
	go c.beat()
	defer c.close()
	rows, err := watchIdle(c, empty)
	if err != nil {
		return rows, err
	}
	rows = append(rows, told("start until ready, empty project", show(alone)), told("start until ready, 100 agents", show(full)))
	rows = append(rows, c.timeStatus()...)
	again, err := c.timeCrash()
	return append(rows, again...), err
}

func watchIdle(c *crowd, empty *house) ([]row, error) {
	time.Sleep(settleTime)
	var first, last [2]usage
	for i, pid := range []int{c.pid(), empty.pid()} {
		var err error
		if first[i], err = usageOf(pid); err != nil {
			return nil, err
		}
	}
	most := 0
	for range int(idleTime / time.Second) {
		time.Sleep(time.Second)
		most = max(most, memory(c.pid(), "VmRSS"))
	}
	for i, pid := range []int{c.pid(), empty.pid()} {
		var err error
		if last[i], err = usageOf(pid); err != nil {
			return nil, err
		}
	}
	busy, still := between(first[0], last[0]), between(first[1], last[1])
	own, mapped := residentParts(c.pid())
	alive := c.alive()
	rows := []row{
		judged("idle, 5 projects, 100 agents beating: CPU", "≤ 0.2 % of a core", percent(busy.cpu), busy.cpu <= 0.002),
		judged("  resident memory, largest", "≤ 16 MB", fmt.Sprintf("%s (anonymous %s, of the program file %s)", megabytes(most), megabytes(own), megabytes(mapped)), most <= 16e6),
		judged("  wake-ups (voluntary switches, all threads)", "≤ 3/s", busy.rate(), busy.wakeups <= 3),
		judged("  forks", "0", busy.forks, busy.none),
		told("  agents alive at the end", fmt.Sprintf("%d of %d", alive, crowdProjects*crowdAgents)),
		judged("nobody registered: CPU", "≤ 0.02 % of a core", percent(still.cpu), still.cpu <= 0.0002),
		judged("  wake-ups (voluntary switches, all threads)", "≤ 1/s", still.rate(), still.wakeups <= 1),
	}
	return rows, nil
}

// residentParts splits VmRSS: heap and stacks, and the pages of the program that the page cache shares with others.
func residentParts(pid int) (anonymous, file int) {
	return memory(pid, "RssAnon"), memory(pid, "RssFile")
}

// alive counts whom the daemon calls alive.
func (h *house) alive() int {
	var doc struct{ Agents []struct{ State string } }
	_ = h.get("/v1/status", &doc)
	n := 0
	for _, a := range doc.Agents {
		if a.State == "alive" {
			n++
		}
	}
	return n
}

// timeStatus asks for the status document, over a kept connection, and as a whole process.
func (c *crowd) timeStatus() []row {
	const figure, target = "status over the socket, 100 agents", "p50 ≤ 0.4 ms, p99 ≤ 1.0 ms"
	var times sample
	for range 2000 {
		began := time.Now()
		if err := c.get("/v1/status", nil); err != nil {
			return []row{absent(figure, target, "not measured: "+err.Error())}
		}
		times = append(times, time.Since(began))
	}
	ok := times.p50() <= 400*time.Microsecond && times.p99() <= time.Millisecond
	rows := []row{judged(figure, target, times.String(), ok)}
	whole, err := c.timeTool(30, "status")
	if err != nil {
		return append(rows, absent("steward status, whole process", "≤ 8 ms", "not measured: "+err.Error()))
	}
	return append(rows, judged("steward status, whole process", "p50 ≤ 8 ms", whole.String(), whole.p50() <= 8*time.Millisecond))
}

// timeTool runs a command of steward so often, and times whole processes.
func (h *house) timeTool(n int, args ...string) (sample, error) {
	var times sample
	for range n {
		cmd := exec.Command(h.bench.steward, args...)
		cmd.Env = h.environ()
		began := time.Now()
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("steward %s: %w", strings.Join(args, " "), err)
		}
		times = append(times, time.Since(began))
	}
	return times, nil
}

// timeCrash kills the daemon and starts it again, as a service manager would.
func (c *crowd) timeCrash() ([]row, error) {
	const figure, target = "daemon killed with 100 agents → serving again", "≤ 1 s"
	var times sample
	for range 5 {
		began := time.Now()
		c.crash()
		if _, err := c.start(); err != nil {
			return nil, err
		}
		seen, err := await("an answer", func() bool { return c.get("/healthz", nil) == nil })
		if err != nil {
			return nil, err
		}
		times = append(times, seen.Sub(began))
	}
	missing := math.Abs(float64(crowdProjects*crowdAgents - c.alive()))
	doubled, _ := filepath.Glob(c.path("state/incidents/*.json"))
	return []row{
		judged(figure, target, times.String(), times.most() <= time.Second),
		judged("  agents not alive; incidents raised", "0; 0", fmt.Sprintf("%.0f; %d", missing, len(doubled)), missing == 0 && len(doubled) == 0),
	}, nil
}
