//go:build linux

package torture

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/test/rig"
)

// estate is several projects in use: each with agents that are too full for more, finished tasks of days ago, and open
// ones that no agent has taken.
type estate struct {
	*rig.Rig
	projects []string
	agents   int // per project
	next     int // number of the next task
}

func newEstate(t *testing.T, projects, agents int) *estate {
	t.Helper()
	e := &estate{Rig: rig.New(t, "[escalate]\nchannels = []\n[capacity]\ndimensions = [\"agent\"]\n[tasks]\njudge = \"60s\"\n"+
		"[heartbeat]\ndead = \"1h\"\nlate = \"50m\"\n"), agents: agents, next: 1} // they beat once for the whole test
	for i := range projects {
		p := fmt.Sprintf("p%d", i)
		e.projects = append(e.projects, p)
		e.Boot(p)
		for j := range agents - 2 {
			e.Steward("boot", fmt.Sprintf("agent-%d", j), "--protocol", "agentstatus", "--project", p)
		}
		e.beat(p)
	}
	return e
}

// beat lets every agent of a project say that it is 85 % used.
func (e *estate) beat(project string) {
	e.Helper()
	files, _ := filepath.Glob(e.At(project, "tmp/agent_status/*_status/heartbeat.json"))
	if len(files) != e.agents {
		e.Fatalf("%d heartbeats of %d agents", len(files), e.agents)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(filepath.Dir(file)), "_status")
		switch name {
		case "codex":
			name = rig.Codex
		case "livhana":
			name = "livhana-layer1.1"
		}
		e.Put(file, rig.Doc{"agent_name": name, "status": "idle", "last_heartbeat": rig.Stamp(), "uptime_seconds": 1, "current_capacity": 0.15,
			"active_tasks": []string{}, "health": rig.Doc{"cpu_ok": true, "memory_ok": true, "disk_ok": true, "last_error": nil}})
	}
}

// fill lays down tasks in each project.
func (e *estate) fill(finished, open int) {
	e.Helper()
	old := time.Now().Add(-48 * time.Hour)
	for _, p := range e.projects {
		for range finished {
			id := e.number()
			for ext, d := range map[string]rig.Doc{".request.json": rig.RequestOf(id, 1), ".result.json": rig.ResultOf(id, "completed")} {
				e.Put(e.Task(p, id, ext), d)
				if err := os.Chtimes(e.Task(p, id, ext), old, old); err != nil {
					e.Fatal(err)
				}
			}
		}
		for range open {
			id := e.number()
			e.Put(e.Task(p, id, ".request.json"), rig.RequestOf(id, 1))
		}
	}
}

func (e *estate) number() string {
	e.next++
	return rig.TaskID(e.next)
}

// events has something happen in every project, several times: a task comes that its agent has no room for, and one fails
// for good. Each must be noticed.
func (e *estate) events(rounds int) {
	e.Helper()
	for range rounds {
		for _, p := range e.projects {
			held, failed := e.number(), e.number()
			e.Put(e.Task(p, held, ".request.json"), rig.RequestOf(held, 0.8))
			e.Put(e.Task(p, failed, ".request.json"), rig.RequestOf(failed, 1))
			e.Put(e.Task(p, failed, ".result.json"), rig.ResultOf(failed, "GIT_CONFLICT:fatal"))
			slowly(e.Rig, "the hold of a task of "+p, func() bool { return rig.There(e.Task(p, held, ".request.json.held")) })
			slowly(e.Rig, "the incident of a task of "+p, func() bool {
				out, err := e.Command("steward", "incidents", "-o", "json").Output()
				return err == nil && bytes.Contains(out, []byte(p+":task/"+failed))
			})
		}
	}
}

// seen waits until the daemon shows all agents and so many open tasks.
func (e *estate) seen(open int) {
	e.Helper()
	slowly(e.Rig, fmt.Sprintf("%d open tasks are shown", open), func() bool {
		p, err := e.Status()
		n := 0
		for _, task := range p.Tasks {
			if task.State == "pending" {
				n++
			}
		}
		return err == nil && len(p.Agents) == len(e.projects)*e.agents && n == open
	})
}

// TestScale: a daemon that looks after many tasks, nearly all of them over, notices what happens in every project, and
// takes no more from the kernel than it does without any task. What it costs is bench's business.
func TestScale(t *testing.T) {
	if testing.Short() {
		t.Skip("short: runs the whole program")
	}
	e := newEstate(t, 5, 8)
	d := e.Start(e.projects...)
	e.seen(0)
	e.events(1) // for which steward makes its own folders
	bare := watches(d.Process.Pid)
	end(t, d)
	finished, open := rig.Long(1000, 20_000), rig.Long(40, 200)
	e.fill(finished, open)
	d = e.Start(e.projects...)
	e.seen(open * len(e.projects))
	e.events(3)
	full := watches(d.Process.Pid)
	if full > bare || full == 0 {
		t.Errorf("%d folders are watched; without tasks %d", full, bare)
	}
	if !d.Alive() {
		t.Error("the daemon has ended")
	}
	t.Logf("%d finished and %d open tasks, %d agents, %d projects: %d folders watched, %s resident", finished*len(e.projects), open*len(e.projects),
		e.agents*len(e.projects), len(e.projects), full, residentSize(d.Process.Pid))
}

// TestScaleWithoutWatches: where the kernel gives no watches, or too few, all the same is noticed by looking, and the log
// says that it is so, once and not at every look.
func TestScaleWithoutWatches(t *testing.T) {
	if testing.Short() {
		t.Skip("short: runs the whole program")
	}
	for name, limit := range map[string]string{"none": "max_inotify_instances", "too few": "max_inotify_watches"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEstate(t, 3, 4)
			e.Write("config.toml", string(must(os.ReadFile(e.At("config.toml"))))+"[supervisor]\nlook_every = \"500ms\"\n")
			e.fill(rig.Long(100, 5000), 5)
			most := map[string]string{"none": "0", "too few": "4"}[name]
			line := []string{"--user", "--map-root-user", "sh", "-c", `echo ` + most + ` >/proc/sys/user/` + limit + ` && exec "$@"`, "sh"}
			if out, err := exec.Command("unshare", append(line, "true")...).CombinedOutput(); err != nil {
				t.Skipf("skipped: no namespace with limits of its own: %v: %s", err, out)
			}
			line = append(line, "steward", "run")
			for _, p := range e.projects {
				line = append(line, "--project", p)
			}
			d := e.Spawn(e.Command("unshare", line...))
			slowly(e.Rig, "the daemon answers", func() bool { return !d.Alive() || e.Answers() })
			e.seen(5 * len(e.projects))
			e.events(2)
			if n := watches(d.Process.Pid); n > 4 {
				t.Fatalf("it watches %d folders all the same: the test has proved nothing", n)
			}
			said := strings.Count(string(must(os.ReadFile(e.Logs.Name()))), "looking every few seconds")
			if said < 1 || said > 2*len(e.projects) {
				t.Errorf("the log says %d times that it falls back to looking", said)
			}
		})
	}
}

// watches counts the inotify watches of a process.
func watches(pid int) (n int) {
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, link := range links {
		if to, _ := os.Readlink(link); strings.Contains(to, "inotify") {
			data, _ := os.ReadFile(strings.Replace(link, "/fd/", "/fdinfo/", 1))
			n += bytes.Count(data, []byte("inotify wd:"))
		}
	}
	return n
}

// residentSize is for people.
func residentSize(pid int) string {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(data), "VmRSS:")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}
