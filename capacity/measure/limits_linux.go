package measure

import (
	"bytes"
	"os"
)

// parseLimits finds the soft limit of open files in /proc/<pid>/limits.
func parseLimits(text []byte) (uint64, bool) {
	for len(text) > 0 {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte{'\n'})
		if rest, ok := bytes.CutPrefix(line, []byte("Max open files ")); ok {
			n, _, ok := number(rest)
			return n, ok && n > 0
		}
	}
	return 0, false
}

// ownFiles returns the number of descriptors of this process and their limit. It is not ok if a test uses another
// procfs or if they cannot be counted.
func ownFiles(procfs string) (f files, ok bool) {
	if procfs != realProc {
		return files{}, false
	}
	pid := os.Getpid()
	open, ok := openFiles(procfs, pid)
	f = files{open: uint64(open), limit: fileLimit(procfs, pid)}
	return f, ok && f.limit > 0
}
