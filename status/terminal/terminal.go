package terminal

import (
	"os"
	"syscall"
)

// HasControlling reports whether the process has a controlling terminal.
func HasControlling() bool {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	_ = f.Close()
	return true
}
