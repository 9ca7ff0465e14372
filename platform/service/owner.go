package service

import (
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// ownerName is the name of a folder's owner; "" if there is none, or it is root.
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
