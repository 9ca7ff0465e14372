package platform

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

func closedToOthers(_, _ string, _ syscall.RawConn) error { return nil }

// isSocket: a bound Unix socket is a reparse point here, which Go reports as irregular or as a socket by its version.
func isSocket(info fs.FileInfo) bool { return info.Mode()&(fs.ModeSocket|fs.ModeIrregular) != 0 }

func refused(err error) bool { return errors.Is(err, windows.WSAECONNREFUSED) }

func ours(*os.File) bool { return true }
