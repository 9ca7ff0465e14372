package main

import (
	"fmt"
	"os/exec"
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

// crowd is a daemon of five projects with twenty agents each, all of which beat.
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

// measureIdle watches, in the same minute: a daemon with a hundred agents and one with nobody; the document's polling
// loops; and three programs that keep a hundred children each. Then it asks the first daemon for its status, and kills
// daemons and starts them again.
func measureIdle(b *bench) ([]row, error) {
	empty, alone, err := b.startEmpty()
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
	o, err := b.others()
	if err != nil {
		return nil, err
	}
	defer o.close()
	rows, err := watchIdle(c, empty, o)
	if err != nil {
		return rows, err
	}
	rows = append(rows, told("start until ready, empty project", show(alone)), told("start until ready, 100 agents", show(full)))
	rows = append(rows, c.timeStatus()...)
	for _, crash := range []func() ([]row, error){c.timeCrash, o.kept.timeCrash} {
		again, err := crash()
		rows = append(rows, again...)
		if err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// startEmpty starts a daemon with a project in which nobody is registered.
func (b *bench) startEmpty() (*house, time.Duration, error) {
	h, err := b.newHouse("")
	if err != nil {
		return nil, 0, err
	}
	if _, err := h.addProject("p"); err != nil {
		return nil, 0, err
	}
	took, err := h.start()
	return h, took, err
}

// others are what is watched beside the daemons.
type others struct {
	loops   *rival
	keepers []*rival
	kept    *kept
}

func (b *bench) others() (o *others, err error) {
	o = &others{}
	if o.loops, err = b.pollers(crowdProjects); err != nil {
		o.loops = &rival{name: "the document's polling loops", absent: err.Error()}
	}
	if o.keepers, o.kept, err = b.keepers(); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

func (o *others) all() []*rival { return append([]*rival{o.loops}, o.keepers...) }

func (o *others) close() {
	for _, r := range o.all() {
		r.close()
	}
	if o.kept != nil {
		o.kept.close()
	}
}

func watchIdle(c *crowd, empty *house, o *others) ([]row, error) {
	time.Sleep(settleTime)
	for _, r := range o.all() {
		if err := r.begin(); err != nil {
			return nil, err
		}
	}
	polled := c.bench.pollMeanwhile(idleTime)
	crowded, err := watched(c.pid())
	if err != nil {
		return nil, err
	}
	deserted, err := watched(empty.pid())
	if err != nil {
		return nil, err
	}
	most := 0
	for range int(idleTime / time.Second) {
		time.Sleep(time.Second)
		most = max(most, memory(c.pid(), "VmRSS"))
	}
	busy, still := crowded(), deserted()
	own, mapped := residentParts(c.pid())
	rows := []row{
		judged("idle, 5 projects, 100 agents beating: CPU", "≤ 0.5 % of a core", percent(busy.cpu), busy.cpu <= 0.005),
		judged("  resident memory, largest", "≤ 32 MB", fmt.Sprintf("%s (anonymous %s, of the program file %s)", megabytes(most), megabytes(own), megabytes(mapped)), most <= 32e6),
		judged("  wake-ups (voluntary switches, all threads)", "≤ 10/s", busy.rate(), busy.wakeups <= 10),
		judged("  forks", "0", busy.forks, busy.none),
		o.loops.row(),
		judged("nobody registered: CPU", "≤ 0.02 % of a core", percent(still.cpu), still.cpu <= 0.0002),
		judged("  wake-ups (voluntary switches, all threads)", "≤ 1/s", still.rate(), still.wakeups <= 1),
		told("cost of keeping 100 children that do nothing", ""),
	}
	for _, r := range o.keepers {
		rows = append(rows, r.row())
	}
	rows = append(rows, told("agents of the hundred alive at the end", fmt.Sprint(c.alive())))
	return append(rows, <-polled), nil
}

// watched takes a first reading of a process; what it gives takes the last one.
func watched(pid int) (func() span, error) {
	first, err := usageOf(pid)
	return func() span {
		last, _ := usageOf(pid) // one that has ended shows in all that follows
		return between(first, last)
	}, err
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
	const figure, target = "status over the socket, 100 agents", "p50 ≤ 1 ms"
	var times sample
	for range 2000 {
		began := time.Now()
		if err := c.get("/v1/status", nil); err != nil {
			return []row{absent(figure, target, "not measured: "+err.Error())}
		}
		times = append(times, time.Since(began))
	}
	ok := times.p50() <= time.Millisecond
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
