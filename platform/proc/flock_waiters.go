package proc

import "fmt"

// FlockWaiters returns the processes that wait in the kernel's queue for an flock(2) on a file, by number. Like
// FlockHolders it never opens the file, and what it may not see into stays unnamed. Linux only, like Table.
func FlockWaiters(path string) ([]Identity, error) {
	waiting, err := flockWaiters(path)
	if err != nil {
		return nil, fmt.Errorf("find who waits for the lock %s: %w", path, err)
	}
	return waiting, nil
}
