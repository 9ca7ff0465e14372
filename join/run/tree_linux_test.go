package run

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/livhana/steward/platform/proc"
)

// waitFor makes a script wait until the process that it leaves behind has started.
const waitFor = `; until [ -s up ]; do sleep 0.01; done; echo end`

func TestNothingOutlivesTheCommand(t *testing.T) {
	for name, text := range map[string]string{
		"in the background":               `(sh -c 'echo > up; sleep 1000' &)`,
		"forked away":                     `(setsid sh -c 'echo > up; sleep 1000' &)`,
		"forked away, nothing to tell it": `(env -i setsid sh -c 'echo > up; sleep 1000' > /dev/null 2>&1 < /dev/null &)`,
		"descriptors closed":              `(setsid sh -c 'echo > up; exec sleep 1000' 0<&- 1>&- 2>&- &)`,
		"stopped":                         `(setsid sh -c 'echo > up; kill -STOP $$' &)`,
		"children of the forked away":     `(env -i setsid sh -c 'sleep 1000 & (setsid sleep 1000 &) ; echo > up; sleep 1000' &)`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			how := finish(t, script(t, text+waitFor))
			if how.Code != 0 || how.Stdout.Text != "end\n" || how.Survivors < 1 || how.Unended != 0 {
				t.Errorf("got %+v", how)
			}
		})
	}
}

func TestTheDeafAreKilled(t *testing.T) {
	s := script(t, `(env -i setsid sh -c 'trap "" TERM HUP INT; echo > up; while :; do sleep 1000; done' &)`+waitFor)
	s.Grace = 100 * time.Millisecond
	if how := finish(t, s); how.Code != 0 || how.Survivors < 1 || how.Unended != 0 {
		t.Errorf("got %+v", how)
	}
}

// TestSmallForkBomb: 200 processes that start each other, and answer SIGTERM with two new processes.
func TestSmallForkBomb(t *testing.T) {
	s := script(t, `
		echo 'n=$1; trap "sleep 1000 & sleep 1000 & exit" TERM; [ $n -gt 0 ] && { setsid sh bomb $((n-1)) & sh bomb $((n-1)) & }; [ $n = 0 ] && echo x >> up; while :; do sleep 1; done' > bomb
		sh bomb 5 & until [ "$(wc -l < up)" = 32 ]; do sleep 0.05; done 2> /dev/null; echo end`)
	s.Grace = time.Second
	if how := finish(t, s); how.Code != 0 || how.Survivors < 100 || how.Unended != 0 || how.Stdout.Text != "end\n" {
		t.Errorf("got %+v", how)
	}
}

// TestStreamHeldOutside: a stream held open by a process outside the tree must not block the run.
func TestStreamHeldOutside(t *testing.T) {
	s := script(t, `echo $$ > up; until [ -e go ]; do sleep 0.01; done; echo end`)
	r := begin(t, s)
	held, err := os.OpenFile("/proc/"+appears(t, s.Dir+"/up")+"/fd/1", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	os.WriteFile(s.Dir+"/go", nil, 0o644)
	if how, err := r.Wait(); err != nil || how.Stdout.Text != "end\n" {
		t.Errorf("got %+v, %v", how, err)
	}
}

func TestWorkerKilled(t *testing.T) {
	for name, text := range map[string]string{
		"quiet":  `sleep 1000 & (env -i setsid sleep 1000 &) ; echo > up; sleep 1000`,
		"deaf":   `trap "" TERM HUP PIPE; (env -i setsid sleep 1000 &) ; echo > up; while :; do sleep 1000; done`,
		"talker": `(setsid yes &) ; echo > up; yes`,
	} {
		t.Run(name, func(t *testing.T) {
			s := script(t, text)
			s.Grace = 100 * time.Millisecond
			c, shim := worker(t, s)
			appears(t, s.Dir+"/up")
			c.Process.Kill()
			c.Wait()
			gone(t, shim)
		})
	}
}

// worker starts a process that runs s, and returns it with its shim.
func worker(t *testing.T, s Spec) (c *exec.Cmd, shim proc.Identity) {
	t.Helper()
	c = role("worker")
	spec, _ := json.Marshal(s)
	c.Env = append(c.Env, "RUN_SPEC="+string(spec))
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if shim, err = proc.Inspect(pid); err != nil {
		t.Fatal(err)
	}
	return c, shim
}

// gone waits for the end of a process; after that no process of its tree may live.
func gone(t *testing.T, id proc.Identity) {
	t.Helper()
	for end := time.Now().Add(patience); proc.Check(id) != proc.Gone; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("process %d lives on", id.PID)
		}
	}
}

func TestShimKilled(t *testing.T) {
	s := script(t, `(env -i sleep 1000 &); (setsid sh -c 'trap "" TERM; echo > up; while :; do sleep 1000; done' > /dev/null 2>&1 &)`+waitFor+`> said; (trap "" TERM; env -i sleep 1000 & wait; sleep 1000)`)
	s.Grace = 100 * time.Millisecond
	r := begin(t, s)
	appears(t, s.Dir+"/said")
	syscall.Kill(r.Shim().PID, syscall.SIGKILL)
	how, err := r.Wait()
	if err == nil || !strings.Contains(err.Error(), "killed") || !strings.Contains(err.Error(), fmt.Sprint(r.Shim().PID)) {
		t.Errorf("got %+v, %v", how, err)
	}
	if how.Unended != 0 || how.Code != -1 {
		t.Errorf("got %+v", how)
	}
}

// TestWorkerAndShimKilled: when both are killed at once, no process is left to end the tree. The kernel ends the
// command itself, and a later steward finds the rest by the mark.
func TestWorkerAndShimKilled(t *testing.T) {
	s := script(t, `trap "" TERM; sleep 1000 & echo $$ > up; while :; do sleep 1000; done`)
	c, shim := worker(t, s)
	pid, _ := strconv.Atoi(appears(t, s.Dir+"/up"))
	command, err := proc.Inspect(pid)
	if err != nil {
		t.Fatal(err)
	}
	c.Process.Signal(syscall.SIGSTOP) // or it might end the tree before it dies
	syscall.Kill(shim.PID, syscall.SIGKILL)
	gone(t, command)
	c.Process.Kill()
	c.Wait()
	if _, left, err := proc.EndTree(t.Context(), proc.Identity{}, s.Mark, 100*time.Millisecond); left != 0 || err != nil {
		t.Errorf("left %d, %v", left, err)
	}
}

// TestShimStopped: the command runs as the same user and can stop its own shim, which then enforces nothing.
func TestShimStopped(t *testing.T) {
	s := script(t, `echo > up; kill -STOP $PPID; sleep 1000`)
	s.Limit, s.Grace = 300*time.Millisecond, 100*time.Millisecond
	r, err := start(t.Context(), role("shim"), s, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if how, err := r.Wait(); err == nil {
		t.Errorf("got %+v, %v", how, err)
	}
}

func TestShimAskedBySignal(t *testing.T) {
	s := script(t, `echo > up; sleep 1000`)
	r := begin(t, s)
	appears(t, s.Dir+"/up")
	syscall.Kill(r.Shim().PID, syscall.SIGTERM)
	if how, err := r.Wait(); err != nil || !how.Stopped || how.Signal != "SIGTERM" {
		t.Errorf("got %+v, %v", how, err)
	}
}

func TestShimStaysApart(t *testing.T) {
	s := script(t, `echo $(ps -o sid= -p $$) $(ps -o sid= -p $PPID) $$ $PPID`)
	r := begin(t, s)
	how, err := r.Wait()
	f := strings.Fields(how.Stdout.Text)
	if err != nil || len(f) != 4 || f[0] != f[2] || f[1] != f[3] || f[3] != fmt.Sprint(r.Shim().PID) {
		t.Errorf("got %+v, %v", how, err)
	}
}

func TestProgramBeingWritten(t *testing.T) {
	s := script(t, "")
	f, err := os.OpenFile(s.Dir+"/tool", os.O_WRONLY|os.O_CREATE, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fmt.Fprintln(f, "#!/bin/sh")
	s.Argv = []string{s.Dir + "/tool"}
	if how := finish(t, s); how.Fault != Other || !strings.Contains(how.Problem, "text file busy") {
		t.Errorf("got %+v", how)
	}
	f.Close()
	if how := finish(t, s); how.Fault != "" || how.Code != 0 {
		t.Errorf("got %+v", how)
	}
}

func TestDiskFull(t *testing.T) {
	s := script(t, `yes 0123456 | head -c 300000; echo end >&2`)
	small := t.TempDir()
	s.Log = small + "/log"
	c := role("small")
	spec, _ := json.Marshal(s)
	c.Env = append(c.Env, "RUN_SPEC="+string(spec), "RUN_SMALL="+small)
	ownMounts(c)
	out, err := c.Output()
	if err != nil || strings.HasPrefix(string(out), "skip") {
		t.Skipf("no mounts of our own: %s %v", out, err)
	}
	lines := strings.Split(string(out), "\n")
	var how Ended
	if err := json.Unmarshal([]byte(lines[1]), &how); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	if how.Code != 0 || how.Stdout.Bytes != 300000 || how.Stderr.Text != "end\n" || !strings.Contains(how.LogProblem, "no space left") {
		t.Errorf("got code %d, %d bytes, %q, log: %q", how.Code, how.Stdout.Bytes, how.Stderr.Text, how.LogProblem)
	}
}

func TestWriteIsConfined(t *testing.T) {
	s := script(t, `
		echo in > file && mkdir sub && mv file sub/ && : > sub/file && rm sub/file && echo moved
		echo x > /dev/null; echo x > "$OUT/file" || echo not made
		mv "$OUT/old" "$OUT/new" || echo not moved; cat "$OUT/old"
		(setsid sh -c 'rm "$OUT/old" || echo not removed')`)
	out := t.TempDir()
	os.WriteFile(out+"/old", []byte("old\n"), 0o644)
	s.Env = append(s.Env, "OUT="+out)
	s.Write = []string{s.Dir, s.Dir + "/gone"}
	s.Log = out + "/log" // the shim writes the log, not the command
	how := finish(t, s)
	if !how.Confined {
		t.Skip("no landlock here")
	}
	if want := "moved\nnot made\nnot moved\nold\nnot removed\n"; how.Stdout.Text != want || strings.Count(how.Stderr.Text, "Permission denied") != 3 {
		t.Errorf("got %q, %q", how.Stdout.Text, how.Stderr.Text)
	}
	if how.LogProblem != "" {
		t.Error(how.LogProblem)
	}
	s.Write = []string{}
	if how := finish(t, s); !how.Confined || how.Stdout.Text != "not made\nnot moved\nold\nnot removed\n" {
		t.Errorf("nothing allowed: got %+v", how)
	}
}
