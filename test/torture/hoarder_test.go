package torture

import (
	"flag"
	"fmt"
	"os"
	"syscall"
	"time"
)

// hoarderMain is an agent's process that opens files and never closes one: hoarder -go FILE [-limit N] [-rate PER_SECOND].
// It begins when FILE is there.
func hoarderMain() {
	begin := flag.String("go", "go", "")
	limit := flag.Uint64("limit", 1024, "")
	rate := flag.Int("rate", 300, "")
	flag.Parse()
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: *limit, Max: *limit}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for {
		if _, err := os.Stat(*begin); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	start := time.Now()
	for opened := 0; ; time.Sleep(5 * time.Millisecond) {
		for opened < int(time.Since(start).Seconds()*float64(*rate)) {
			if _, err := syscall.Open(os.DevNull, syscall.O_RDONLY, 0); err != nil {
				opened = 1 << 40 // full: it only keeps what it has
			}
			opened++
		}
	}
}
