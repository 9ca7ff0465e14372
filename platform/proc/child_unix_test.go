//go:build unix

package proc

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

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

// endOwnMark ends the tree in which it was started itself, while a child of its own works.
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

// loseLeader ends the main thread, while the others go on: goroutines that keep their threads fill all of them, until
// one has the main thread.
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
