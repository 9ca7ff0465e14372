//go:build unix

package main

import (
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

func ownerOf(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}

// mayRead and mayWrite ask the kernel about a folder, which knows access lists and read-only disks too.
func mayRead(path string) error { return unix.Access(path, unix.R_OK|unix.X_OK) }

func mayWrite(path string) error { return unix.Access(path, unix.W_OK|unix.X_OK) }

// freeAt is how many bytes are left for this user on the disk of a folder; -1 if that is not known.
func freeAt(path string) int64 {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return -1
	}
	return int64(st.Bavail) * int64(st.Bsize)
}

// descriptorLimit is how many files this process may open.
func descriptorLimit() (limit uint64, ok bool) {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return 0, false
	}
	return uint64(r.Cur), true
}
