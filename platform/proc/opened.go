package proc

import "fmt"

// OpenFile is a descriptor of a process through which it can write a regular file.
type OpenFile struct {
	Path   string // absolute
	FD     int    // the descriptor number in that process
	Append bool   // every write goes to the end (O_APPEND), as with a log
}

// Opened returns the descriptors through which a process can write regular files, sorted by number. It has the limits
// of Writes: removed files are left out; Linux only, and only for one's own processes (or as root).
func Opened(pid int) ([]OpenFile, error) {
	files, err := opened(pid)
	if err != nil {
		return nil, fmt.Errorf("descriptors of process %d: %w", pid, err)
	}
	return files, nil
}
