package confine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/landlock-lsm/go-landlock/landlock"
	"github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// The access rights that are removed, by the landlock ABI version that introduced them.
const (
	writesV1 = syscall.AccessFSWriteFile | syscall.AccessFSRemoveDir | syscall.AccessFSRemoveFile | syscall.AccessFSMakeChar |
		syscall.AccessFSMakeDir | syscall.AccessFSMakeReg | syscall.AccessFSMakeSock | syscall.AccessFSMakeFifo |
		syscall.AccessFSMakeBlock | syscall.AccessFSMakeSym
	// Moving and linking between folders: ABI version 1 denies it everywhere and cannot allow it.
	writesV2 = syscall.AccessFSRefer
	writesV3 = syscall.AccessFSTruncate
	writesV5 = syscall.AccessFSIoctlDev

	// The rights that a rule for a file other than a folder may contain.
	ofFiles = syscall.AccessFSWriteFile | syscall.AccessFSTruncate | syscall.AccessFSIoctlDev
)

// writesOf returns the write rights that a kernel with this ABI version supports.
func writesOf(abi int) landlock.AccessFSSet {
	rights := landlock.AccessFSSet(writesV1)
	for since, more := range map[int]landlock.AccessFSSet{2: writesV2, 3: writesV3, 5: writesV5} {
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
	abi, err := syscall.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	return abi
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
	rights := writesOf(abi)
	config, err := landlock.NewConfig(rights)
	if err != nil {
		return err
	}
	var rules []landlock.Rule
	for _, path := range append(devices(), beneath...) {
		allowed := rights
		if st, err := os.Stat(path); err == nil && !st.IsDir() {
			allowed &= ofFiles
		}
		rules = append(rules, landlock.PathAccess(allowed, path).IgnoreIfMissing())
	}
	return config.Restrict(rules...)
}
