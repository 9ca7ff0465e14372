package main

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// folder is what can be known of a folder without changing it.
type folder struct {
	missing bool
	err     error // why it cannot be looked at
	isDir   bool
	mode    fs.FileMode
	owner   int // -1 where that is no question
	read    error
	write   error
	free    int64 // bytes left on its disk; -1 where that is not known
}

// folderAt looks; a disk that hangs makes it hang.
func folderAt(path string) folder {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return folder{missing: true}
	case err != nil:
		return folder{err: err}
	}
	return folder{isDir: info.IsDir(), mode: info.Mode(), owner: ownerOf(info), read: mayRead(path), write: mayWrite(path), free: freeAt(path)}
}
