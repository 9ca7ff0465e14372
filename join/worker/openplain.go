package worker

import (
	"os"
	"syscall"
)

// openPlain opens a file that may have become a FIFO since it was looked at: that must not hold anybody up.
func openPlain(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}
