//go:build linux

package torture

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/test/rig"
)

// workerRules let nothing but a task's own agent hold it back, so that what else the machine does decides nothing here.
const workerRules = `
[supervisor]
look_every = "1s"
[escalate]
channels = []
[capacity]
dimensions = ["agent"]
[tasks]
judge = "30s"
retries_per_hour = 100000
max_attempts = 100
[worker]
poll = "500ms"
stop = "2s"
[[retry]]
code = "AGENT_LOST"
action = "retry"
attempts = 90
delay = "1s"
then = "dead"
`

// workPatience is for one piece of work on a machine that others fill too.
const workPatience = 90 * time.Second

// writeScript writes a shell script into a project, and gives its absolute path.
func writeScript(r *rig.Rig, project, name, body string) string {
	r.Helper()
	file := r.At(project, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte("#!/bin/sh\n"+body+"\n"), 0o755)); err != nil {
		r.Fatal(err)
	}
	return file
}

// executeOf is a request to run a script with these arguments.
func executeOf(id, script string, args ...string) rig.Doc {
	d := rig.RequestOf(id, 1)
	d["payload"].(rig.Doc)["parameters"] = rig.Doc{"script_path": script, "args": append([]string{}, args...)}
	return d
}

// askTask puts such a request in its place.
func askTask(r *rig.Rig, project, id, script string, args ...string) {
	r.Helper()
	r.Put(r.Task(project, id, ".request.json"), executeOf(id, script, args...))
}

// with sets a parameter of a request.
func with(d rig.Doc, key string, v any) rig.Doc {
	d["payload"].(rig.Doc)["parameters"].(rig.Doc)[key] = v
	return d
}

// resultPage is what these tests read of a result.
type resultPage struct {
	TaskID string `json:"task_id"`
	Status string
	Source string `json:"source_agent"`
	Result struct {
		Success        bool
		Summary        string
		Stdout, Stderr string
		Output         string
		Metrics        map[string]any
	}
	Errors []struct {
		Code, Message, Severity, File string
	}
}

// code is the first error's.
func (p resultPage) code() string {
	if len(p.Errors) == 0 {
		return ""
	}
	return p.Errors[0].Code
}

// readResult gives a task's result; a task without one has no status.
func readResult(r *rig.Rig, project, id string) (p resultPage) {
	r.Helper()
	data, err := os.ReadFile(r.Task(project, id, ".result.json"))
	if err == nil {
		err = json.Unmarshal(data, &p)
	}
	if err != nil && !os.IsNotExist(err) {
		r.Errorf("the result of %s: %v", id, err)
	}
	return p
}

// endsAs holds a task's result against what it should be: a status, with the code of an error.
func endsAs(r *rig.Rig, project, id, want string) resultPage {
	r.Helper()
	p := readResult(r, project, id)
	if got := strings.TrimSpace(p.Status + " " + p.code()); got != want {
		r.Errorf("task %s ended %q, want %q: %+v", id, got, want, p)
	}
	return p
}

// workerCommand is the command of a worker for a project.
func workerCommand(r *rig.Rig, project string, args ...string) *exec.Cmd {
	return r.Command("steward", append([]string{"worker", "--agent", rig.Codex, "--project", project}, args...)...)
}

// drain runs a worker until no task is left, and gives what it said and the most memory it had, in bytes.
func drain(r *rig.Rig, project string, env ...string) (said string, most uint64) {
	r.Helper()
	var out bytes.Buffer
	c := workerCommand(r, project, "--drain")
	c.Env = append(c.Env, env...)
	c.Stdout, c.Stderr = &out, &out
	p := r.Spawn(c)
	for deadline := time.Now().Add(workPatience); p.Alive(); r.Pause(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.Kill()
			r.Fatalf("the worker did not come to its end:\n%s", &out)
		}
		most = max(most, peakMemory(p))
	}
	<-p.Ended
	if code := c.ProcessState.ExitCode(); code != 0 {
		r.Errorf("the worker ended with %d:\n%s", code, &out)
	}
	return out.String(), most
}

// peakMemory is the most memory that the process has had so far, in bytes. Its rusage would not do: that one starts with
// the memory of the test, which the process shares until it executes its program.
func peakMemory(p *rig.Child) uint64 {
	data, _ := os.ReadFile("/proc/" + strconv.Itoa(p.Process.Pid) + "/status")
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, _ := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10
		}
	}
	return 0
}

// slowly is until with the patience that work needs.
func slowly(r *rig.Rig, what string, ok func() bool) {
	r.Helper()
	for deadline := time.Now().Add(workPatience); !ok(); r.Pause(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			p, _ := r.Status()
			r.Fatalf("never came: %s\n%s", what, p.Raw)
		}
	}
}

// pidIn is the process that a script wrote into a file of the project; 0 while there is none.
func pidIn(r *rig.Rig, project, name string) int {
	data, _ := os.ReadFile(r.At(project, name))
	pid, _ := strconv.Atoi(strings.TrimSpace(string(data)))
	return pid
}

// lives reports whether a process runs. A zombie does not.
func lives(pid int) bool {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if pid == 0 || err != nil {
		return false
	}
	state := bytes.TrimSpace(data[bytes.LastIndexByte(data, ')')+1:])
	return len(state) > 0 && state[0] != 'Z' && state[0] != 'X'
}

// linesOf are the lines of a file of the project.
func linesOf(r *rig.Rig, project, name string) []string {
	data, _ := os.ReadFile(r.At(project, name))
	return strings.Fields(string(data))
}

// output runs a command and gives its standard output and exit code.
func output(t testing.TB, c *exec.Cmd) (string, int) {
	t.Helper()
	var errs bytes.Buffer
	c.Stderr = &errs
	out, err := c.Output()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	if code := c.ProcessState.ExitCode(); code != 0 {
		t.Logf("%s: exit %d: %s", strings.Join(c.Args, " "), code, &errs)
	}
	return string(out), c.ProcessState.ExitCode()
}
