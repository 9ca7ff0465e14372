//go:build unix

package ralph

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// ownSession makes a command the leader of a session: no signal of our terminal or our unit's end is meant for it.
func ownSession(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// openSeen opens a file to append to it, through no link, if it is the one that was seen.
func openSeen(path string, want jsonfile.Stamp) (*os.File, error) {
	fd, err := syscall.Open(path, syscall.O_WRONLY|syscall.O_APPEND|syscall.O_CLOEXEC|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	f := os.NewFile(uintptr(fd), path)
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if uint64(st.Dev) != want.Dev || uint64(st.Ino) != want.Inode || st.Mode&syscall.S_IFMT != syscall.S_IFREG || st.Nlink != 1 {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, jsonfile.ErrHostile), f.Close())
	}
	return f, nil
}

func lockLog(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return folder.Moved("another resume command has just been started")
	}
	return err
}
