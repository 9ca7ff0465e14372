//go:build linux

package torture

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/livhana/steward/test/rig"
)

// submitTask asks for a script as an orchestrator does from its shell, and gives the task's id.
func submitTask(r *rig.Rig, script string, flags ...string) string {
	r.Helper()
	args := append([]string{"task", "submit", "execute", "--project", "p"}, flags...)
	return strings.TrimSpace(r.Steward(append(args, "--", script)...))
}

// TestWorkerChain: what comes after other tasks is seen when they are completed, not before, and not when they fail.
func TestWorkerChain(t *testing.T) {
	t.Parallel()
	r := rig.New(t, workerRules)
	r.Boot("p")
	r.Start("p")
	p := r.Spawn(workerCommand(r, "p"))
	first := writeScript(r, "p", "first.sh", "while ! [ -e go ]; do sleep 0.05; done; echo first >> runs")
	fails := writeScript(r, "p", "fails.sh", "while ! [ -e go ]; do sleep 0.05; done; echo fails >> runs; exit 7")
	then := writeScript(r, "p", "then.sh", "echo then >> runs")
	last := writeScript(r, "p", "last.sh", "echo last >> runs")
	a := submitTask(r, first)
	b := submitTask(r, then, "--after", a)
	c := submitTask(r, last, "--after", a, "--after", b)
	slowly(r, "the first runs", func() bool { return rig.Reads(r.At("p/tmp/agent_status/codex_status/current_task.json"), a) })
	bad := submitTask(r, fails)
	x := submitTask(r, writeScript(r, "p", "x.sh", "echo x >> runs"), "--after", bad)
	y := submitTask(r, writeScript(r, "p", "y.sh", "echo y >> runs"), "--after", bad)
	r.Shows(`"id": *"`+b+`"[^}]*waits for task `+a, `"id": *"`+x+`"[^}]*waits for task `+bad)
	for _, id := range []string{b, c, x, y} {
		if rig.There(r.Task("p", id, ".request.json")) || !rig.There(r.Task("p", id, ".request.json.held")) {
			t.Errorf("%s is seen before what it comes after is completed", id)
		}
	}
	r.Write("p/go", "")
	for _, id := range []string{a, b, c} {
		slowly(r, "the chain goes on to "+id, func() bool { return readResult(r, "p", id).Status == "completed" })
	}
	slowly(r, "the one that fails", func() bool { return readResult(r, "p", bad).Status == "failed" })
	// What was to follow it stays, with the reason, and waits for a human.
	r.Shows(`"id": *"`+x+`"[^}]*waits for task `+bad+`, which ended failed`, `"id": *"`+y+`"[^}]*waits for task `+bad+`, which ended failed`)
	r.Steward("cancel", x)
	slowly(r, "the one that is cancelled has its result", func() bool { return readResult(r, "p", x).Status != "" })
	endsAs(r, "p", x, "failed CANCELLED")
	r.Steward("release", y)
	slowly(r, "the one that is released runs", func() bool { return readResult(r, "p", y).Status == "completed" })
	idles(r)
	runs := strings.Join(linesOf(r, "p", "runs"), " ")
	if strings.Contains(runs, "x") || strings.Count(runs, "y") != 1 || strings.Count(runs, "fails") != 1 ||
		strings.Join(strings.Fields(strings.NewReplacer("fails", "", "y", "").Replace(runs)), " ") != "first then last" || !p.Alive() {
		t.Errorf("ran: %s; the worker lives: %v", runs, p.Alive())
	}
}

// TestWorkerChainSurvivesTheDaemon: what waits for its turn goes on waiting when the daemon dies, and when it ends and
// releases all that it holds: then the worker keeps the order.
func TestWorkerChainSurvivesTheDaemon(t *testing.T) {
	for name, dies := range map[string]bool{"it is killed": true, "it ends": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, workerRules)
			r.Boot("p")
			daemon := r.Start("p")
			r.Spawn(workerCommand(r, "p"))
			a := submitTask(r, writeScript(r, "p", "first.sh", "while ! [ -e go ]; do sleep 0.05; done; echo first >> runs"))
			b := submitTask(r, writeScript(r, "p", "then.sh", "echo then >> runs"), "--after", a)
			slowly(r, "the first runs", func() bool { return rig.Reads(r.At("p/tmp/agent_status/codex_status/current_task.json"), a) })
			if dies {
				daemon.Kill()
				r.Start("p")
			} else {
				r.Shows(b)
				_ = daemon.Process.Signal(syscall.SIGTERM)
				<-daemon.Ended
				slowly(r, "it has released it", func() bool { return rig.There(r.Task("p", b, ".request.json")) })
			}
			r.Spawn(workerCommand(r, "p")) // which has room for the second one
			r.Pause(1500 * time.Millisecond)
			r.Write("p/go", "")
			slowly(r, "the chain ends", func() bool { return readResult(r, "p", b).Status == "completed" })
			if got := strings.Join(linesOf(r, "p", "runs"), " "); got != "first then" {
				t.Errorf("ran: %s", got)
			}
		})
	}
}

// TestWorkerWaitTells: the exit codes of submit --wait are the task's own.
func TestWorkerWaitTells(t *testing.T) {
	for name, daemon := range map[string]bool{"with a daemon": true, "alone": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, workerRules+"[[retry]]\ncode = \"FILE_NOT_FOUND\"\naction = \"stop\"\n[[retry]]\ncode = \"TIMEOUT\"\naction = \"stop\"\n")
			r.Boot("p")
			if daemon {
				r.Start("p")
			}
			p := r.Spawn(workerCommand(r, "p"))
			for want, body := range map[int]string{0: "true", 1: "exit 1", 7: "exit 7", 255: "exit 255"} {
				if code := waitForTask(r, writeScript(r, "p", "code.sh", body)); code != want {
					t.Errorf("%q: exit %d", body, code)
				}
			}
			if code := waitForTask(r, writeScript(r, "p", "killed.sh", "kill -9 $$")); code != 1 {
				t.Errorf("killed: exit %d", code)
			}
			if code := waitForTask(r, r.At("p/missing.sh")); code != 1 {
				t.Errorf("missing: exit %d", code)
			}
			if code := waitForTask(r, writeScript(r, "p", "slow.sh", "sleep 1000"), "--timeout", "1s"); code != 124 {
				t.Errorf("over its time: exit %d", code)
			}
			id := rig.TaskID(77)
			c := r.Command("steward", "task", "submit", "execute", "--project", "p", "--id", id, "--wait", "--", writeScript(r, "p", "cancelled.sh", "echo $$ > pid; sleep 1000"))
			waits := r.Spawn(c)
			slowly(r, "the script runs", func() bool { return pidIn(r, "p", "pid") > 0 })
			r.Steward("task", "cancel", id, "--project", "p")
			<-waits.Ended
			if code := c.ProcessState.ExitCode(); code != 130 {
				t.Errorf("cancelled: exit %d", code)
			}
			slowly(r, "the script is gone", func() bool { return !lives(pidIn(r, "p", "pid")) })
			interrupted(r, p)
		})
	}
}

// waitForTask runs submit --wait and gives its exit code.
func waitForTask(r *rig.Rig, script string, flags ...string) int {
	r.Helper()
	args := append([]string{"task", "submit", "execute", "--project", "p", "--wait"}, flags...)
	_, code := output(r, r.Command("steward", append(args, "--", script)...))
	return code
}

// interrupted: who waits is interrupted, and the task goes on; the worker is asked to end, and the task is stopped.
func interrupted(r *rig.Rig, worker *rig.Child) {
	r.Helper()
	id := rig.TaskID(78)
	c := r.Command("steward", "task", "submit", "execute", "--project", "p", "--id", id, "--wait", "--", writeScript(r, "p", "long.sh", "echo $$ > pid; sleep 1000"))
	check(r, os.Remove(r.At("p/pid")))
	waits := r.Spawn(c)
	slowly(r, "the script runs", func() bool { return pidIn(r, "p", "pid") > 0 })
	_ = waits.Process.Signal(os.Interrupt)
	<-waits.Ended
	if code := c.ProcessState.ExitCode(); code != 130 || !lives(pidIn(r, "p", "pid")) {
		r.Errorf("interrupted: exit %d; the task goes on: %v", code, lives(pidIn(r, "p", "pid")))
	}
	_ = worker.Process.Signal(syscall.SIGTERM)
	<-worker.Ended
	if lives(pidIn(r, "p", "pid")) || worker.ProcessState.ExitCode() != 0 {
		r.Errorf("the worker ended with %d; its script lives: %v", worker.ProcessState.ExitCode(), lives(pidIn(r, "p", "pid")))
	}
	if rig.There(r.Task("p", id, ".result.json")) {
		endsAs(r, "p", id, "failed WORKER_STOPPED")
	} else if !onRecord(r, "p", id, "WORKER_STOPPED") { // the rules issue it again
		r.Error("a stopped task has no result")
	}
}
