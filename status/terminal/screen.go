package terminal

import (
	"os"

	"golang.org/x/sys/unix"
)

// IsTerminalFile reports whether f is a terminal. /dev/null, a character device as well, is none.
func IsTerminalFile(f *os.File) bool {
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// ScreenWidth is the width of a terminal in cells; 0 when f is none.
func ScreenWidth(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}

// ScreenHeight is the height of a terminal in lines; 0 when f is none.
func ScreenHeight(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Row)
}
