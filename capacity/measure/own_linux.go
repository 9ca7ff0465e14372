package measure

import "os"

// ownFiles are the descriptors of this process, and how many it may have; not ok when a test reads another procfs, or they
// cannot be counted.
func ownFiles(procfs string) (f files, ok bool) {
	if procfs != realProc {
		return files{}, false
	}
	pid := os.Getpid()
	open, ok := openFiles(procfs, pid)
	f = files{open: uint64(open), limit: fileLimit(procfs, pid)}
	return f, ok && f.limit > 0
}
