package platform

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// SameFolder compares two paths as folders: links may lead to the same one.
func SameFolder(a, b string) bool {
	if filepath.Clean(a) == filepath.Clean(b) {
		return true
	}
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// OwnerOf is the user id of a file's owner, -1 where it is not known.
func OwnerOf(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}
