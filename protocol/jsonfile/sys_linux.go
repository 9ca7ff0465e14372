package jsonfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// renameNew fails with EEXIST if name is taken; it is unsupported on file systems that do not know the flag (they
// return EINVAL).
func (d folder) renameNew(old string, to folder, name string) error {
	return d.flagged(old, to, name, unix.RENAME_NOREPLACE)
}

// exchange swaps two entries atomically.
func (d folder) exchange(a, b string) error {
	return d.flagged(a, d, b, unix.RENAME_EXCHANGE)
}

func (d folder) flagged(old string, to folder, name string, flag uint) error {
	err := d.two(to, func(a, b int) error { return unix.Renameat2(a, old, b, name, flag) })
	if err == unix.EINVAL {
		return unix.ENOTSUP
	}
	return err
}

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

// reserve makes sure that the disk has room for n bytes at the end of a file of this size. A full disk would otherwise
// take a part of a line, which other programs would read.
func reserve(f *os.File, size int64, n int) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	cerr := raw.Control(func(fd uintptr) { err = unix.Fallocate(int(fd), unix.FALLOC_FL_KEEP_SIZE, size, int64(n)) })
	if isNoSpace(err) {
		return err
	}
	return cerr // a file system without reservations: the write itself shows whether there is room
}

// A struct linux_dirent64: inode, offset, record length, kind, then the zero-terminated name.
const (
	direntInode  = 0
	direntLength = 16
	direntName   = 19
)

// namesAtOnce is the buffer size of one system call.
const namesAtOnce = 64 << 10

// each passes the folder's names as raw bytes: package os would allocate a string for each.
func (d folder) each(take func(name []byte)) error {
	buf := make([]byte, namesAtOnce)
	for {
		n := 0
		err := d.on(func(fd int) (err error) {
			n, err = unix.Getdents(fd, buf)
			return err
		})
		if err != nil || n <= 0 {
			return err
		}
		if err := split(buf[:n], take); err != nil {
			return err
		}
	}
}

func split(records []byte, take func(name []byte)) error {
	for len(records) > 0 {
		length := 0
		if len(records) > direntName {
			length = int(binary.NativeEndian.Uint16(records[direntLength:]))
		}
		if length <= direntName || length > len(records) {
			return errors.New("the system's list of names makes no sense")
		}
		name := records[direntName:length]
		if end := bytes.IndexByte(name, 0); end >= 0 {
			name = name[:end]
		}
		free := binary.NativeEndian.Uint64(records[direntInode:]) == 0
		if !free && string(name) != "." && string(name) != ".." {
			take(name)
		}
		records = records[length:]
	}
	return nil
}
