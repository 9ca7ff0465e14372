package service

import (
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// ownerName returns the name of a folder's owner; "" if the folder or its owner is unknown, or the owner is root.
func ownerName(dir string) string {
	info, err := os.Stat(dir)
	if err != nil {
		return ""
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || st.Uid == 0 {
		return ""
	}
	u, err := user.LookupId(strconv.FormatUint(uint64(st.Uid), 10))
	if err != nil {
		return ""
	}
	return u.Username
}
