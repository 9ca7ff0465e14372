package proc

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

func onMainThread() bool { return unix.Gettid() == unix.Getpid() }

func endThread() { unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0) }

// playOnLinux inspects the process in PROC_TARGET without privileges ("hidden": through a /proc with hidepid), and
// prints the result instead of "ready".
func playOnLinux(role string) {
	if role != "nobody" && role != "hidden" {
		return
	}
	runtime.LockOSThread()
	if role == "hidden" {
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		if err := unix.Mount("proc", "/proc", "proc", 0, "hidepid=2"); err != nil {
			fmt.Println("skip", err)
			os.Exit(0)
		}
	}
	var id Identity
	json.Unmarshal([]byte(os.Getenv("PROC_TARGET")), &id)
	// A raw system call changes only this thread, and only this thread inspects.
	for _, call := range [][4]uintptr{
		{unix.SYS_SETGROUPS, 0, 0, 0}, // hidepid does not apply to group 0
		{unix.SYS_SETRESGID, 65534, 65534, 65534},
		{unix.SYS_SETRESUID, 65534, 65534, 65534},
	} {
		if _, _, errno := unix.RawSyscall(call[0], call[1], call[2], call[3]); errno != 0 {
			fmt.Println("skip", errno)
			os.Exit(0)
		}
	}
	_, err := Inspect(id.PID)
	fmt.Printf("%v|%v\n", Check(id), err)
	os.Exit(0)
}
