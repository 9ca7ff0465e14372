package platform

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// SameFolder reports whether two paths lead to the same folder, also through links.
func SameFolder(a, b string) bool {
	if filepath.Clean(a) == filepath.Clean(b) {
		return true
	}
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// OwnerOf returns the user id of a file's owner, or -1 if it is not known.
func OwnerOf(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}
