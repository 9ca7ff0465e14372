package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/livhana/steward/test/rig"

	joinrun "github.com/livhana/steward/join/run"
)

// unread is a command whose output is a pipe without a reader: every write fails.
func unread(r *rig.Rig, args ...string) *exec.Cmd {
	r.Helper()
	reader, w, err := os.Pipe()
	if err != nil {
		r.Fatal(err)
	}
	reader.Close()
	r.Cleanup(func() { w.Close() })
	c := r.Command("steward", args...)
	c.Stdout, c.Stderr = w, w
	return c
}

// endOf runs a command, and returns its exit code or the signal that ended it.
func endOf(r *rig.Rig, c *exec.Cmd) (code int, by syscall.Signal) {
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
	r := rig.New(t, "[supervisor]\nlook_every = \"200ms\"\n[escalate]\nchannels = []\n[capacity]\ndimensions = [\"agent\"]\n[keep]\nbackoff = \"10ms\"\n")
	r.Boot("p")
	daemon := r.Spawn(unread(r, "run", "--project", "p"))
	r.Until("the daemon answers", func() bool { return !daemon.Alive() || r.Answers() })
	r.Steward("pause", "p")
	r.Steward("resume", "p")
	if !daemon.Alive() {
		t.Fatal("the daemon ended with its reader")
	}
	if code, by := endOf(r, unread(r, "status")); by != syscall.SIGPIPE {
		t.Errorf("status: exit %d, signal %v: it is to end with its reader", code, by)
	}

	again := `echo life >>lives; [ "$(wc -l <lives)" -ge 3 ]`
	if code, by := endOf(r, unread(r, "exec", "--project", "p", "--agent", "often", "--restart", "on-failure", "--", "sh", "-c", again)); code != 0 || !rig.Reads(r.At("lives"), "life\nlife\nlife") {
		t.Errorf("exec: exit %d, signal %v", code, by)
	}

	if err := os.Mkdir(r.At("p", "scripts"), 0o755); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join("p", "scripts", "ok.sh")
	r.Write(script, "#!/bin/sh\n[ -d tmp ]\n")
	if err := os.Chmod(r.At(script), 0o755); err != nil {
		t.Fatal(err)
	}
	r.Steward("task", "submit", "execute", "--project", "p", "--id", rig.TaskID(1), "--", "scripts/ok.sh")
	if code, by := endOf(r, unread(r, "worker", "--project", "p", "--agent", "codex-cursor", "--drain")); code != 0 || !rig.Reads(r.Task("p", rig.TaskID(1), ".result.json"), `"status": "completed"`) {
		t.Errorf("worker: exit %d, signal %v", code, by)
	}
}

// Only steward itself survives: the processes it starts still end by SIGPIPE.
func TestProgramsKeepTheirBrokenPipe(t *testing.T) {
	if testing.Short() {
		t.Skip("short: it runs the whole program")
	}
	r := rig.New(t, "[capacity]\ndimensions = [\"agent\"]\n")
	r.Boot("p")
	for _, line := range [][]string{
		{"exec", "--project", "p", "--"},
		{"lock", "run", "x", "--project", "p", "--"},
	} {
		c := r.Command("steward", append(line, "sh", "-c", "kill -PIPE $$; echo ignored")...)
		if code, _ := endOf(r, c); code != joinrun.CodeSignal+int(syscall.SIGPIPE) {
			t.Errorf("%q: exit %d, want %d", line, code, joinrun.CodeSignal+int(syscall.SIGPIPE))
		}
	}
}
