package terminal

import (
	"os"

	"golang.org/x/sys/unix"
)

// IsTerminalFile reports whether f is a terminal. /dev/null, also a character device, is not.
func IsTerminalFile(f *os.File) bool {
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// ScreenWidth is the width of a terminal in cells; 0 if f is not a terminal.
func ScreenWidth(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}

// ScreenHeight is the height of a terminal in lines; 0 if f is not a terminal.
func ScreenHeight(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Row)
}
