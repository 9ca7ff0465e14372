package worker

import (
	"os"
	"syscall"
)

// openPlain opens a file that may have become a FIFO since the check; O_NONBLOCK keeps the open from blocking.
func openPlain(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}
