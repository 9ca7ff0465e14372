package platform

import "path/filepath"

// FolderID tells one folder from every other, whatever its path is. The device may change when the machine is restarted, so
// Born decides where the file system records it.
type FolderID struct {
	Device, Inode uint64
	Born          int64 // nanoseconds since 1970; 0: not recorded
}

// IdentifyFolder gives the path without symbolic links, and the identity, of the folder that dir leads to.
func IdentifyFolder(dir string) (path string, id FolderID, err error) {
	if path, err = filepath.EvalSymlinks(dir); err != nil {
		return "", id, err
	}
	id, err = folderID(path)
	return path, id, err
}
