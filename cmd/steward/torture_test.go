//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/livhana/steward/escalate"
)

// rig is the real program with a home of its own: a state folder, a socket, a configuration, a working folder.
type rig struct {
	testing.TB
	dir, state, socket string
	env                []string
	logs               *os.File // what its daemons print
}

// newRig lays out a home. The programs are the ones that TestMain puts into PATH.
func newRig(t testing.TB, config string) *rig {
	t.Helper()
	run, err := os.MkdirTemp("", "st") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(run) })
	r := &rig{TB: t, dir: t.TempDir(), socket: filepath.Join(run, "s.sock")}
	r.state = filepath.Join(r.dir, "state")
	r.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(r.dir, "home"), "STEWARD_STATE_DIR=" + r.state,
		"STEWARD_SOCKET=" + r.socket, "STEWARD_CONFIG=" + filepath.Join(r.dir, "config.toml"),
		"GORACE=atexit_sleep_ms=0"} // else every command of a -race build takes a second to end
	r.write("config.toml", config)
	if r.logs, err = os.Create(filepath.Join(r.dir, "steward.log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.tail)
	return r
}

// tail shows the end of the daemons' log when the test has failed.
func (r *rig) tail() {
	r.logs.Close()
	if !r.Failed() {
		return
	}
	data, _ := os.ReadFile(r.logs.Name())
	r.Logf("the end of the daemons' log:\n%s", data[max(0, len(data)-6000):])
}

// at makes a path of the working folder.
func (r *rig) at(elem ...string) string { return filepath.Join(append([]string{r.dir}, elem...)...) }

// task is the path of one of a task's files.
func (r *rig) task(project, id, ext string) string {
	return r.at(project, "tmp/agent_status/codex_tasks", "task_"+id+ext)
}

// attempts is a path in steward's ledger of a project.
func (r *rig) attempts(project, name string) string {
	return r.at(project, "tmp/agent_status/steward/attempts", name)
}

func (r *rig) write(name, text string) {
	r.Helper()
	if err := os.WriteFile(r.at(name), []byte(text), 0o644); err != nil {
		r.Fatal(err)
	}
}

// put writes a document beside its place and renames it there.
func (r *rig) put(file string, d doc) {
	r.Helper()
	data, _ := json.MarshalIndent(d, "", "  ")
	if err := errors.Join(os.WriteFile(file+".new", data, 0o644), os.Rename(file+".new", file)); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Dir, c.Env = r.dir, r.env
	return c
}

// steward runs a command of the operator's, which must succeed.
func (r *rig) steward(args ...string) string {
	r.Helper()
	var errs bytes.Buffer
	c := r.command("steward", args...)
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		r.Fatalf("steward %s: %v\n%s%s", strings.Join(args, " "), err, out, &errs)
	}
	return string(out)
}

// boot sets up protocol 000 in a project.
func (r *rig) boot(project string) {
	r.Helper()
	if err := os.MkdirAll(r.at(project), 0o755); err != nil {
		r.Fatal(err)
	}
	// As in the document's boot scripts, the pid that is registered is that of a shell that ends at once.
	steward, err := exec.LookPath("steward")
	if err != nil {
		r.Fatal(err)
	}
	c := r.command("/bin/sh", "-c", `"$1" boot livhana-layer1.1 --project "$0" && "$1" boot codex-cursor --project "$0" && exit 0`, project, steward)
	if out, err := c.CombinedOutput(); err != nil {
		r.Fatalf("boot: %v\n%s", err, out)
	}
}

// child is a process of the test's own.
type child struct {
	*exec.Cmd
	ended chan struct{}
}

// spawn starts a process; whatever becomes of the test, it is ended by its number.
func (r *rig) spawn(c *exec.Cmd) *child {
	r.Helper()
	if c.Stderr == nil {
		c.Stdout, c.Stderr = r.logs, r.logs
	}
	if err := c.Start(); err != nil {
		r.Fatal(err)
	}
	p := &child{Cmd: c, ended: make(chan struct{})}
	go func() { _ = c.Wait(); close(p.ended) }()
	r.Cleanup(p.kill)
	return p
}

func (p *child) kill() {
	_ = p.Process.Kill()
	<-p.ended
}

func (p *child) alive() bool { return p.Process.Signal(syscall.Signal(0)) == nil }

// run starts a daemon for the projects; start also waits until it answers.
func (r *rig) run(projects ...string) *child {
	r.Helper()
	args := []string{"run"}
	for _, p := range projects {
		args = append(args, "--project", p)
	}
	return r.spawn(r.command("steward", args...))
}

func (r *rig) start(projects ...string) *child {
	r.Helper()
	p := r.run(projects...)
	r.until("the daemon answers", func() bool { return !p.alive() || r.answers() })
	if !p.alive() {
		r.Fatal("the daemon ended at once")
	}
	return p
}

func (r *rig) answers() bool {
	conn, err := net.Dial("unix", r.socket)
	if err == nil {
		conn.Close()
		_, err = r.status()
	}
	return err == nil
}

// statusPage is what these tests read of `steward status -o json`.
type statusPage struct {
	Projects []struct {
		Name     string
		Faults   []struct{ Path, Problem string }
		Findings []struct{ Subject, Code, Text string }
	}
	Agents []struct{ Project, Name, State string }
	Tasks  []struct {
		Project, ID, State, Why string
		Attempt                 int
	}
	Incidents []escalate.Incident
	raw       string
}

func (r *rig) status() (statusPage, error) {
	var p statusPage
	out, err := r.command("steward", "status", "-o", "json").Output()
	if err == nil {
		err = json.Unmarshal(out, &p)
	}
	p.raw = string(out)
	return p, err
}

// shows waits until the status page says all of it.
func (r *rig) shows(words ...string) {
	r.Helper()
	r.until(fmt.Sprintf("status says %q", words), func() bool {
		p, err := r.status()
		for _, w := range words {
			err = errors.Join(err, found(p.raw, w))
		}
		return err == nil
	})
}

func found(text, pattern string) error {
	if !regexp.MustCompile("(?s)" + pattern).MatchString(text) {
		return errors.New("it does not say " + pattern)
	}
	return nil
}

// state is what the status page says of a task.
func (p statusPage) state(project, id string) string {
	for _, t := range p.Tasks {
		if t.Project == project && t.ID == id {
			return t.State
		}
	}
	return ""
}

// until polls; the deadline is a watchdog, never a measure of speed.
func (r *rig) until(what string, ok func() bool) {
	r.Helper()
	deadline := time.After(patience)
	for !ok() {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-deadline:
			p, _ := r.status()
			r.Fatalf("never came: %s\n%s", what, p.raw)
		}
	}
}

// pause lets time pass that a test is about.
func (r *rig) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.Context().Done():
	}
}

func there(file string) bool { _, err := os.Lstat(file); return err == nil }

// reads reports whether the file's text matches.
func reads(file, pattern string) bool {
	data, err := os.ReadFile(file)
	return err == nil && found(string(data), pattern) == nil
}

// request is a task's request that may be held for lack of room from the given used share on.
func requestOf(id string, throttle float64, outcomes ...string) doc {
	return doc{"task_id": id, "request_type": "execute", "priority": "medium", "source_agent": "livhana-layer1.1", "target_agent": "codex-cursor",
		"created_at": stamp(), "timeout_seconds": 300, "throttle_capacity": throttle,
		"context":      doc{"jesse_directive": "Ship it", "session_id": "9b2fca2e-2c5c-4a0e-8c52-1f0f8f6d3a10", "voice_mode_active": true, "related_tasks": []string{}},
		"payload":      doc{"task_type": "execute", "parameters": doc{"work": "20ms", "outcomes": outcomes, "for": id}, "files_to_modify": []string{}, "files_to_read": []string{}, "expected_artifacts": []string{}},
		"coordination": doc{"blocking": false, "progress_updates_required": false, "update_interval_seconds": 30}}
}

// taskID numbers the tasks with valid UUIDs.
func taskID(n int) string { return fmt.Sprintf("%08x-0000-4000-8000-000000000000", n) }

// quickRules are the document's rules with delays that a test can wait for.
const quickRules = `
[supervisor]
look_every = "200ms"
[escalate]
channels = []
[capacity]
calm = "100ms"
calm_memory = "100ms"
[tasks]
settle = "300ms"
log_after = "200ms"
retries_per_hour = 100000
[[retry]]
code = "FILE_NOT_FOUND"
action = "retry"
attempts = 2
delay = "200ms"
then = "dead"
[[retry]]
code = "TIMEOUT"
action = "retry"
attempts = 2
delay = "100ms"
then = "dead"
[[retry]]
code = "CAPACITY_EXCEEDED"
action = "defer"
attempts = 3
delay = "300ms"
then = "alert"
`

// tortureRules look less often: on a full machine three looks of 200 ms go by unlooked, which counts as a sleep, after which
// overdue retries are let out one by one.
var tortureRules = strings.Replace(quickRules, `"200ms"`, `"2s"`, 1)

// script is what a task does at each attempt, and how it must end.
type script struct {
	outcomes []string
	final    string // the result's status
	state    string // steward's verdict
	runs     int
}

var tortures = []script{
	{[]string{"completed"}, "completed", "done", 1},
	{[]string{"FILE_NOT_FOUND", "completed"}, "completed", "done", 2},
	{[]string{"FILE_NOT_FOUND"}, "failed", "dead", 2},
	{[]string{"deferred", "completed"}, "completed", "done", 2},
	{[]string{"GIT_CONFLICT:fatal"}, "failed", "failed", 1},
	{[]string{"timeout", "completed"}, "completed", "done", 2},
}

// torture is a daemon that is killed again and again while two clients of different manners work.
type torture struct {
	*rig
	projects []string
	scripts  map[string]script // by project/id
	verdict  verdict
}

type verdict struct{ kills, tasks, runs, held, over, lost, repeated int }

func TestTortureKill9(t *testing.T) {
	kills := 40
	if os.Getenv("STEWARD_LONG") == "1" {
		kills = 2000
	}
	x := &torture{rig: newRig(t, tortureRules), projects: []string{"literal", "naming"}, scripts: map[string]script{}}
	for _, manner := range x.projects {
		x.boot(manner)
		x.brand(manner)
		codex := x.command("codex", "-manner", manner, "-project", x.at(manner), "-poll", "250ms", "-for", "24h")
		codex.Dir, codex.Stdout, codex.Stderr = x.at(manner), io.Discard, io.Discard
		x.spawn(codex)
	}
	x.verdict.kills = kills
	for n := range kills {
		x.murder(n)
	}
	x.roominess(0.95)
	x.start(x.projects...)
	x.rest()
	x.judge()
	v := x.verdict
	if v.held == 0 {
		t.Error("nothing was ever held: the test has proved less than it says")
	}
	t.Logf("kills %d, tasks %d, runs %d, holds %d, over limit %d, lost %d, repeated alerts %d", v.kills, v.tasks, v.runs, v.held, v.over, v.lost, v.repeated)
}

const brand = `"fleet": {"owner":"ops","odd":1.0}`

// brand puts something of somebody else's into the registry.
func (x *torture) brand(project string) {
	file := x.at(project, "tmp/agent_status/shared/agent_registry.json")
	data, err := os.ReadFile(file)
	if err != nil {
		x.Fatal(err)
	}
	text := strings.Replace(string(data), `"agents": {`, brand+`, "agents": {`, 1)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		x.Fatal(err)
	}
}

// submit adds a task to each project. Every third asks for more room than there is at times.
func (x *torture) submit(n int) {
	throttle := 1.0
	if n%3 == 0 {
		throttle = 0.8
	}
	for i, project := range x.projects {
		s := tortures[(n+i)%len(tortures)]
		id := taskID(n)
		x.scripts[project+"/"+id] = s
		x.put(x.task(project, id, ".request.json"), requestOf(id, throttle, s.outcomes...))
		x.verdict.tasks++
	}
}

// roominess sets what the agents say of their free capacity.
func (x *torture) roominess(free float64) {
	for _, project := range x.projects {
		x.write(filepath.Join(project, "free"), fmt.Sprint(free))
	}
}

// murder starts a daemon and kills it. Every other one is killed some time after it began to serve, and finds its tasks
// coming; the rest die some time after their start, and find them there.
func (x *torture) murder(n int) {
	x.roominess([]float64{0.1, 0.95}[n/4%2]) // free; 0.1 is over the document's threshold of 0.8 used
	serving := n%2 == 0
	if !serving {
		x.submit(n)
	}
	p := x.run(x.projects...)
	if serving {
		x.until("the daemon listens", func() bool {
			conn, err := net.Dial("unix", x.socket)
			if err == nil {
				conn.Close()
			}
			return err == nil || !p.alive()
		})
		x.submit(n)
	}
	x.pause(50*time.Millisecond + rand.N(350*time.Millisecond))
	if !p.alive() {
		x.Fatalf("kill %d: the daemon had ended by itself", n)
	}
	p.kill()
}

// rest waits until every task is at its end, as the files say. On a machine that others fill, the operator lets tasks go.
func (x *torture) rest() {
	patient := time.Now().Add(patience / 2)
	for open := x.open(); open > 0; { // as long as it goes on, it may take its time
		last := open
		x.until(fmt.Sprintf("one more of %d open tasks has come to its end", open), func() bool {
			if time.Now().After(patient) {
				x.letAllGo()
			}
			open = x.open()
			return open < last
		})
	}
	x.until("steward sees no open task", func() bool {
		p, err := x.status()
		open := 0
		for _, task := range p.Tasks {
			if s := x.scripts[task.Project+"/"+task.ID]; task.State != s.state {
				open++
			}
		}
		return err == nil && open == 0
	})
}

// open counts the tasks that have not come to their end.
func (x *torture) open() (n int) {
	for key, s := range x.scripts {
		project, id, _ := strings.Cut(key, "/")
		if !x.over(project, id, s) {
			n++
		}
	}
	return n
}

// letAllGo is the operator's hand for everything that is held.
func (x *torture) letAllGo() {
	for key := range x.scripts {
		project, id, _ := strings.Cut(key, "/")
		if there(x.task(project, id, ".request.json.held")) {
			_ = x.command("steward", "release", project+":task/"+id).Run()
		}
	}
}

// over reports whether a task's files are as its script ends.
func (x *torture) over(project, id string, s script) bool {
	return reads(x.task(project, id, ".result.json"), `"status": "`+s.final+`"`) && there(x.task(project, id, ".request.json")) &&
		!there(x.task(project, id, ".request.json.held")) && !there(x.task(project, id, ".deferred.json")) &&
		there(x.attempts(project, fmt.Sprintf("%s.%d.result.json", id, s.runs-1))) == (s.runs > 1) &&
		there(x.attempts(project, id+".dead.json")) == (s.state == "dead")
}

// judge holds what lies on disk against what was promised.
func (x *torture) judge() {
	runs := map[string]int{}
	for _, project := range x.projects {
		data, _ := os.ReadFile(x.at(project, "runs.log"))
		for line := range strings.Lines(string(data)) {
			id, _, _ := strings.Cut(line, " ")
			runs[project+"/"+id]++
			x.verdict.runs++
		}
		if !reads(x.at(project, "tmp/agent_status/shared/agent_registry.json"), regexp.QuoteMeta(brand)) {
			x.Errorf("%s: a foreign key of the registry is gone or was rewritten", project)
		}
		left, _ := filepath.Glob(x.at(project, "tmp/agent_status/codex_tasks/*"))
		for _, file := range left {
			if strings.HasSuffix(file, ".held") || strings.HasSuffix(file, ".deferred.json") {
				x.Errorf("left behind: %s", file)
			}
		}
		x.judgeLog(project)
	}
	for key, s := range x.scripts {
		project, id, _ := strings.Cut(key, "/")
		x.judgeTask(project, id, s, runs[key])
	}
	x.judgeIncidents()
}

func (x *torture) judgeTask(project, id string, s script, runs int) {
	if !reads(x.task(project, id, ".result.json"), `"status": "`+s.final+`"`) || !there(x.task(project, id, ".request.json")) {
		x.verdict.lost++
		x.Errorf("%s/%s: lost: its request is there: %v; its result should be %s", project, id, there(x.task(project, id, ".request.json")), s.final)
	}
	if dead := there(x.attempts(project, id+".dead.json")); dead != (s.state == "dead") {
		x.Errorf("%s/%s: dead letter: %v, want %v", project, id, dead, !dead)
	}
	twice := false
	taken, _ := filepath.Glob(x.attempts(project, id+".*.sched.json"))
	for _, file := range taken {
		twice = twice || reads(file, `"may_have_run_twice": *true`)
	}
	if runs > s.runs && !twice || runs > s.runs+1 {
		x.verdict.over++
		x.Errorf("%s/%s: ran %d times, the rules allow %d", project, id, runs, s.runs)
	}
	if runs < s.runs {
		x.Errorf("%s/%s: ran %d times, its script has %d", project, id, runs, s.runs)
	}
	if !twice && len(taken) != s.runs-1 {
		x.Errorf("%s/%s: issued again %d times, want %d", project, id, len(taken), s.runs-1)
	}
}

// once lists the life events that a task has once.
var once = []string{"task_created", "task_started", "task_completed", "task_failed", "task_dead"}

func (x *torture) judgeLog(project string) {
	data, _ := os.ReadFile(x.at(project, "tmp/agent_status/shared/coordination_log.jsonl"))
	count := map[string]int{}
	for line := range bytes.Lines(data) {
		var l struct {
			Event string `json:"event_type"`
			Task  string `json:"task_id"`
		}
		if err := json.Unmarshal(line, &l); err != nil {
			x.Errorf("%s: torn log line: %q", project, line)
		}
		count[l.Event+" "+l.Task]++
		if l.Event == "task_deferred" {
			x.verdict.held++
		}
	}
	for _, event := range once {
		for n := range x.verdict.kills {
			if c := count[event+" "+taskID(n)]; c > 1 {
				x.Errorf("%s: %d lines %s for %s", project, c, event, taskID(n))
			}
		}
	}
}

// judgeIncidents checks that each failure called once, twice at most, and nothing else did.
func (x *torture) judgeIncidents() {
	files, _ := filepath.Glob(filepath.Join(x.state, "incidents", "*.json"))
	calls := map[string]int{}
	for _, file := range files {
		data, _ := os.ReadFile(file)
		var i escalate.Incident
		if err := json.Unmarshal(data, &i); err != nil {
			x.Errorf("incident %s: %v", file, err)
			continue
		}
		_, id, _ := strings.Cut(i.About, ":")
		calls[i.Project+"/"+strings.TrimPrefix(id, "task/")] += i.Count
		x.verdict.repeated += i.Count - 1
		if i.Count > 2 {
			x.Errorf("incident %s (%s) was raised %d times", i.Key, i.Summary, i.Count)
		}
	}
	for key, s := range x.scripts {
		if (calls[key] > 0) != (s.final == "failed") {
			x.Errorf("%s should end %s; its incidents count %d", key, s.final, calls[key])
		}
	}
}
