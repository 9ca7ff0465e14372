package jsonfile

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// nameless opens a new file that stands in no folder and goes with its last
// handle.
func (d folder) nameless() (*os.File, error) {
	return d.openAt(".", unix.O_WRONLY|unix.O_TMPFILE, 0o600)
}

// give puts a nameless file into the folder. ErrNotExist when the folder was
// removed, ErrUnsupported when it cannot be done in this way (no /proc, a
// sandbox).
func (d folder) give(f *os.File, name string) error {
	err := folder{f}.two(d, func(file, dir int) error {
		return unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(file), dir, name, unix.AT_SYMLINK_FOLLOW)
	})
	if err == nil || isNoSpace(err) || isReadOnly(err) || errors.Is(err, unix.EIO) {
		return err
	}
	if st, serr := d.stat(); serr != nil || st.Links == 0 {
		return err // the folder is removed
	}
	return errors.ErrUnsupported
}
