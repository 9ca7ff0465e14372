package measure

import "os"

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
