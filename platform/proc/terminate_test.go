package proc

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"
)

const patience = 20 * time.Second

func TestTerminateAsksFirst(t *testing.T) {
	c := start(t, "quiet")
	id := inspectChild(t, c)
	if err := Terminate(t.Context(), id, patience); err != nil {
		t.Fatal(err)
	}
	c.cmd.Wait()
	if sig := c.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal(); sig != syscall.SIGTERM {
		t.Fatalf("ended by %v", sig)
	}
}

func TestTerminateKillsTheDeaf(t *testing.T) {
	c := start(t, "deaf")
	if err := Terminate(t.Context(), inspectChild(t, c), 30*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	c.cmd.Wait()
	if sig := c.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal(); sig != syscall.SIGKILL {
		t.Fatalf("ended by %v", sig)
	}
}

func TestTerminateWakesTheStopped(t *testing.T) {
	c := start(t, "quiet")
	id := inspectChild(t, c)
	syscall.Kill(c.pid(), syscall.SIGSTOP)
	eventually(t, id, Stopped)
	if err := Terminate(t.Context(), id, patience); err != nil {
		t.Fatal(err)
	}
	c.cmd.Wait()
	if sig := c.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal(); sig != syscall.SIGTERM {
		t.Fatalf("ended by %v", sig)
	}
}

func TestTerminateSparesASuccessor(t *testing.T) {
	c := start(t, "quiet")
	id := inspectChild(t, c)
	for _, former := range []Identity{
		{PID: id.PID, Start: id.Start - 1, Boot: id.Boot},
		{PID: id.PID, Start: id.Start, Boot: "11111111-2222-3333-4444-555555555555"},
	} {
		if err := Terminate(t.Context(), former, time.Second); err != nil {
			t.Fatalf("%+v: %v", former, err)
		}
	}
	if got := Check(id); got != Alive {
		t.Fatalf("the process that has the number now: %v", got)
	}
}

func TestTerminateRefuses(t *testing.T) {
	c := start(t, "quiet")
	id := inspectChild(t, c)
	self, _ := Inspect(os.Getpid())
	for _, bad := range []Identity{
		self,
		{},
		{PID: 1, Start: 1, Boot: id.Boot},
		{PID: -1, Start: 1, Boot: id.Boot},
		{PID: -id.PID, Start: id.Start, Boot: id.Boot},
		{PID: id.PID, Boot: id.Boot},
		{PID: id.PID, Start: id.Start},
	} {
		if err := Terminate(t.Context(), bad, 0); !errors.Is(err, ErrRefused) {
			t.Errorf("%+v: %v, want ErrRefused", bad, err)
		}
	}
	if got := Check(id); got != Alive {
		t.Fatalf("the process is %v", got)
	}
}

func TestTerminateCalledOff(t *testing.T) {
	c := start(t, "deaf")
	id := inspectChild(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if err := Terminate(ctx, id, patience); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	if got := Check(id); got != Alive {
		t.Fatalf("called off, yet the process is %v", got)
	}
}

func TestTerminateCalledOffBefore(t *testing.T) {
	c := start(t, "quiet")
	id := inspectChild(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Terminate(ctx, id, patience); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	c.in.Close() // a process that was not signalled exits with status 0
	if err := c.cmd.Wait(); err != nil {
		t.Fatalf("it was signalled: %v", err)
	}
}

func TestTerminateTheDead(t *testing.T) {
	c := start(t, "quiet")
	id := inspectChild(t, c)
	c.kill()
	eventually(t, id, Gone)
	if err := Terminate(t.Context(), id, time.Second); err != nil {
		t.Fatalf("zombie: %v", err)
	}
	c.reap()
	if err := Terminate(t.Context(), id, time.Second); err != nil {
		t.Fatalf("nobody: %v", err)
	}
}

func TestPollGone(t *testing.T) {
	c := start(t, "quiet")
	id := inspectChild(t, c)
	if gone, err := pollGone(t.Context(), id, time.Millisecond); gone || err != nil {
		t.Fatalf("living: %v, %v", gone, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := pollGone(ctx, id, patience); !errors.Is(err, context.Canceled) {
		t.Fatalf("called off: %v", err)
	}
	c.kill()
	if gone, err := pollGone(t.Context(), id, patience); !gone || err != nil {
		t.Fatalf("killed: %v, %v", gone, err)
	}
}
