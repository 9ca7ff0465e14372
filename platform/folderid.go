package platform

import "path/filepath"

// FolderID identifies a folder independently of its path. The device number may change when the machine restarts;
// Born is therefore decisive where the file system records it.
type FolderID struct {
	Device, Inode uint64
	Born          int64 // nanoseconds since 1970; 0: not recorded
}

// IdentifyFolder returns the identity of the folder that dir leads to, and its path without symbolic links.
func IdentifyFolder(dir string) (path string, id FolderID, err error) {
	if path, err = filepath.EvalSymlinks(dir); err != nil {
		return "", id, err
	}
	id, err = folderID(path)
	return path, id, err
}
