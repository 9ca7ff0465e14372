package proc

import "fmt"

// FlockHolders returns the processes that hold an flock(2) on a file, sorted by pid. It never opens the file: even a
// short trial lock would make another program's "flock -n" fail. A lock belongs to the open file. If the process that
// acquired the lock has ended (a shell that calls flock(1)), all processes that share the open file through fork are
// returned. Processes that this process may not inspect are left out. Linux only, like Table.
func FlockHolders(path string) ([]Identity, error) {
	held, err := flockHolders(path)
	if err != nil {
		return nil, fmt.Errorf("find holders of the lock %s: %w", path, err)
	}
	return held, nil
}

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

// FlockWaiters returns the processes that wait in the kernel's queue for an flock(2) on a file, sorted by pid. Like
// FlockHolders, it never opens the file and leaves out processes that it may not inspect. Linux only, like Table.
func FlockWaiters(path string) ([]Identity, error) {
	waiting, err := flockWaiters(path)
	if err != nil {
		return nil, fmt.Errorf("find who waits for the lock %s: %w", path, err)
	}
	return waiting, nil
}
