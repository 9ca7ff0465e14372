package proc

import "fmt"

// FlockWaiters returns the processes that wait in the kernel's queue for an flock(2) on a file, sorted by pid. Like
// FlockHolders, it never opens the file and leaves out processes that it may not inspect. Linux only, like Table.
func FlockWaiters(path string) ([]Identity, error) {
	waiting, err := flockWaiters(path)
	if err != nil {
		return nil, fmt.Errorf("find who waits for the lock %s: %w", path, err)
	}
	return waiting, nil
}
