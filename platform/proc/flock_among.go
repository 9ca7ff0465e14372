package proc

import "fmt"

// FlockHoldersAmong returns those of some processes that hold an flock(2) on a file, by number, also where the process
// that took it lives and shares it with them: FlockHolders names only that one then. Linux only, like Table.
func FlockHoldersAmong(path string, pids []int) ([]Identity, error) {
	held, err := flockHoldersAmong(path, pids)
	if err != nil {
		return nil, fmt.Errorf("find holders of the lock %s: %w", path, err)
	}
	return held, nil
}
