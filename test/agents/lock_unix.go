//go:build unix

package agents

import (
	"os"
	"path/filepath"
	"syscall"
)

// lock keeps other test processes from installing at the same time.
func lock(dir string) (unlock func(), err error) {
	f, err := os.Create(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}
