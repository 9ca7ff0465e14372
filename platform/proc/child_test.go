package proc

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test binary act as the other processes; PROC_ROLE selects the role. Each prints "ready" and lives
// until its input ends.
func TestMain(m *testing.M) {
	role := os.Getenv("PROC_ROLE")
	if role == "" {
		os.Exit(m.Run())
	}
	play(role)
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

type child struct {
	cmd *exec.Cmd
	in  io.Closer
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// kill leaves a zombie; reap removes it.
func (c *child) kill() { c.cmd.Process.Kill() }
func (c *child) reap() { c.kill(); c.in.Close(); c.cmd.Wait() }

func start(t testing.TB, role string, change ...func(*exec.Cmd)) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PROC_ROLE="+role)
	cmd.Stderr = os.Stderr
	for _, f := range change {
		f(cmd)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{cmd, in}
	t.Cleanup(c.reap)
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("role %s says %q, %v", role, line, err)
	}
	return c
}

func inspectChild(t testing.TB, c *child) Identity {
	t.Helper()
	id, err := Inspect(c.pid())
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// eventually waits until the process reaches the state.
func eventually(t *testing.T, id Identity, want State) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	watchdog := time.After(20 * time.Second)
	for Check(id) != want {
		select {
		case <-tick.C:
		case <-watchdog:
			t.Fatalf("still %v, want %v", Check(id), want)
		}
	}
}

func play(role string) {
	switch role {
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
	case "threads":
		loseLeader()
	case "within":
		endOwnMark()
	default:
		playOnLinux(role)
	}
}

// endOwnMark ends the tree in which it was started while its own child runs.
func endOwnMark() {
	c := exec.Command("sleep", "1000")
	c.Env = []string{}
	err := c.Start()
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	id, _ := Inspect(c.Process.Pid)
	ended, left, err := EndTree(context.Background(), Identity{}, os.Getenv(MarkName), 100*time.Millisecond)
	lives := Check(id) == Alive
	c.Process.Kill()
	if st, _ := c.Process.Wait(); !lives || st.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL || ended != 2 || left != 0 || err != nil {
		fmt.Printf("its own child lives: %v, %v; %d, %d, %v\n", lives, st, ended, left, err)
		os.Exit(1)
	}
}

// loseLeader ends the main thread while the other threads continue. It starts goroutines locked to their threads
// until one of them runs on the main thread.
func loseLeader() {
	found := make(chan struct{})
	for range 64 {
		go func() {
			runtime.LockOSThread()
			if onMainThread() {
				close(found)
				endThread()
			}
			select {}
		}()
	}
	<-found
}
