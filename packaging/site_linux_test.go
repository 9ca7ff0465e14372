package packaging_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Where things lie in the machine.
const (
	program     = "/usr/local/bin/steward"
	shop        = "/home/jesse/shop"
	garden      = "/home/jesse/garden" // another project
	tasks       = shop + "/tmp/agent_status/codex_tasks/task_"
	userConfig  = "/home/jesse/.config/steward/config.toml"
	userState   = "/home/jesse/.local/state/steward"
	userUnits   = "/home/jesse/.config/systemd/user"
	userLink    = userUnits + "/default.target.wants/steward.service"
	userSocket  = "/run/user/1000/steward/steward.sock"
	systemUnits = "/etc/systemd/system"
	systemState = "/var/lib/steward"
	systemLink  = systemUnits + "/multi-user.target.wants/steward.service"
	systemSock  = "/run/steward/steward.sock"
)

// The tasks of the project: one that waits for room, one that waits for its second attempt, one that failed for good.
const (
	full   = "11111111-1111-4111-8111-111111111111"
	again  = "22222222-2222-4222-8222-222222222222"
	broken = "33333333-3333-4333-8333-333333333333"
)

// settings are quick, and fixed where the machine's own load would decide. The agent beats once for the whole test.
const settings = `[[project]]
path = "/home/jesse/shop"
[supervisor]
look_every = "200ms"
[heartbeat]
late = "30m"
dead = "1h"
[capacity]
dimensions = ["agent"]
[tasks]
judge = "30s"
[escalate]
channels = []
[[retry]]
code = "FILE_NOT_FOUND"
action = "retry"
attempts = 4
delay = "1h"
max_delay = "1h"
factor = 1.0
timeout_factor = 1.0
then = "dead"
`

// programs are two builds of steward, on the host.
type programs struct{ old, next string }

func build(t *testing.T) programs {
	t.Helper()
	whyNot(t) // before the time is spent
	make := func(version string) string {
		out := filepath.Join(t.TempDir(), "steward-"+version)
		cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X main.release="+version, "-o", out, "../cmd/steward")
		cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build steward: %v\n%s", err, text)
		}
		return out
	}
	return programs{make("1.0.0"), make("1.1.0")}
}

// site is a machine with steward's program, a configuration, and a project with both agents booted.
type site struct {
	*machine
	programs
	system bool // whose service is tested
	bin    string
}

func newSite(t *testing.T, p programs, system bool) *site {
	t.Helper()
	s := &site{boot(t), p, system, program}
	s.install(p.old, program)
	s.furnish()
	return s
}

// furnish makes what the program on the machine is to look after.
func (s *site) furnish() {
	s.t.Helper()
	s.write(userConfig, settings, jesseID)
	for _, dir := range []string{"/home/jesse/.config", "/home/jesse/.config/steward"} {
		s.must(s.root("chown", "jesse:jesse", dir))
	}
	s.folder(shop, jesseID)
	for _, agent := range []string{"livhana-layer1.1", "codex-cursor"} {
		s.must(s.jesse(s.bin, "boot", agent, "--project", shop))
	}
	s.beat(0.9)
	if !s.system {
		s.linger()
	}
}

// steward runs a command of it as jesse.
func (s *site) steward(args ...string) result {
	s.t.Helper()
	return s.jesse(append([]string{s.bin}, args...)...)
}

// service runs `steward service …` as the one who may.
func (s *site) service(verb string, args ...string) result {
	s.t.Helper()
	line := append([]string{s.bin, "service", verb}, args...)
	if !s.system {
		return s.jesse(line...)
	}
	line = append(line, "--system")
	if verb == "install" || verb == "unit" {
		line = append(line, "--user", "jesse")
	}
	return s.root(line...)
}

// installed installs the service and waits until it is up.
func (s *site) installed() {
	s.t.Helper()
	s.must(s.service("install"))
	s.up("after the installation")
}

// ctl asks the manager that the service belongs to.
func (s *site) ctl(args ...string) result {
	s.t.Helper()
	if s.system {
		return s.root(append([]string{"systemctl"}, args...)...)
	}
	return s.jesse(append([]string{"systemctl", "--user"}, args...)...)
}

// show gives one property of the unit.
func (s *site) show(property string) string {
	s.t.Helper()
	return strings.TrimSpace(s.ctl("show", "--value", "-p", property, "steward").out)
}

// pid is the service's main process, as the machine sees it; 0 if there is none.
func (s *site) pid() int {
	n, _ := strconv.Atoi(s.show("MainPID"))
	return n
}

// up waits until steward is ready and answers.
func (s *site) up(when string) {
	s.t.Helper()
	s.eventually("steward answers "+when, 15*time.Second, func() (string, bool) {
		r := s.steward("status", "-o", "json")
		return s.show("ActiveState") + ": " + r.all(), r.code == 0 && s.show("ActiveState") == "active"
	})
}

// kill sends the service's main process a signal, by nobody's order.
func (s *site) kill(signal string) (pid int) {
	s.t.Helper()
	pid = s.pid()
	if pid == 0 {
		s.t.Fatal("there is no process to send a signal to")
	}
	s.must(s.root("kill", "-"+signal, strconv.Itoa(pid)))
	return pid
}

// journal is what the unit's processes have said.
func (s *site) journal() string {
	s.t.Helper()
	if s.system {
		return s.root("journalctl", "--no-pager", "-o", "cat", "-u", "steward").out
	}
	return s.root("journalctl", "--no-pager", "-o", "cat", "_SYSTEMD_USER_UNIT=steward.service", "+", "USER_UNIT=steward.service").out
}

// beat is the agent's heartbeat with its load.
func (s *site) beat(load float64) {
	s.t.Helper()
	s.write(shop+"/tmp/agent_status/codex_status/heartbeat.json", fmt.Sprintf(`{"agent_name": "codex-cursor", "status": "idle", "last_heartbeat": %q,
 "uptime_seconds": 1, "current_capacity": %.2f, "active_tasks": [], "health": {"cpu_ok": true, "memory_ok": true, "disk_ok": true, "last_error": null}}`,
		time.Now().UTC().Format(time.RFC3339), 1-load), jesseID)
}

// submit puts a request in place.
func (s *site) submit(id string, throttle float64) {
	s.t.Helper()
	s.write(tasks+id+".request.json", fmt.Sprintf(`{"task_id": %q, "request_type": "research", "priority": "high", "source_agent": "livhana-layer1.1",
 "target_agent": "codex-cursor", "created_at": %q, "timeout_seconds": 300, "throttle_capacity": %.2f,
 "context": {"jesse_directive": "Ship it", "session_id": "9b2fca2e-2c5c-4a0e-8c52-1f0f8f6d3a10", "voice_mode_active": true, "related_tasks": []},
 "payload": {"task_type": "research", "parameters": {}, "files_to_modify": [], "files_to_read": [], "expected_artifacts": []},
 "coordination": {"blocking": true, "progress_updates_required": false, "update_interval_seconds": 30}}`,
		id, time.Now().UTC().Format(time.RFC3339), throttle), jesseID)
}

// fail is the agent's result for a task.
func (s *site) fail(id, code, severity string) {
	s.t.Helper()
	s.write(tasks+id+".result.json", fmt.Sprintf(`{"task_id": %q, "status": "failed", "source_agent": "codex-cursor", "completed_at": %q,
 "execution_time_seconds": 1, "capacity_used": 0.2, "result": {"success": false, "artifacts_created": [], "files_modified": [], "summary": "", "metrics": {}},
 "errors": [{"code": %q, "message": "no", "severity": %q, "file": "a.go", "line": 7}], "next_actions": []}`,
		id, time.Now().UTC().Format(time.RFC3339), code, severity), jesseID)
}

// isHeld reports whether a task's request is hidden from its agent.
func (s *site) isHeld(id string) bool {
	return s.has(tasks+id+".request.json.held") && !s.has(tasks+id+".request.json")
}

// play has steward hold a task, file a failed attempt of another one, and raise an incident for a third.
func (s *site) play() {
	s.t.Helper()
	for id, throttle := range map[string]float64{full: 0.8, again: 1, broken: 1} {
		s.submit(id, throttle)
	}
	s.fail(again, "FILE_NOT_FOUND", "error")
	s.fail(broken, "GIT_CONFLICT", "fatal")
	want := full + " deferred 1\n" + again + " waiting 2\n" + broken + " failed 1\n"
	s.eventually("the project is supervised", 20*time.Second, func() (string, bool) {
		got := s.facts()
		return got, s.isHeld(full) && strings.HasPrefix(got, want) && strings.Contains(got, "Git conflict")
	})
}

// facts are what must outlive every restart: each task's state and attempt, each incident and how often it was told.
func (s *site) facts() string {
	s.t.Helper()
	var listed struct {
		Tasks []struct {
			ID, State string
			Attempt   int
		}
	}
	var told struct {
		Incidents []struct {
			Key, State, Summary string
			Count, Opened       int
		}
	}
	r, i := s.steward("tasks", "-o", "json"), s.steward("incidents", "-o", "json")
	if r.code != 0 || i.code != 0 || json.Unmarshal([]byte(r.out), &listed) != nil || json.Unmarshal([]byte(i.out), &told) != nil {
		return r.all() + i.all()
	}
	var b strings.Builder
	for _, id := range []string{full, again, broken} {
		for _, task := range listed.Tasks {
			if task.ID == id {
				fmt.Fprintln(&b, task.ID, task.State, task.Attempt)
			}
		}
	}
	for _, incident := range told.Incidents {
		if !strings.HasPrefix(incident.Summary, "steward") { // what it says of itself comes and goes
			fmt.Fprintln(&b, incident.Key, incident.State, incident.Count, incident.Opened, incident.Summary)
		}
	}
	return b.String()
}

// keeps insists that the facts come out the same again.
func (s *site) keeps(facts, what string) {
	s.t.Helper()
	s.eventually(what+" keeps every attempt, hold and incident:\n"+facts, 10*time.Second, func() (string, bool) {
		now := s.facts()
		return "\n" + now, now == facts
	})
}

// neverShown watches that a held request does not reappear. The function it gives ends the watch and tells.
func (s *site) neverShown(id string) (verify func()) {
	s.t.Helper()
	w, err := fsnotify.NewWatcher()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := w.Add("/proc/" + s.machine.pid + "/root" + filepath.Dir(tasks)); err != nil {
		s.t.Fatal(err)
	}
	request := filepath.Base(tasks) + id + ".request.json"
	done := make(chan string, 1)
	go func() {
		seen := ""
		for e := range w.Events {
			if filepath.Base(e.Name) == request && e.Has(fsnotify.Create) {
				seen = e.String()
			}
		}
		done <- seen
	}()
	return func() {
		s.t.Helper()
		w.Close()
		if seen := <-done; seen != "" {
			s.t.Errorf("the held request came back for a moment: %s", seen)
		}
		if !s.isHeld(id) {
			s.t.Errorf("task %s is not held any more", id)
		}
	}
}

// traces lists what of steward is to be found on the machine, apart from the program, the project and logs.
func (s *site) traces() []string {
	s.t.Helper()
	r := s.root("find", "/home/jesse", "/root", "/etc", "/run", "/var/lib", "/tmp", "-iname", "*steward*", "-not", "-path", shop+"/*", "-not", "-path", "/run/systemd/*")
	return strings.Fields(r.out)
}
