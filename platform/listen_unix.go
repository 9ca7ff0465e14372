//go:build unix

package platform

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// closedToOthers runs between socket and bind. On Linux the socket file takes the mode of the unbound socket, so it
// never exists with a wider one; macOS refuses this, and there the private folder covers the moment until chmod.
func closedToOthers(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) { _ = unix.Fchmod(int(fd), 0o600) })
}

func isSocket(info fs.FileInfo) bool { return info.Mode()&fs.ModeSocket != 0 }

// refused: nobody listens. A full queue (EAGAIN) or a missing right means that somebody may.
func refused(err error) bool {
	return errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.ENOENT)
}

func ours(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && uidOf(info) == os.Geteuid()
}
