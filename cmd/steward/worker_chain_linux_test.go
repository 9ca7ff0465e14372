//go:build linux

package main

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// submit asks for a script as an orchestrator does from its shell, and gives the task's id.
func (r *rig) submit(script string, flags ...string) string {
	r.Helper()
	args := append([]string{"task", "submit", "execute", "--project", "p"}, flags...)
	return strings.TrimSpace(r.steward(append(args, "--", script)...))
}

// TestWorkerChain: what comes after other tasks is seen when they are completed, not before, and not when they fail.
func TestWorkerChain(t *testing.T) {
	t.Parallel()
	r := newRig(t, workerRules)
	r.boot("p")
	r.start("p")
	p := r.spawn(r.worker("p"))
	first := r.script("p", "first.sh", "while ! [ -e go ]; do sleep 0.05; done; echo first >> runs")
	fails := r.script("p", "fails.sh", "while ! [ -e go ]; do sleep 0.05; done; echo fails >> runs; exit 7")
	then := r.script("p", "then.sh", "echo then >> runs")
	last := r.script("p", "last.sh", "echo last >> runs")
	a := r.submit(first)
	b := r.submit(then, "--after", a)
	c := r.submit(last, "--after", a, "--after", b)
	r.slowly("the first runs", func() bool { return reads(r.at("p/tmp/agent_status/codex_status/current_task.json"), a) })
	bad := r.submit(fails)
	x := r.submit(r.script("p", "x.sh", "echo x >> runs"), "--after", bad)
	y := r.submit(r.script("p", "y.sh", "echo y >> runs"), "--after", bad)
	r.shows(`"id": *"`+b+`"[^}]*waits for task `+a, `"id": *"`+x+`"[^}]*waits for task `+bad)
	for _, id := range []string{b, c, x, y} {
		if there(r.task("p", id, ".request.json")) || !there(r.task("p", id, ".request.json.held")) {
			t.Errorf("%s is seen before what it comes after is completed", id)
		}
	}
	r.write("p/go", "")
	for _, id := range []string{a, b, c} {
		r.slowly("the chain goes on to "+id, func() bool { return r.read("p", id).Status == "completed" })
	}
	r.slowly("the one that fails", func() bool { return r.read("p", bad).Status == "failed" })
	// What was to follow it stays, with the reason, and waits for a human.
	r.shows(`"id": *"`+x+`"[^}]*waits for task `+bad+`, which ended failed`, `"id": *"`+y+`"[^}]*waits for task `+bad+`, which ended failed`)
	r.steward("cancel", x)
	r.slowly("the one that is cancelled has its result", func() bool { return r.read("p", x).Status != "" })
	r.ends("p", x, "failed CANCELLED")
	r.steward("release", y)
	r.slowly("the one that is released runs", func() bool { return r.read("p", y).Status == "completed" })
	r.idles()
	runs := strings.Join(r.lines("p", "runs"), " ")
	if strings.Contains(runs, "x") || strings.Count(runs, "y") != 1 || strings.Count(runs, "fails") != 1 ||
		strings.Join(strings.Fields(strings.NewReplacer("fails", "", "y", "").Replace(runs)), " ") != "first then last" || !p.alive() {
		t.Errorf("ran: %s; the worker lives: %v", runs, p.alive())
	}
}

// TestWorkerChainSurvivesTheDaemon: what waits for its turn goes on waiting when the daemon dies, and when it ends and
// releases all that it holds: then the worker keeps the order.
func TestWorkerChainSurvivesTheDaemon(t *testing.T) {
	for name, dies := range map[string]bool{"it is killed": true, "it ends": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, workerRules)
			r.boot("p")
			daemon := r.start("p")
			r.spawn(r.worker("p"))
			a := r.submit(r.script("p", "first.sh", "while ! [ -e go ]; do sleep 0.05; done; echo first >> runs"))
			b := r.submit(r.script("p", "then.sh", "echo then >> runs"), "--after", a)
			r.slowly("the first runs", func() bool { return reads(r.at("p/tmp/agent_status/codex_status/current_task.json"), a) })
			if dies {
				daemon.kill()
				r.start("p")
			} else {
				r.shows(b)
				_ = daemon.Process.Signal(syscall.SIGTERM)
				<-daemon.ended
				r.slowly("it has released it", func() bool { return there(r.task("p", b, ".request.json")) })
			}
			r.spawn(r.worker("p")) // which has room for the second one
			r.pause(1500 * time.Millisecond)
			r.write("p/go", "")
			r.slowly("the chain ends", func() bool { return r.read("p", b).Status == "completed" })
			if got := strings.Join(r.lines("p", "runs"), " "); got != "first then" {
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
			r := newRig(t, workerRules+"[[retry]]\ncode = \"FILE_NOT_FOUND\"\naction = \"stop\"\n[[retry]]\ncode = \"TIMEOUT\"\naction = \"stop\"\n")
			r.boot("p")
			if daemon {
				r.start("p")
			}
			p := r.spawn(r.worker("p"))
			for want, body := range map[int]string{0: "true", 1: "exit 1", 7: "exit 7", 255: "exit 255"} {
				if code := r.waits(r.script("p", "code.sh", body)); code != want {
					t.Errorf("%q: exit %d", body, code)
				}
			}
			if code := r.waits(r.script("p", "killed.sh", "kill -9 $$")); code != 1 {
				t.Errorf("killed: exit %d", code)
			}
			if code := r.waits(r.at("p/missing.sh")); code != 1 {
				t.Errorf("missing: exit %d", code)
			}
			if code := r.waits(r.script("p", "slow.sh", "sleep 1000"), "--timeout", "1s"); code != 124 {
				t.Errorf("over its time: exit %d", code)
			}
			id := taskID(77)
			c := r.command("steward", "task", "submit", "execute", "--project", "p", "--id", id, "--wait", "--", r.script("p", "cancelled.sh", "echo $$ > pid; sleep 1000"))
			waits := r.spawn(c)
			r.slowly("the script runs", func() bool { return r.pidIn("p", "pid") > 0 })
			r.steward("task", "cancel", id, "--project", "p")
			<-waits.ended
			if code := c.ProcessState.ExitCode(); code != 130 {
				t.Errorf("cancelled: exit %d", code)
			}
			r.slowly("the script is gone", func() bool { return !lives(r.pidIn("p", "pid")) })
			r.interrupted(p)
		})
	}
}

// waits runs submit --wait and gives its exit code.
func (r *rig) waits(script string, flags ...string) int {
	r.Helper()
	args := append([]string{"task", "submit", "execute", "--project", "p", "--wait"}, flags...)
	_, code := output(r, r.command("steward", append(args, "--", script)...))
	return code
}

// interrupted: who waits is interrupted, and the task goes on; the worker is asked to end, and the task is stopped.
func (r *rig) interrupted(worker *child) {
	r.Helper()
	id := taskID(78)
	c := r.command("steward", "task", "submit", "execute", "--project", "p", "--id", id, "--wait", "--", r.script("p", "long.sh", "echo $$ > pid; sleep 1000"))
	r.must(os.Remove(r.at("p/pid")))
	waits := r.spawn(c)
	r.slowly("the script runs", func() bool { return r.pidIn("p", "pid") > 0 })
	_ = waits.Process.Signal(os.Interrupt)
	<-waits.ended
	if code := c.ProcessState.ExitCode(); code != 130 || !lives(r.pidIn("p", "pid")) {
		r.Errorf("interrupted: exit %d; the task goes on: %v", code, lives(r.pidIn("p", "pid")))
	}
	_ = worker.Process.Signal(syscall.SIGTERM)
	<-worker.ended
	if lives(r.pidIn("p", "pid")) || worker.ProcessState.ExitCode() != 0 {
		r.Errorf("the worker ended with %d; its script lives: %v", worker.ProcessState.ExitCode(), lives(r.pidIn("p", "pid")))
	}
	if there(r.task("p", id, ".result.json")) {
		r.ends("p", id, "failed WORKER_STOPPED")
	} else if !r.onRecord("p", id, "WORKER_STOPPED") { // the rules issue it again
		r.Error("a stopped task has no result")
	}
}
