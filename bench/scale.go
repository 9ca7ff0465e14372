package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	scaleProjects = 20
	scaleAgents   = 10               // per project, codex-cursor among them
	scaleDone     = 5_000            // finished tasks per project
	scaleOpen     = 50               // open ones per project
	scaleIdle     = 30 * time.Second // the memory and the status page are stored once in it
	scaleEvents   = 40
)

// estate is a daemon of many projects, all in use.
type estate struct {
	*house
	parts  []*project
	agents []seat
	quit   chan struct{}
	done   chan struct{}
}

// measureScale watches one daemon look after 100,000 finished tasks, 1,000 open ones, 200 agents and 20 projects: what it
// costs at rest, what an event costs, what it takes from the kernel, and how long it takes to start and to answer.
func measureScale(b *bench) ([]row, error) {
	e, err := b.newEstate()
	if err != nil {
		return nil, err
	}
	watches, err := e.watchesWithoutTasks()
	if err != nil {
		return nil, err
	}
	if err := e.fill(); err != nil {
		return nil, err
	}
	go e.beat()
	defer e.close()
	began := time.Now()
	ready, err := e.start()
	if err != nil {
		return nil, err
	}
	if err := e.awaitAll(); err != nil {
		return nil, err
	}
	looked := time.Since(began)
	rows := []row{told(fmt.Sprintf("%d finished and %d open tasks, %d agents, %d projects: start until ready / until all was seen",
		scaleProjects*scaleDone, scaleProjects*scaleOpen, scaleProjects*scaleAgents, scaleProjects), show(ready)+" / "+show(looked))}
	resting, err := e.rest()
	rows = append(rows, resting...)
	if err != nil {
		return rows, err
	}
	n := inotifyWatches(e.pid())
	rows = append(rows, judged("  folders watched (inotify)", "no more than without tasks", fmt.Sprintf("%d, without tasks %d", n, watches), n > 0 && n <= watches))
	events, err := e.timeEvents()
	rows = append(rows, events...)
	if err != nil {
		return rows, err
	}
	rows = append(rows, e.timePage())
	held, err := e.waitWithHeld()
	return append(rows, held), err
}

// newEstate lays out the projects, and their agents, which beat once. All are copies of the first.
func (b *bench) newEstate() (*estate, error) {
	h, err := b.newHouse("")
	if err != nil {
		return nil, err
	}
	e := &estate{house: h, quit: make(chan struct{}), done: make(chan struct{})}
	names := []string{"livhana-layer1.1", "codex-cursor"}
	for i := range scaleAgents - len(names) {
		names = append(names, fmt.Sprintf("agent-%d", i))
	}
	for i := range scaleProjects {
		p, err := e.addProject(fmt.Sprintf("p%02d", i))
		if err != nil {
			return nil, err
		}
		e.parts = append(e.parts, p)
		for _, name := range names {
			if i == 0 {
				err = e.boot(p, name, "--protocol", "agentstatus")
			}
			e.agents = append(e.agents, seat{name, p.path(seatOf(name) + "/heartbeat.json")})
		}
		if i > 0 {
			err = os.CopyFS(p.dir, os.DirFS(e.parts[0].dir))
		}
		if err != nil {
			return nil, err
		}
	}
	return e, e.beatOnce()
}

// seatOf is an agent's folder; the document's two have shorter ones.
func seatOf(agent string) string {
	switch agent {
	case "livhana-layer1.1":
		return "livhana_status"
	case "codex-cursor":
		return "codex_status"
	}
	return agent + "_status"
}

// fill lays down the tasks, the open ones first: when the daemon comes they have lain there for too long to be held.
func (e *estate) fill() error {
	for _, p := range e.parts {
		if err := p.leaveOpen(scaleOpen); err != nil {
			return err
		}
	}
	for i, p := range e.parts {
		if err := p.finish(&e.bench.finished, i*scaleDone, scaleDone); err != nil {
			return err
		}
	}
	return e.beatOnce()
}

func (e *estate) beatOnce() error {
	for _, a := range e.agents {
		if err := a.beat(); err != nil {
			return err
		}
	}
	return nil
}

// leaveOpen lays down requests that nobody has taken; they come before the daemon does, which leaves them alone.
func (p *project) leaveOpen(n int) error {
	for i := range n {
		id := taskID(1<<20 + i)
		r := request(id, 1, time.Now())
		r["timeout_seconds"] = 3600
		if _, err := put(p.task(id, "request"), r); err != nil {
			return err
		}
	}
	return nil
}

// beat writes an agent's heartbeat; it is 85 % used.
func (a seat) beat() error {
	_, err := put(a.file, heartbeat(a.name, 0.15))
	return err
}

// beat lets all agents beat every 30 s, one after another.
func (e *estate) beat() {
	defer close(e.done)
	ticker := time.NewTicker(beatEvery / time.Duration(len(e.agents)))
	defer ticker.Stop()
	for i := 0; ; i++ {
		_ = e.agents[i*(scaleAgents-1)%len(e.agents)].beat()
		select {
		case <-e.quit:
			return
		case <-ticker.C:
		}
	}
}

func (e *estate) close() {
	close(e.quit)
	<-e.done
	e.stop()
}

// awaitAll waits until the daemon has seen all agents and open tasks.
func (e *estate) awaitAll() error {
	want, open := scaleProjects*scaleAgents, 0
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var doc struct {
			Agents []struct{ State string }
			Tasks  []struct{ State string }
		}
		if e.get("/v1/status", &doc) != nil {
			continue
		}
		if open = len(doc.Tasks); len(doc.Agents) >= want && open >= scaleProjects*scaleOpen {
			return nil
		}
	}
	return fmt.Errorf("after 2 minutes the status shows %d open tasks", open)
}

// watchesWithoutTasks counts the daemon's watches in the same place, with one task per project, for which steward makes its
// own folders.
func (e *estate) watchesWithoutTasks() (int, error) {
	if _, err := e.start(); err != nil {
		return 0, err
	}
	defer e.stop()
	if _, err := await("all agents", func() bool { return e.alive() >= len(e.agents) }); err != nil {
		return 0, err
	}
	for _, p := range e.parts {
		if _, err := p.timeHolds(1<<24, 1, 0); err != nil {
			return 0, err
		}
	}
	time.Sleep(7 * time.Second) // a full look finds the new folders
	return inotifyWatches(e.pid()), nil
}

// awaitTaken waits until the daemon takes it that the agents have the open tasks in hand. It tells so in each project's log,
// line by line, and only then there is rest.
func (e *estate) awaitTaken() error {
	taken := 0
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
		var doc struct{ Tasks []struct{ State string } }
		if e.get("/v1/status", &doc) != nil {
			continue
		}
		taken = 0
		for _, t := range doc.Tasks {
			if t.State == "running" {
				taken++
			}
		}
		if taken >= scaleProjects*scaleOpen {
			return nil
		}
	}
	return fmt.Errorf("after 2 minutes %d tasks count as taken", taken)
}

// rest watches the daemon while nobody but the heartbeats does anything.
func (e *estate) rest() ([]row, error) {
	if err := e.awaitTaken(); err != nil {
		return nil, err
	}
	time.Sleep(settleTime)
	began, err := usageOf(e.pid())
	if err != nil {
		return nil, err
	}
	quiet, most, err := e.quiet()
	if err != nil {
		return nil, err
	}
	own, mapped := residentParts(e.pid())
	return []row{
		told("  processor time until at rest: all seen, presumed taken, and told in the logs", show(began.cpu)),
		told("  at rest, all agents beating: CPU, wake-ups", quiet),
		told("  resident memory, largest", fmt.Sprintf("%s (anonymous %s, of the program file %s)", megabytes(most), megabytes(own), megabytes(mapped))),
	}, nil
}

// quiet watches the daemon for a while in which nobody asks anything of it.
func (e *estate) quiet() (used string, most int, err error) {
	first, err := usageOf(e.pid())
	if err != nil {
		return "", 0, err
	}
	for end := time.Now().Add(scaleIdle); time.Now().Before(end); time.Sleep(time.Second) {
		most = max(most, memory(e.pid(), "VmRSS"))
	}
	last, err := usageOf(e.pid())
	if err != nil {
		return "", 0, err
	}
	s := between(first, last)
	return percent(s.cpu) + ", " + s.rate(), most, nil
}

// waitWithHeld is rest with requests that wait for room: the readings come more often then, and leases are renewed.
func (e *estate) waitWithHeld() (row, error) {
	quiet, _, err := e.quiet()
	return told(fmt.Sprintf("  with %d requests held: CPU, wake-ups", scaleEvents), quiet), err
}

// timeEvents submits requests to one project after another; each agent is full, so each must be held.
func (e *estate) timeEvents() ([]row, error) {
	const pause = 300 * time.Millisecond
	first, err := usageOf(e.pid())
	if err != nil {
		return nil, err
	}
	var times sample
	for i := range scaleEvents {
		one, err := e.parts[i%len(e.parts)].timeHolds(1<<24+1+i, 1, pause)
		if err != nil {
			return nil, err
		}
		times = append(times, one...)
	}
	last, err := usageOf(e.pid())
	if err != nil {
		return nil, err
	}
	each := (last.cpu - first.cpu) / scaleEvents
	return []row{
		times.within("  request → held", "p99 ≤ 100 ms", 100*time.Millisecond),
		told("  processor time of the daemon per event, heartbeats in between included", show(each)),
	}, nil
}

// timePage asks for the status document.
func (e *estate) timePage() row {
	var times sample
	size := 0
	for range 100 {
		began := time.Now()
		data, err := e.fetch("/v1/status")
		if err != nil {
			return absent("  status over the socket", "", "not measured: "+err.Error())
		}
		times, size = append(times, time.Since(began)), len(data)
	}
	return told("  status over the socket", fmt.Sprintf("%s, %s", times, megabytes(size)))
}

// fetch gives an answer as it came.
func (h *house) fetch(path string) ([]byte, error) {
	answer, err := h.client.Get("http://steward" + path)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", path, answer.Status)
	}
	return io.ReadAll(answer.Body)
}

// inotifyWatches counts the watches that a process has.
func inotifyWatches(pid int) (n int) {
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, link := range links {
		if to, _ := os.Readlink(link); !strings.Contains(to, "inotify") {
			continue
		}
		data, _ := os.ReadFile(strings.Replace(link, "/fd/", "/fdinfo/", 1))
		n += bytes.Count(data, []byte("inotify wd:"))
	}
	return n
}
