package proc

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

func flockHoldersAmong(path string, pids []int) ([]Identity, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Stat(real, &st); err != nil {
		return nil, err
	}
	return lockFile{filepath.Base(real), uint64(st.Dev), st.Ino}.holders(pids), nil
}
