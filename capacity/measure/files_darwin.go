package measure

import (
	"fmt"

	"golang.org/x/sys/unix"
)

func readFiles(*Gauge) (files, error) {
	open, err := unix.SysctlUint32("kern.num_files")
	if err != nil {
		return files{}, fmt.Errorf("read kern.num_files: %w", err)
	}
	limit, err := unix.SysctlUint32("kern.maxfiles")
	if err != nil {
		return files{}, fmt.Errorf("read kern.maxfiles: %w", err)
	}
	if limit == 0 {
		return files{}, fmt.Errorf("read kern.maxfiles: a limit of 0 is impossible")
	}
	return files{open: uint64(open), limit: uint64(limit)}, nil
}
