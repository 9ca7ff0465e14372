package status

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// checkOwner refuses a path that is no socket, or a socket of an untrusted user. It follows links, as connecting does.
func checkOwner(path string, trusted func(uid int) bool) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSocket == 0 {
		return fmt.Errorf("it is no socket (%s)", info.Mode())
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if ok && !trusted(int(st.Uid)) {
		return fmt.Errorf("%w (uid %d)", ErrForeign, st.Uid)
	}
	return nil
}
