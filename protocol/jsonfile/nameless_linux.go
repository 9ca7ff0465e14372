package jsonfile

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// nameless opens a new file that has no name and disappears when its last handle is closed.
func (d folder) nameless() (*os.File, error) {
	return d.openAt(".", unix.O_WRONLY|unix.O_TMPFILE, 0o600)
}

// give links a nameless file into the folder. It returns ErrNotExist if the folder was removed, ErrUnsupported if
// linking this way is not possible (no /proc, a sandbox).
func (d folder) give(f *os.File, name string) error {
	err := folder{f}.two(d, func(file, dir int) error {
		return unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(file), dir, name, unix.AT_SYMLINK_FOLLOW)
	})
	if err == nil || isNoSpace(err) || isReadOnly(err) || errors.Is(err, unix.EIO) {
		return err
	}
	if st, serr := fstat(d.f); serr != nil || st.Links == 0 {
		return err // the folder was removed
	}
	return errors.ErrUnsupported
}
