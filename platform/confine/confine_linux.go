package confine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The access rights that are removed, by the landlock ABI version that introduced them.
const (
	writesV1 = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM
	// Moving and linking between folders: ABI version 1 denies it everywhere and cannot allow it.
	writesV2 = unix.LANDLOCK_ACCESS_FS_REFER
	writesV3 = unix.LANDLOCK_ACCESS_FS_TRUNCATE
	writesV5 = unix.LANDLOCK_ACCESS_FS_IOCTL_DEV

	// The rights that a rule for a file other than a folder may contain.
	ofFiles = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// writesOf returns the write rights that a kernel with this ABI version supports.
func writesOf(abi int) uint64 {
	rights := uint64(writesV1)
	for since, more := range map[int]uint64{2: writesV2, 3: writesV3, 5: writesV5} {
		if abi >= since {
			rights |= more
		}
	}
	return rights
}

// devices returns the paths that programs write to without storing anything.
func devices() []string {
	paths := []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts", "/dev/shm"}
	if os.Geteuid() != 0 {
		paths = append(paths, "/proc") // all of /proc: /proc/self differs per process; not for root, who would get /proc/sys with it
	}
	return paths
}

func supported() bool { return version() > 0 }

// version returns the kernel's landlock ABI version, or 0 if it has no landlock.
func version() int {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(abi)
}

func writing(beneath []string) error {
	for _, path := range beneath {
		if !filepath.IsAbs(path) {
			return fmt.Errorf("%q is not an absolute path", path)
		}
	}
	abi := version()
	if abi == 0 {
		return errors.ErrUnsupported
	}
	rules, err := newRules(writesOf(abi))
	if err != nil {
		return err
	}
	defer unix.Close(rules.fd)
	for _, path := range append(devices(), beneath...) {
		if err := rules.allow(path); err != nil {
			return fmt.Errorf("allow %s: %w", path, err)
		}
	}
	// While a goroutine is locked, the runtime creates new threads from another thread, so they do not inherit the
	// restriction.
	runtime.LockOSThread()
	if err := rules.enforce(); err != nil {
		runtime.UnlockOSThread()
		return err
	}
	return nil
}

// rules is a landlock rule set under construction.
type rules struct {
	fd     int
	rights uint64
}

func newRules(rights uint64) (rules, error) {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: rights}
	// Pass only the first field of the struct: an older kernel does not know the others.
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr.Handled_access_fs), 0)
	if errno != 0 {
		return rules{}, fmt.Errorf("make a landlock rule set: %w", errno)
	}
	return rules{int(fd), rights}, nil
}

// allow grants all rights beneath the file that path leads to now; a file created later under the same name gets
// none.
func (r rules) allow(path string) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: r.rights, Parent_fd: int32(fd)}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		attr.Allowed_access &= ofFiles
	}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(r.fd), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// enforce restricts the calling thread. Without no_new_privs only root may restrict itself.
func (r rules) enforce() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up new privileges: %w", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(r.fd), 0, 0); errno != 0 {
		return fmt.Errorf("enforce the landlock rule set: %w", errno)
	}
	return nil
}
