package rig

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

// Rig runs the real program in its own home: a state folder, a socket, a configuration, a working folder.
type Rig struct {
	testing.TB
	Dir, State, Socket string
	Env                []string
	Program            string   // the steward binary that its commands run
	Logs               *os.File // the output of its daemons
}

// New creates a home. It uses the programs that TestMain puts into PATH.
func New(t testing.TB, config string) *Rig {
	t.Helper()
	run, err := os.MkdirTemp("", "st") // t.TempDir is too long for a socket path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(run) })
	r := &Rig{TB: t, Dir: t.TempDir(), Socket: filepath.Join(run, "s.sock")}
	r.State = filepath.Join(r.Dir, "state")
	r.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(r.Dir, "home"), "STEWARD_STATE_DIR=" + r.State,
		"STEWARD_SOCKET=" + r.Socket, "STEWARD_CONFIG=" + filepath.Join(r.Dir, "config.toml"),
		"GORACE=atexit_sleep_ms=0"} // otherwise every command of a -race build takes a second to exit
	if r.Program, err = exec.LookPath("steward"); err != nil {
		t.Fatal(err)
	}
	r.Write("config.toml", config)
	if r.Logs, err = os.Create(filepath.Join(r.Dir, "steward.log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.tail)
	return r
}

// tail prints the end of the daemons' log if the test failed.
func (r *Rig) tail() {
	r.Logs.Close()
	if !r.Failed() {
		return
	}
	data, _ := os.ReadFile(r.Logs.Name())
	r.Logf("the end of the daemons' log:\n%s", data[max(0, len(data)-6000):])
}

// At returns a path in the working folder.
func (r *Rig) At(elem ...string) string { return filepath.Join(append([]string{r.Dir}, elem...)...) }

// Task is the path of one of a task's files.
func (r *Rig) Task(project, id, ext string) string {
	return r.At(project, "tmp/agent_status/codex_tasks", "task_"+id+ext)
}

// Attempts is a path in steward's ledger of a project.
func (r *Rig) Attempts(project, name string) string {
	return r.At(project, "tmp/agent_status/steward/attempts", name)
}

func (r *Rig) Write(name, text string) {
	r.Helper()
	if err := os.WriteFile(r.At(name), []byte(text), 0o644); err != nil {
		r.Fatal(err)
	}
}

// Put writes a document to a temporary file and renames it into place.
func (r *Rig) Put(file string, d Doc) {
	r.Helper()
	data, _ := json.MarshalIndent(d, "", "  ")
	if err := errors.Join(os.WriteFile(file+".new", data, 0o644), os.Rename(file+".new", file)); err != nil {
		r.Fatal(err)
	}
}

func (r *Rig) Command(name string, args ...string) *exec.Cmd {
	if name == "steward" {
		name = r.Program
	}
	c := exec.Command(name, args...)
	c.Dir, c.Env = r.Dir, r.Env
	return c
}

// Steward runs an operator command, which must succeed.
func (r *Rig) Steward(args ...string) string {
	r.Helper()
	var errs bytes.Buffer
	c := r.Command("steward", args...)
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		r.Fatalf("steward %s: %v\n%s%s", strings.Join(args, " "), err, out, &errs)
	}
	return string(out)
}

// Boot sets up protocol 000 in a project.
func (r *Rig) Boot(project string) {
	r.Helper()
	if err := os.MkdirAll(r.At(project), 0o755); err != nil {
		r.Fatal(err)
	}
	// As in the document's boot scripts, the registered pid belongs to a shell that exits at once.
	c := r.Command("/bin/sh", "-c", `"$1" boot livhana-layer1.1 --project "$0" && "$1" boot codex-cursor --project "$0" && exit 0`, project, r.Program)
	if out, err := c.CombinedOutput(); err != nil {
		r.Fatalf("boot: %v\n%s", err, out)
	}
}

// Child is a process started by the test.
type Child struct {
	*exec.Cmd
	Ended chan struct{}
}

// Spawn starts a process, and kills it by pid when the test ends, whatever its result.
func (r *Rig) Spawn(c *exec.Cmd) *Child {
	r.Helper()
	if c.Stderr == nil {
		c.Stdout, c.Stderr = r.Logs, r.Logs
	}
	if err := c.Start(); err != nil {
		r.Fatal(err)
	}
	p := &Child{Cmd: c, Ended: make(chan struct{})}
	go func() { _ = c.Wait(); close(p.Ended) }()
	r.Cleanup(p.Kill)
	return p
}

func (p *Child) Kill() {
	_ = p.Process.Kill()
	<-p.Ended
}

func (p *Child) Alive() bool { return p.Process.Signal(syscall.Signal(0)) == nil }

// Run starts a daemon for the projects; start also waits until it answers.
func (r *Rig) Run(projects ...string) *Child {
	r.Helper()
	args := []string{"run"}
	for _, p := range projects {
		args = append(args, "--project", p)
	}
	return r.Spawn(r.Command("steward", args...))
}

func (r *Rig) Start(projects ...string) *Child {
	r.Helper()
	p := r.Run(projects...)
	r.Until("the daemon answers", func() bool { return !p.Alive() || r.Answers() })
	if !p.Alive() {
		r.Fatal("the daemon ended at once")
	}
	return p
}

func (r *Rig) Answers() bool {
	conn, err := net.Dial("unix", r.Socket)
	if err == nil {
		conn.Close()
		_, err = r.Status()
	}
	return err == nil
}

// StatusPage holds the fields of `steward status -o json` that these tests read.
type StatusPage struct {
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
	Raw       string
}

func (r *Rig) Status() (StatusPage, error) {
	var p StatusPage
	out, err := r.Command("steward", "status", "-o", "json").Output()
	if err == nil {
		err = json.Unmarshal(out, &p)
	}
	p.Raw = string(out)
	return p, err
}

// Shows waits until the status page shows all the given texts.
func (r *Rig) Shows(words ...string) {
	r.Helper()
	r.Until(fmt.Sprintf("status says %q", words), func() bool {
		p, err := r.Status()
		for _, w := range words {
			err = errors.Join(err, Found(p.Raw, w))
		}
		return err == nil
	})
}

func Found(text, pattern string) error {
	if !regexp.MustCompile("(?s)" + pattern).MatchString(text) {
		return errors.New("it does not say " + pattern)
	}
	return nil
}

// State is a task's state on the status page.
func (p StatusPage) State(project, id string) string {
	for _, t := range p.Tasks {
		if t.Project == project && t.ID == id {
			return t.State
		}
	}
	return ""
}

// Until polls; the deadline is a watchdog, not a performance limit.
func (r *Rig) Until(what string, ok func() bool) {
	r.Helper()
	deadline := time.After(Patience)
	for !ok() {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-deadline:
			p, _ := r.Status()
			r.Fatalf("never came: %s\n%s", what, p.Raw)
		}
	}
}

// Pause waits for a time that the test requires.
func (r *Rig) Pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.Context().Done():
	}
}

func There(file string) bool { _, err := os.Lstat(file); return err == nil }

// Reads reports whether the file's text matches.
func Reads(file, pattern string) bool {
	data, err := os.ReadFile(file)
	return err == nil && Found(string(data), pattern) == nil
}

// RequestOf returns a task's request that is held while more than the given share of the machine is in use.
func RequestOf(id string, throttle float64, outcomes ...string) Doc {
	return Doc{"task_id": id, "request_type": "execute", "priority": "medium", "source_agent": "livhana-layer1.1", "target_agent": Codex,
		"created_at": Stamp(), "timeout_seconds": 300, "throttle_capacity": throttle,
		"context":      Doc{"jesse_directive": "Ship it", "session_id": "9b2fca2e-2c5c-4a0e-8c52-1f0f8f6d3a10", "voice_mode_active": true, "related_tasks": []string{}},
		"payload":      Doc{"task_type": "execute", "parameters": Doc{"work": "20ms", "outcomes": outcomes, "for": id}, "files_to_modify": []string{}, "files_to_read": []string{}, "expected_artifacts": []string{}},
		"coordination": Doc{"blocking": false, "progress_updates_required": false, "update_interval_seconds": 30}}
}

// TaskID numbers the tasks with valid UUIDs.
func TaskID(n int) string { return fmt.Sprintf("%08x-0000-4000-8000-000000000000", n) }

// Long chooses between the short form of a test and the form for bench/long.sh.
func Long(short, full int) int {
	if os.Getenv("STEWARD_LONG") == "1" {
		return full
	}
	return short
}

const Patience = 30 * time.Second

// Outcome writes a task's result by rename; with a full disk the bytes must be there already: see stage.
func (r *Rig) Outcome(project, id, outcome string) {
	r.Put(r.Task(project, id, ".result.json"), ResultOf(id, outcome))
}

// AskAgain writes the request of a task again: the next result is the first one of a new request.
func (r *Rig) AskAgain(project, id string, n int) {
	r.Helper()
	d := RequestOf(id, 1)
	d["created_at"] = time.Now().UTC().Format(time.RFC3339Nano)
	d["payload"].(Doc)["parameters"].(Doc)["again"] = n
	r.Put(r.Task(project, id, ".request.json"), d)
}

// Beats keeps a project's agent heartbeat with the given free capacity until the test ends or stop is called.
func (r *Rig) Beats(project string, free float64) (stop func()) {
	c := CodexClient{Dir: r.At(project), Manner: "naming", Free: free}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c.Beat()
			select {
			case <-end:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	done := false
	stop = func() {
		if !done {
			done = true
			close(end)
			<-ended
		}
	}
	r.Cleanup(stop)
	return stop
}
