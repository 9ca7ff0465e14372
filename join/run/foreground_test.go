package run

import (
	"os/exec"
	"syscall"
	"testing"
)

// TestShellCode: the exit code is that of a shell, also for a signal without a name.
func TestShellCode(t *testing.T) {
	for text, want := range map[string]int{"exit 0": 0, "exit 7": 7, "kill -KILL $$": 137, "kill -40 $$": 168} {
		cmd := exec.Command("/bin/sh", "-c", text)
		_ = cmd.Run()
		if got := ShellCode(Status(cmd.ProcessState.Sys().(syscall.WaitStatus))); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
}
