package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/livhana/steward/platform"
)

// folder is what can be found out about a folder without changing it.
type folder struct {
	missing bool
	err     error // why it cannot be examined
	isDir   bool
	mode    fs.FileMode
	owner   int // -1 if the platform has no owners
	read    error
	write   error // if it is missing: why it cannot be created
	free    int64 // bytes left on its disk; -1 if unknown
}

// folderAt examines a folder. It hangs if the disk hangs.
func folderAt(path string) folder {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return folder{missing: true, write: mayMake(path)}
	case err != nil:
		return folder{err: err}
	}
	return folder{isDir: info.IsDir(), mode: info.Mode(), owner: platform.OwnerOf(info), read: mayRead(path), write: mayWrite(path), free: freeAt(path)}
}

// mayMake reports whether a missing folder could be created: it checks the nearest existing folder above it.
func mayMake(path string) error {
	for up := filepath.Dir(path); ; up = filepath.Dir(up) {
		info, err := os.Stat(up)
		switch {
		case err == nil && !info.IsDir():
			return fmt.Errorf("%s is not a folder", up)
		case err == nil:
			if err := mayWrite(up); err != nil {
				return fmt.Errorf("%s: %w", up, err)
			}
			return nil
		case up == filepath.Dir(up):
			return err
		}
	}
}
