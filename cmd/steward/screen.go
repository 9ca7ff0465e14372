package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// onTerminal reports whether f is a terminal. /dev/null, a character device as well, is none.
func onTerminal(f *os.File) bool {
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// screenWidth is the width of a terminal in cells; 0 when f is none.
func screenWidth(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}

// screenHeight is the height of a terminal in lines; 0 when f is none.
func screenHeight(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Row)
}
