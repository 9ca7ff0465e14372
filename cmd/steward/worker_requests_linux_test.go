//go:build linux

package main

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
)

// TestWorkerOddRequests lays every kind of request that is none beside a good one: the good one runs, and of the others
// nothing is executed, followed, or written anywhere else.
func TestWorkerOddRequests(t *testing.T) {
	t.Parallel()
	r := newRig(t, workerRules)
	r.boot("p")
	script := r.script("p", "run.sh", `echo "$1" >> runs`)
	good := taskID(1)
	text := func(id string, edit func(d doc)) string {
		d := executeOf(id, script, id)
		if edit != nil {
			edit(d)
		}
		data, _ := json.Marshal(d)
		return string(data)
	}
	lay := func(id, text string) {
		if err := os.WriteFile(r.task("p", id, ".request.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for id, text := range map[string]string{
		"odd-array":   `[` + text("odd-array", nil) + `]`,
		"odd-string":  `"run"`,
		"odd-empty":   "",
		"odd-half":    text("odd-half", nil)[:300],
		"odd-nul":     strings.Repeat("\x00", 512),
		"odd-huge":    text("odd-huge", func(d doc) { d["context"].(doc)["jesse_directive"] = strings.Repeat("x", 2<<20) }),
		"odd-deep":    strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000),
		"odd-twice":   strings.Replace(text("odd-twice", nil), `"script_path":`, `"script_path":"/bin/false","script_path":`, 1),
		"odd-payload": text("odd-payload", func(d doc) { d["payload"] = script }),
		"odd-params":  text("odd-params", func(d doc) { d["payload"].(doc)["parameters"] = []string{script} }),
		"odd-path":    text("odd-path", func(d doc) { with(d, "script_path", []string{script}) }),
		"odd-arg":     text("odd-arg", func(d doc) { with(d, "args", []any{"x", 7}) }),
		"odd-limit":   text("odd-limit", func(d doc) { with(d, "timeout_seconds", -1) }),
		"odd-type":    text("odd-type", func(d doc) { d["request_type"], d["payload"].(doc)["task_type"] = "destroy", "destroy" }),
		"odd-target":  text("odd-target", func(d doc) { d["target_agent"] = "somebody-else" }),
	} {
		lay(id, text)
	}
	r.write("outside.json", text("odd-link", nil))
	request := func(id string) string { return r.task("p", id, ".request.json") }
	err := errors.Join(os.Symlink(r.at("outside.json"), request("odd-link")), os.Symlink("nowhere.json", request("odd-dangling")),
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
	r.drain("p")
	r.ends("p", good, "completed")
	runs, _ := os.ReadFile(r.at("p/runs"))
	if strings.Contains(string(runs), "odd-") || !strings.Contains(string(runs), good) {
		t.Errorf("executed:\n%s", runs)
	}
	for _, id := range []string{"odd-payload", "odd-params", "odd-path", "odd-arg", "odd-limit", "odd-type"} {
		if p := r.read("p", id); p.Status != "failed" || p.code() != "INVALID_REQUEST" || p.Result.Summary == "" {
			t.Errorf("%s ended %+v", id, p)
		}
	}
	r.nowhereElse()
}

// nowhereElse checks that nothing was made out of the folders of the protocol, and nothing by a shell.
func (r *rig) nowhereElse() {
	r.Helper()
	tasks := filepath.Dir(r.task("p", "x", ".request.json"))
	err := filepath.WalkDir(r.dir, func(file string, e fs.DirEntry, err error) error {
		name := e.Name()
		outside := !strings.HasPrefix(file, r.at("p/tmp/agent_status")+"/")
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
		meddle func(r *rig, id string)
		kills  bool   // the script is stopped by it; else it goes on to its end
		ends   string // its result, "" for none
	}{
		"the request is removed": {func(r *rig, id string) { r.must(os.Remove(r.task("p", id, ".request.json"))) }, false, ""},
		"the request is changed": {func(r *rig, id string) { r.ask("p", id, r.at("p/other.sh")) }, false, "completed"},
		"the request is emptied": {func(r *rig, id string) { r.must(os.Truncate(r.task("p", id, ".request.json"), 0)) }, false, "completed"},
		"the script is removed":  {func(r *rig, id string) { r.must(os.Remove(r.at("p/wait.sh"))) }, false, "completed"},
		"somebody else is quicker": {func(r *rig, id string) {
			r.put(r.task("p", id, ".result.json"), resultOf(id, "GIT_CONFLICT:fatal"))
		}, false, "failed GIT_CONFLICT"},
		"half a result is there": {func(r *rig, id string) {
			r.must(os.WriteFile(r.task("p", id, ".result.json"), []byte(`{"task_id": "`), 0o644))
		}, false, "?"},
		"it is cancelled": {func(r *rig, id string) { r.steward("task", "cancel", id, "--project", "p", "--why", "not needed") }, true, "failed CANCELLED"},
		"it is cancelled through the daemon": {func(r *rig, id string) {
			r.start("p")
			r.shows(id)
			r.steward("cancel", id)
		}, true, "failed CANCELLED"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, workerRules)
			r.boot("p")
			id := taskID(1)
			r.script("p", "other.sh", "touch other-ran")
			r.ask("p", id, r.script("p", "wait.sh", "echo $$ >> pid; while ! [ -e go ]; do sleep 0.05; done; echo over"))
			p := r.spawn(r.worker("p"))
			r.slowly("the script runs", func() bool { return r.pidIn("p", "pid") > 0 })
			pid := r.pidIn("p", "pid")
			c.meddle(r, id)
			if !c.kills {
				r.pause(time.Second)
				if !lives(pid) {
					t.Error("the script was stopped")
				}
				r.write("p/go", "")
			}
			r.slowly("the script is over", func() bool { return !lives(pid) })
			next := taskID(2)
			r.ask("p", next, r.script("p", "next.sh", "true"))
			r.slowly("the next task ends", func() bool { return r.read("p", next).Status == "completed" })
			if c.ends != "?" {
				r.ends("p", id, c.ends)
			}
			if n := len(r.lines("p", "pid")); n != 1 || !p.alive() || there(r.at("p/other-ran")) {
				t.Errorf("it ran %d times; the worker lives: %v; the other script ran: %v", n, p.alive(), there(r.at("p/other-ran")))
			}
			r.idles()
		})
	}
}

// idles waits until the worker has nothing in hand, and says so everywhere.
func (r *rig) idles() {
	r.Helper()
	last := ""
	r.Cleanup(func() {
		if r.Failed() {
			r.Log("in its hands: ", last)
		}
	})
	r.until("it has nothing in hand", func() bool {
		left, _ := filepath.Glob(r.at("p/tmp/agent_status/steward/claims/*.json"))
		beat, _ := os.ReadFile(r.at("p/tmp/agent_status/codex_status/heartbeat.json"))
		current, _ := os.ReadFile(r.at("p/tmp/agent_status/codex_status/current_task.json"))
		last = fmt.Sprintf("%q\n%s\n%s", left, beat, current)
		return len(left) == 0 && found(string(beat), `"active_tasks": *\[\]`) == nil && found(string(current), `"task_id": *null`) == nil
	})
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// TestWorkerFolderGoesAndComes: the protocol's folder goes away under a worker, and comes back.
func TestWorkerFolderGoesAndComes(t *testing.T) {
	t.Parallel()
	r := newRig(t, workerRules)
	r.boot("p")
	script := r.script("p", "run.sh", "true")
	p := r.spawn(r.worker("p"))
	for n := range 2 {
		id := taskID(n + 1)
		r.ask("p", id, script)
		r.slowly("a task ends", func() bool { return r.read("p", id).Status == "completed" })
		for os.RemoveAll(r.at("p/tmp")) != nil { // the worker put something into it meanwhile
		}
		r.pause(time.Second)
		r.boot("p")
	}
	r.ask("p", taskID(9), script)
	r.slowly("the last task ends", func() bool { return r.read("p", taskID(9)).Status == "completed" })
	if !p.alive() {
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
			id := taskID(1)
			m.ask("p", id, m.rig.script("p", "deaf.sh", `exec 9> lock
flock -n 9 || echo "twice at the same time" >> overlaps
echo "$1" >> begun
if [ "$(wc -l < begun)" = 1 ]; then
  setsid sh -c 'trap "" TERM; echo $$ > pid; while :; do sleep 1; done'
fi`), id)
			if daemon {
				m.start("p")
			}
			w := m.spawn(m.worker("p"))
			m.slowly("the script runs", func() bool { return m.pidIn("p", "pid") > 0 && m.shim(id) > 0 })
			pid, shim := m.pidIn("p", "pid"), m.shim(id)
			_ = w.Process.Signal(syscall.SIGSTOP) // so that it notices nothing between the two
			_ = syscall.Kill(shim, syscall.SIGKILL)
			w.kill()
			m.hire(1)
			m.slowly("the task ends", func() bool {
				status := m.read("p", id).Status
				return status == "completed" || status != "" && !daemon
			})
			if daemon {
				m.ends("p", id, "completed")
			} else {
				m.ends("p", id, "failed AGENT_LOST")
			}
			if there(m.at("p/overlaps")) || lives(pid) {
				t.Errorf("ran twice at the same time: %v; what was left of the first run lives: %v", there(m.at("p/overlaps")), lives(pid))
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
	data, err := os.ReadFile(m.at("p/tmp/agent_status/steward/claims", id+".json"))
	if err != nil || json.Unmarshal(data, &k) != nil {
		return 0
	}
	return k.Runner.PID
}
