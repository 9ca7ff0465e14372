package platform

import (
	"os"
	"path/filepath"
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
