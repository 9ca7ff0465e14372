package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	joinexec "github.com/livhana/steward/join/exec"
)

// unread is a command whose output is a pipe without a reader: every write fails.
func (r *rig) unread(args ...string) *exec.Cmd {
	r.Helper()
	reader, w, err := os.Pipe()
	if err != nil {
		r.Fatal(err)
	}
	reader.Close()
	r.Cleanup(func() { w.Close() })
	c := r.command("steward", args...)
	c.Stdout, c.Stderr = w, w
	return c
}

// endOf runs a command, and returns its exit code or the signal that ended it.
func (r *rig) endOf(c *exec.Cmd) (code int, by syscall.Signal) {
	r.Helper()
	var ended *exec.ExitError
	if err := c.Run(); err != nil && !errors.As(err, &ended) {
		r.Fatal(err)
	}
	return c.ProcessState.ExitCode(), c.ProcessState.Sys().(syscall.WaitStatus).Signal()
}

// A supervising command outlives the reader of its output; any other command ends with its reader.
func TestReaderOfTheOutputLeaves(t *testing.T) {
	if testing.Short() {
		t.Skip("short: it runs the whole program")
	}
	r := newRig(t, "[supervisor]\nlook_every = \"200ms\"\n[escalate]\nchannels = []\n[capacity]\ndimensions = [\"agent\"]\n[keep]\nbackoff = \"10ms\"\n")
	r.boot("p")
	daemon := r.spawn(r.unread("run", "--project", "p"))
	r.until("the daemon answers", func() bool { return !daemon.alive() || r.answers() })
	r.steward("pause", "p")
	r.steward("resume", "p")
	if !daemon.alive() {
		t.Fatal("the daemon ended with its reader")
	}
	if code, by := r.endOf(r.unread("status")); by != syscall.SIGPIPE {
		t.Errorf("status: exit %d, signal %v: it is to end with its reader", code, by)
	}

	again := `echo life >>lives; [ "$(wc -l <lives)" -ge 3 ]`
	if code, by := r.endOf(r.unread("exec", "--project", "p", "--agent", "often", "--restart", "on-failure", "--", "sh", "-c", again)); code != 0 || !reads(r.at("lives"), "life\nlife\nlife") {
		t.Errorf("exec: exit %d, signal %v", code, by)
	}

	if err := os.Mkdir(r.at("p", "scripts"), 0o755); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join("p", "scripts", "ok.sh")
	r.write(script, "#!/bin/sh\n[ -d tmp ]\n")
	if err := os.Chmod(r.at(script), 0o755); err != nil {
		t.Fatal(err)
	}
	r.steward("task", "submit", "execute", "--project", "p", "--id", taskID(1), "--", "scripts/ok.sh")
	if code, by := r.endOf(r.unread("worker", "--project", "p", "--agent", "codex-cursor", "--drain")); code != 0 || !reads(r.task("p", taskID(1), ".result.json"), `"status": "completed"`) {
		t.Errorf("worker: exit %d, signal %v", code, by)
	}
}

// Only steward itself survives: the processes it starts still end by SIGPIPE.
func TestProgramsKeepTheirBrokenPipe(t *testing.T) {
	if testing.Short() {
		t.Skip("short: it runs the whole program")
	}
	r := newRig(t, "[capacity]\ndimensions = [\"agent\"]\n")
	r.boot("p")
	for _, line := range [][]string{
		{"exec", "--project", "p", "--"},
		{"lock", "run", "x", "--project", "p", "--"},
	} {
		c := r.command("steward", append(line, "sh", "-c", "kill -PIPE $$; echo ignored")...)
		if code, _ := r.endOf(c); code != joinexec.ExitSignal+int(syscall.SIGPIPE) {
			t.Errorf("%q: exit %d, want %d", line, code, joinexec.ExitSignal+int(syscall.SIGPIPE))
		}
	}
}
