package main

import (
	"os"

	"golang.org/x/sys/windows"
)

// screenWidth is the width of a console in cells; 0 when f is none.
func screenWidth(f *os.File) int {
	var s windows.ConsoleScreenBufferInfo
	if windows.GetConsoleScreenBufferInfo(windows.Handle(f.Fd()), &s) != nil {
		return 0
	}
	return int(s.Window.Right-s.Window.Left) + 1
}

// screenHeight is the height of a console in lines; 0 when f is none.
func screenHeight(f *os.File) int {
	var s windows.ConsoleScreenBufferInfo
	if windows.GetConsoleScreenBufferInfo(windows.Handle(f.Fd()), &s) != nil {
		return 0
	}
	return int(s.Window.Bottom-s.Window.Top) + 1
}

// onTerminal reports whether f is a terminal; here that is not found out.
func onTerminal(*os.File) bool { return false }
