package proc

import "fmt"

// FlockHoldersAmong returns those of the given processes that hold an flock(2) on a file, sorted by pid. It includes
// processes that share the lock with the process that acquired it, even while that process lives; FlockHolders then
// returns only the latter. Linux only, like Table.
func FlockHoldersAmong(path string, pids []int) ([]Identity, error) {
	held, err := flockHoldersAmong(path, pids)
	if err != nil {
		return nil, fmt.Errorf("find holders of the lock %s: %w", path, err)
	}
	return held, nil
}
