//go:build unix

package push_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func sessionOf(pid int) int {
	sid, _ := unix.Getsid(pid)
	return sid
}

// alive counts no zombies: who reaps them is the system's matter.
func alive(pid int) bool {
	if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
		rest := string(stat[strings.LastIndexByte(string(stat), ')')+1:])
		return !strings.HasPrefix(rest, " Z") && !strings.HasPrefix(rest, " X")
	}
	return runtime.GOOS != "linux" && syscall.Kill(pid, 0) == nil
}

// leave starts a child that holds all pipes, in the same group or in a session of its own, and ends or stays.
func leave(args []string) {
	file, where, how := args[0], args[1], args[2]
	self, _ := os.Executable()
	cmd := exec.Command(self, "play", how, file)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: where == "away"}
	if err := cmd.Start(); err != nil {
		fail(1, err.Error())
	}
	for {
		if text, err := os.ReadFile(file); err == nil && len(text) > 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if where == "stay" {
		time.Sleep(time.Hour)
	}
}

// What a program leaves behind does not keep us, and is not ours to end.
func TestCommandThatLeavesAChildBehind(t *testing.T) {
	for _, where := range []string{"here", "away"} {
		file := filepath.Join(t.TempDir(), "pid")
		begin := time.Now()
		if err := command(t, "leave", file, where, "hang").Send(bounded(t), make([]byte, 1<<20)); err != nil {
			t.Errorf("%s: %v", where, err)
		}
		text, err := os.ReadFile(file)
		pid, _ := strconv.Atoi(string(text))
		if err != nil || !alive(pid) {
			t.Errorf("%s: %v: the child that was left behind is gone", where, err)
			continue
		}
		if took := time.Since(begin); took > 50*time.Second {
			t.Errorf("%s: it took %s", where, took)
		}
		_ = syscall.Kill(pid, syscall.SIGKILL) // it sleeps for an hour, so that the number is its own
	}
}

// At the deadline the whole group goes, also one who is deaf.
func TestCommandThatHangsIsEndedWithItsGroup(t *testing.T) {
	for _, how := range []string{"hang", "deaf"} {
		file := filepath.Join(t.TempDir(), "pid")
		ctx, pid := until(t, file)
		if err := command(t, "leave", file, "stay", how).Send(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		for p, n := pid(), 0; alive(p); n++ {
			if n > 5000 {
				t.Fatalf("%s: process %d lives", how, p)
			}
			time.Sleep(time.Millisecond)
		}
	}
}
