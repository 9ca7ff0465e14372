package platform

import (
	"os"
	"syscall"
)

func folderID(path string) (FolderID, error) {
	info, err := os.Stat(path)
	if err != nil {
		return FolderID{}, err
	}
	st := info.Sys().(*syscall.Stat_t)
	return FolderID{Device: uint64(st.Dev), Inode: st.Ino, Born: st.Birthtimespec.Nano()}, nil
}
