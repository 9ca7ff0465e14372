package proc

import (
	"os/exec"
	"slices"
	"testing"
)

// TestMarkedAtOnce: the mark of a started program is visible at once, even while the kernel is still executing exec.
func TestMarkedAtOnce(t *testing.T) {
	const mark = "at-once"
	for range 400 {
		c := exec.Command("/bin/sleep", "1000")
		c.Env = []string{MarkName + "=" + mark}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		seen := bearing(MarkName, mark)(c.Process.Pid)
		c.Process.Kill()
		c.Wait()
		if !seen {
			t.Fatal("a program that runs bears no mark")
		}
	}
}

// TestNoEnvironmentIsNotWaitedFor: a process without an environment, an ending process and kernel threads are not
// waited for.
func TestNoEnvironmentIsNotWaitedFor(t *testing.T) {
	c := exec.Command("/bin/sleep", "1000")
	c.Env = []string{}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Wait()
	defer c.Process.Kill()
	for range 100 { // wait until exec is complete
		if at, ok := envAt(c.Process.Pid); ok && at.end != 0 {
			break
		}
		sleep(t.Context(), treeSoon)
	}
	if mayHaveEnv(c.Process.Pid) {
		t.Error("the one without an environment would be waited for")
	}
	id, err := Inspect(c.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	c.Process.Kill()
	eventually(t, id, Gone)
	if mayHaveEnv(c.Process.Pid) {
		t.Error("the zombie would be waited for")
	}
	all, err := census()
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(all, func(p Process) bool { return p.Name == "kthreadd" && p.Parent == 0 }); i >= 0 && mayHaveEnv(all[i].PID) {
		t.Error("a thread of the kernel would be waited for")
	}
}
