package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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

// rig runs the real program in its own home: a state folder, a socket, a configuration, a working folder.
type rig struct {
	testing.TB
	dir, state, socket string
	env                []string
	program            string   // the steward binary that its commands run
	logs               *os.File // the output of its daemons
}

// newRig creates a home. It uses the programs that TestMain puts into PATH.
func newRig(t testing.TB, config string) *rig {
	t.Helper()
	run, err := os.MkdirTemp("", "st") // t.TempDir is too long for a socket path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(run) })
	r := &rig{TB: t, dir: t.TempDir(), socket: filepath.Join(run, "s.sock")}
	r.state = filepath.Join(r.dir, "state")
	r.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(r.dir, "home"), "STEWARD_STATE_DIR=" + r.state,
		"STEWARD_SOCKET=" + r.socket, "STEWARD_CONFIG=" + filepath.Join(r.dir, "config.toml"),
		"GORACE=atexit_sleep_ms=0"} // otherwise every command of a -race build takes a second to exit
	if r.program, err = exec.LookPath("steward"); err != nil {
		t.Fatal(err)
	}
	r.write("config.toml", config)
	if r.logs, err = os.Create(filepath.Join(r.dir, "steward.log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.tail)
	return r
}

// tail prints the end of the daemons' log if the test failed.
func (r *rig) tail() {
	r.logs.Close()
	if !r.Failed() {
		return
	}
	data, _ := os.ReadFile(r.logs.Name())
	r.Logf("the end of the daemons' log:\n%s", data[max(0, len(data)-6000):])
}

// at returns a path in the working folder.
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

// put writes a document to a temporary file and renames it into place.
func (r *rig) put(file string, d doc) {
	r.Helper()
	data, _ := json.MarshalIndent(d, "", "  ")
	if err := errors.Join(os.WriteFile(file+".new", data, 0o644), os.Rename(file+".new", file)); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) command(name string, args ...string) *exec.Cmd {
	if name == "steward" {
		name = r.program
	}
	c := exec.Command(name, args...)
	c.Dir, c.Env = r.dir, r.env
	return c
}

// steward runs an operator command, which must succeed.
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
	// As in the document's boot scripts, the registered pid belongs to a shell that exits at once.
	c := r.command("/bin/sh", "-c", `"$1" boot livhana-layer1.1 --project "$0" && "$1" boot codex-cursor --project "$0" && exit 0`, project, r.program)
	if out, err := c.CombinedOutput(); err != nil {
		r.Fatalf("boot: %v\n%s", err, out)
	}
}

// child is a process started by the test.
type child struct {
	*exec.Cmd
	ended chan struct{}
}

// spawn starts a process, and kills it by pid when the test ends, whatever its result.
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

// statusPage holds the fields of `steward status -o json` that these tests read.
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

// shows waits until the status page shows all the given texts.
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

// state is a task's state on the status page.
func (p statusPage) state(project, id string) string {
	for _, t := range p.Tasks {
		if t.Project == project && t.ID == id {
			return t.State
		}
	}
	return ""
}

// until polls; the deadline is a watchdog, not a performance limit.
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

// pause waits for a time that the test requires.
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

// request is a task's request that is held for lack of room from the given used share on.
func requestOf(id string, throttle float64, outcomes ...string) doc {
	return doc{"task_id": id, "request_type": "execute", "priority": "medium", "source_agent": "livhana-layer1.1", "target_agent": "codex-cursor",
		"created_at": stamp(), "timeout_seconds": 300, "throttle_capacity": throttle,
		"context":      doc{"jesse_directive": "Ship it", "session_id": "9b2fca2e-2c5c-4a0e-8c52-1f0f8f6d3a10", "voice_mode_active": true, "related_tasks": []string{}},
		"payload":      doc{"task_type": "execute", "parameters": doc{"work": "20ms", "outcomes": outcomes, "for": id}, "files_to_modify": []string{}, "files_to_read": []string{}, "expected_artifacts": []string{}},
		"coordination": doc{"blocking": false, "progress_updates_required": false, "update_interval_seconds": 30}}
}

// taskID numbers the tasks with valid UUIDs.
func taskID(n int) string { return fmt.Sprintf("%08x-0000-4000-8000-000000000000", n) }

// long chooses between the short form of a test and the form for bench/long.sh.
func long(short, full int) int {
	if os.Getenv("STEWARD_LONG") == "1" {
		return full
	}
	return short
}
