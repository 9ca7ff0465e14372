package jsonfile

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// folder is an open directory. Every name passed to it is a single component; together with O_NOFOLLOW, no call can
// leave the directory.
type folder struct{ f *os.File }

// on runs a system call on the folder's descriptor. It retries when a signal interrupts the call, and never uses a
// descriptor that has been closed.
func (d folder) on(call func(fd int) error) error {
	c, err := d.f.SyscallConn()
	if err != nil {
		return err
	}
	var cerr error
	err = c.Control(func(fd uintptr) {
		for cerr = call(int(fd)); cerr == unix.EINTR; {
			cerr = call(int(fd))
		}
	})
	if err != nil { // only "file is closed", in a form that errors.Is does not know
		return fs.ErrClosed
	}
	return cerr
}

// dirFlags need no O_NONBLOCK: O_DIRECTORY refuses other kinds before opening them. With O_NONBLOCK, package os would
// try in vain to register each directory with epoll.
const dirFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC

func openTop(path string) (folder, error) {
	f, err := os.OpenFile(path, dirFlags, 0)
	return folder{f}, err
}

func (d folder) close() error { return d.f.Close() }

func (d folder) sub(name string) (folder, error) {
	f, err := d.openAt(name, dirFlags, 0)
	return folder{f}, err
}

// open never blocks: with O_NONBLOCK a FIFO returns at once.
func (d folder) open(name string, flag int, perm fs.FileMode) (*os.File, error) {
	return d.openAt(name, flag|unix.O_NONBLOCK, perm)
}

func (d folder) openAt(name string, flag int, perm fs.FileMode) (*os.File, error) {
	got := -1
	err := d.on(func(fd int) (err error) {
		got, err = unix.Openat(fd, name, flag|unix.O_NOFOLLOW|unix.O_CLOEXEC, uint32(perm.Perm()))
		return err
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(got), name), nil
}

func (d folder) lstat(name string) (Stamp, error) {
	var st unix.Stat_t
	err := d.on(func(fd int) error { return unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	return stamp(&st), err
}

func fstat(f *os.File) (Stamp, error) {
	var st unix.Stat_t
	err := folder{f}.on(func(fd int) error { return unix.Fstat(fd, &st) })
	return stamp(&st), err
}

func (d folder) isAt(path string) bool {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP) && !errors.Is(err, unix.EACCES)
	}
	own, err := fstat(d.f)
	return err != nil || own.sameFile(stamp(&st))
}

func (d folder) mkdir(name string, perm fs.FileMode) error {
	return d.on(func(fd int) error { return unix.Mkdirat(fd, name, uint32(perm.Perm())) })
}

// mayWrite asks the system whether entries can be created in the folder.
func (d folder) mayWrite() error {
	return d.on(func(fd int) error { return unix.Faccessat(fd, ".", unix.W_OK|unix.X_OK, unix.AT_EACCESS) })
}

func (d folder) unlink(name string) error {
	return d.on(func(fd int) error { return unix.Unlinkat(fd, name, 0) })
}

func (d folder) link(old string, to folder, name string) error {
	return d.two(to, func(a, b int) error { return unix.Linkat(a, old, b, name, 0) })
}

func (d folder) rename(old string, to folder, name string) error {
	return d.two(to, func(a, b int) error { return unix.Renameat(a, old, b, name) })
}

func (d folder) two(to folder, call func(a, b int) error) error {
	return d.on(func(a int) error {
		return to.on(func(b int) error { return call(a, b) })
	})
}

// sync makes the folder's entries durable. Some file systems do not support it and return EINVAL; then there is nothing
// to do.
func (d folder) sync() error {
	err := d.on(unix.Fsync)
	if err == unix.EINVAL || unsupported(err) {
		return nil
	}
	return err
}

func stamp(st *unix.Stat_t) Stamp {
	return Stamp{
		Dev: uint64(st.Dev), Inode: uint64(st.Ino), Size: st.Size,
		MtimeNs: st.Mtim.Nano(), CtimeNs: st.Ctim.Nano(),
		Mode: mode(uint32(st.Mode)), UID: int(st.Uid), GID: int(st.Gid), Links: uint64(st.Nlink),
	}
}

func mode(m uint32) fs.FileMode {
	perm := fs.FileMode(m & 0o777)
	switch m & unix.S_IFMT {
	case unix.S_IFREG:
		return perm
	case unix.S_IFDIR:
		return perm | fs.ModeDir
	case unix.S_IFLNK:
		return perm | fs.ModeSymlink
	case unix.S_IFIFO:
		return perm | fs.ModeNamedPipe
	case unix.S_IFSOCK:
		return perm | fs.ModeSocket
	case unix.S_IFCHR, unix.S_IFBLK:
		return perm | fs.ModeDevice
	}
	return perm | fs.ModeIrregular
}

func isNoSpace(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

func isReadOnly(err error) bool { return errors.Is(err, unix.EROFS) }

func isTooManyFiles(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)
}

// isLink: open returns ELOOP for a symbolic link under O_NOFOLLOW.
func isLink(err error) bool { return errors.Is(err, unix.ELOOP) }

// unsupported: the file system or the kernel does not support the call.
func unsupported(err error) bool {
	return errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.ENOTSUP) || errors.Is(err, errors.ErrUnsupported)
}
