package run

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// playOnLinux plays the role "small": a worker whose folder in RUN_SMALL has room for 64 KiB.
func playOnLinux(role string) {
	if role != "small" {
		panic(role)
	}
	if err := syscall.Mount("small", os.Getenv("RUN_SMALL"), "tmpfs", 0, "size=64k"); err != nil {
		fmt.Println("skip", err)
		return
	}
	playWorker()
}

// ownMounts gives a process its own mount namespace.
func ownMounts(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
}

// peakMemory is the peak resident memory of a living process, in bytes.
func peakMemory(t testing.TB, pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, found := strings.Cut(string(text), "VmHWM:")
	var kib int64
	if _, scanErr := fmt.Sscan(rest, &kib); err != nil || !found || scanErr != nil {
		t.Fatalf("peak memory of %d: %v, %v", pid, err, scanErr)
	}
	return kib << 10
}
