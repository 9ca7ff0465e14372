//go:build linux

package torture

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/livhana/steward/test/rig"
)

// TestWorkerOddRequests lays every kind of request that is none beside a good one: the good one runs, and of the others
// nothing is executed, followed, or written anywhere else.
func TestWorkerOddRequests(t *testing.T) {
	t.Parallel()
	r := rig.New(t, workerRules)
	r.Boot("p")
	script := writeScript(r, "p", "run.sh", `echo "$1" >> runs`)
	good := rig.TaskID(1)
	text := func(id string, edit func(d rig.Doc)) string {
		d := executeOf(id, script, id)
		if edit != nil {
			edit(d)
		}
		data, _ := json.Marshal(d)
		return string(data)
	}
	lay := func(id, text string) {
		if err := os.WriteFile(r.Task("p", id, ".request.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for id, text := range map[string]string{
		"odd-array":   `[` + text("odd-array", nil) + `]`,
		"odd-string":  `"run"`,
		"odd-empty":   "",
		"odd-half":    text("odd-half", nil)[:300],
		"odd-nul":     strings.Repeat("\x00", 512),
		"odd-huge":    text("odd-huge", func(d rig.Doc) { d["context"].(rig.Doc)["jesse_directive"] = strings.Repeat("x", 2<<20) }),
		"odd-deep":    strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000),
		"odd-twice":   strings.Replace(text("odd-twice", nil), `"script_path":`, `"script_path":"/bin/false","script_path":`, 1),
		"odd-payload": text("odd-payload", func(d rig.Doc) { d["payload"] = script }),
		"odd-params":  text("odd-params", func(d rig.Doc) { d["payload"].(rig.Doc)["parameters"] = []string{script} }),
		"odd-path":    text("odd-path", func(d rig.Doc) { with(d, "script_path", []string{script}) }),
		"odd-arg":     text("odd-arg", func(d rig.Doc) { with(d, "args", []any{"x", 7}) }),
		"odd-limit":   text("odd-limit", func(d rig.Doc) { with(d, "timeout_seconds", -1) }),
		"odd-type":    text("odd-type", func(d rig.Doc) { d["request_type"], d["payload"].(rig.Doc)["task_type"] = "destroy", "destroy" }),
		"odd-target":  text("odd-target", func(d rig.Doc) { d["target_agent"] = "somebody-else" }),
	} {
		lay(id, text)
	}
	r.Write("outside.json", text("odd-link", nil))
	request := func(id string) string { return r.Task("p", id, ".request.json") }
	err := errors.Join(os.Symlink(r.At("outside.json"), request("odd-link")), os.Symlink("nowhere.json", request("odd-dangling")),
		syscall.Mkfifo(request("odd-fifo"), 0o644), os.Mkdir(request("odd-folder"), 0o755))
	if err != nil {
		t.Fatal(err)
	}
	_ = syscall.Mknod(request("odd-device"), syscall.S_IFCHR|0o644, 1<<8|5) // what /dev/zero is; only root can
	// Ids that are no names of files, in the file's name and in the document.
	for n, id := range []string{"..", ".", ".hidden", "-rf", "a b", "a;touch owned", "$(touch owned)", "a\nb", "a\x1b[31mb", "ä", strings.Repeat("x", 200)} {
		lay(id, strings.ReplaceAll(text(fmt.Sprintf("named-%d", n), nil), "named-", "evil-"))
	}
	for n, id := range []string{"../../../../evil", "/tmp/evil", "..", "evil/../../evil", "evil\x00"} {
		data, _ := json.Marshal(id)
		lay(fmt.Sprintf("meant-%d", n), strings.Replace(text("meant", nil), `"task_id":"meant"`, `"task_id":`+string(data), 1))
	}
	lay(good, text(good, nil))
	drain(r, "p")
	endsAs(r, "p", good, "completed")
	runs, _ := os.ReadFile(r.At("p/runs"))
	if strings.Contains(string(runs), "odd-") || !strings.Contains(string(runs), good) {
		t.Errorf("executed:\n%s", runs)
	}
	for _, id := range []string{"odd-payload", "odd-params", "odd-path", "odd-arg", "odd-limit", "odd-type"} {
		if p := readResult(r, "p", id); p.Status != "failed" || p.code() != "INVALID_REQUEST" || p.Result.Summary == "" {
			t.Errorf("%s ended %+v", id, p)
		}
	}
	nowhereElse(r)
}

// nowhereElse checks that nothing was made out of the folders of the protocol, and nothing by a shell.
func nowhereElse(r *rig.Rig) {
	r.Helper()
	tasks := filepath.Dir(r.Task("p", "x", ".request.json"))
	err := filepath.WalkDir(r.Dir, func(file string, e fs.DirEntry, err error) error {
		name := e.Name()
		outside := !strings.HasPrefix(file, r.At("p/tmp/agent_status")+"/")
		if name == "owned" || outside && (strings.Contains(name, "evil") || strings.HasSuffix(name, ".result.json")) {
			r.Errorf("%s is there", file)
		}
		if dir := filepath.Dir(file); strings.HasSuffix(name, ".result.json") && dir != tasks && !strings.HasSuffix(dir, "steward/attempts") {
			r.Errorf("a result lies in %s", file)
		}
		return err
	})
	if err != nil {
		r.Error(err)
	}
	if found, _ := filepath.Glob("/tmp/*evil*"); len(found) > 0 {
		r.Errorf("in the folder for temporary files: %q", found)
	}
}

// TestWorkerMeanwhile: something happens to a task while its script runs.
func TestWorkerMeanwhile(t *testing.T) {
	for name, c := range map[string]struct {
		meddle func(r *rig.Rig, id string)
		kills  bool   // the script is stopped by it; else it goes on to its end
		ends   string // its result, "" for none
	}{
		"the request is removed": {func(r *rig.Rig, id string) { check(r, os.Remove(r.Task("p", id, ".request.json"))) }, false, ""},
		"the request is changed": {func(r *rig.Rig, id string) { askTask(r, "p", id, r.At("p/other.sh")) }, false, "completed"},
		"the request is emptied": {func(r *rig.Rig, id string) { check(r, os.Truncate(r.Task("p", id, ".request.json"), 0)) }, false, "completed"},
		"the script is removed":  {func(r *rig.Rig, id string) { check(r, os.Remove(r.At("p/wait.sh"))) }, false, "completed"},
		"somebody else is quicker": {func(r *rig.Rig, id string) {
			r.Put(r.Task("p", id, ".result.json"), rig.ResultOf(id, "GIT_CONFLICT:fatal"))
		}, false, "failed GIT_CONFLICT"},
		"half a result is there": {func(r *rig.Rig, id string) {
			check(r, os.WriteFile(r.Task("p", id, ".result.json"), []byte(`{"task_id": "`), 0o644))
		}, false, "?"},
		"it is cancelled": {func(r *rig.Rig, id string) { r.Steward("task", "cancel", id, "--project", "p", "--why", "not needed") }, true, "failed CANCELLED"},
		"it is cancelled through the daemon": {func(r *rig.Rig, id string) {
			r.Start("p")
			r.Shows(id)
			r.Steward("cancel", id)
		}, true, "failed CANCELLED"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, workerRules)
			r.Boot("p")
			id := rig.TaskID(1)
			writeScript(r, "p", "other.sh", "touch other-ran")
			askTask(r, "p", id, writeScript(r, "p", "wait.sh", "echo $$ >> pid; while ! [ -e go ]; do sleep 0.05; done; echo over"))
			p := r.Spawn(workerCommand(r, "p"))
			slowly(r, "the script runs", func() bool { return pidIn(r, "p", "pid") > 0 })
			pid := pidIn(r, "p", "pid")
			c.meddle(r, id)
			if !c.kills {
				r.Pause(time.Second)
				if !lives(pid) {
					t.Error("the script was stopped")
				}
				r.Write("p/go", "")
			}
			slowly(r, "the script is over", func() bool { return !lives(pid) })
			next := rig.TaskID(2)
			askTask(r, "p", next, writeScript(r, "p", "next.sh", "true"))
			slowly(r, "the next task ends", func() bool { return readResult(r, "p", next).Status == "completed" })
			if c.ends != "?" {
				endsAs(r, "p", id, c.ends)
			}
			if n := len(linesOf(r, "p", "pid")); n != 1 || !p.Alive() || rig.There(r.At("p/other-ran")) {
				t.Errorf("it ran %d times; the worker lives: %v; the other script ran: %v", n, p.Alive(), rig.There(r.At("p/other-ran")))
			}
			idles(r)
		})
	}
}

// idles waits until the worker has nothing in hand, and says so everywhere.
func idles(r *rig.Rig) {
	r.Helper()
	last := ""
	r.Cleanup(func() {
		if r.Failed() {
			r.Log("in its hands: ", last)
		}
	})
	r.Until("it has nothing in hand", func() bool {
		left, _ := filepath.Glob(r.At("p/tmp/agent_status/steward/claims/*.json"))
		beat, _ := os.ReadFile(r.At("p/tmp/agent_status/codex_status/heartbeat.json"))
		current, _ := os.ReadFile(r.At("p/tmp/agent_status/codex_status/current_task.json"))
		last = fmt.Sprintf("%q\n%s\n%s", left, beat, current)
		return len(left) == 0 && rig.Found(string(beat), `"active_tasks": *\[\]`) == nil && rig.Found(string(current), `"task_id": *null`) == nil
	})
}

func check(r *rig.Rig, err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// TestWorkerFolderGoesAndComes: the protocol's folder goes away under a worker, and comes back.
func TestWorkerFolderGoesAndComes(t *testing.T) {
	t.Parallel()
	r := rig.New(t, workerRules)
	r.Boot("p")
	script := writeScript(r, "p", "run.sh", "true")
	p := r.Spawn(workerCommand(r, "p"))
	for n := range 2 {
		id := rig.TaskID(n + 1)
		askTask(r, "p", id, script)
		slowly(r, "a task ends", func() bool { return readResult(r, "p", id).Status == "completed" })
		for os.RemoveAll(r.At("p/tmp")) != nil { // the worker put something into it meanwhile
		}
		r.Pause(time.Second)
		r.Boot("p")
	}
	askTask(r, "p", rig.TaskID(9), script)
	slowly(r, "the last task ends", func() bool { return readResult(r, "p", rig.TaskID(9)).Status == "completed" })
	if !p.Alive() {
		t.Error("the worker has ended")
	}
}

// TestWorkerKilledWithItsShim: the worker and the process that keeps its script are killed at once. What is left of the
// run is ended before the task runs again, or is concluded.
func TestWorkerKilledWithItsShim(t *testing.T) {
	for name, daemon := range map[string]bool{"with a daemon": true, "alone": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMill(t, workerRules)
			id := rig.TaskID(1)
			askTask(m.Rig, "p", id, writeScript(m.Rig, "p", "deaf.sh", `exec 9> lock
flock -n 9 || echo "twice at the same time" >> overlaps
echo "$1" >> begun
if [ "$(wc -l < begun)" = 1 ]; then
  setsid sh -c 'trap "" TERM; echo $$ > pid; while :; do sleep 1; done'
fi`), id)
			if daemon {
				m.Start("p")
			}
			w := m.Spawn(workerCommand(m.Rig, "p"))
			slowly(m.Rig, "the script runs", func() bool { return pidIn(m.Rig, "p", "pid") > 0 && m.shim(id) > 0 })
			pid, shim := pidIn(m.Rig, "p", "pid"), m.shim(id)
			_ = w.Process.Signal(syscall.SIGSTOP) // so that it notices nothing between the two
			_ = syscall.Kill(shim, syscall.SIGKILL)
			w.Kill()
			m.hire(1)
			slowly(m.Rig, "the task ends", func() bool {
				status := readResult(m.Rig, "p", id).Status
				return status == "completed" || status != "" && !daemon
			})
			if daemon {
				endsAs(m.Rig, "p", id, "completed")
			} else {
				endsAs(m.Rig, "p", id, "failed AGENT_LOST")
			}
			if rig.There(m.At("p/overlaps")) || lives(pid) {
				t.Errorf("ran twice at the same time: %v; what was left of the first run lives: %v", rig.There(m.At("p/overlaps")), lives(pid))
			}
			if lives(pid) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		})
	}
}

// shim is the process that keeps a task's script, as its claim names it.
func (m *mill) shim(id string) int {
	var k struct{ Runner struct{ PID int } }
	data, err := os.ReadFile(m.At("p/tmp/agent_status/steward/claims", id+".json"))
	if err != nil || json.Unmarshal(data, &k) != nil {
		return 0
	}
	return k.Runner.PID
}
