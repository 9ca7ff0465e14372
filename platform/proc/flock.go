package proc

import "fmt"

// FlockHolders returns the processes that hold an flock(2) on a file, by number. The file is never opened: even a lock
// that is tried and given back at once makes the "flock -n" of others fail. A lock belongs to the open file, so all
// processes that share it through fork are named when the one that asked for the lock has ended (a shell that calls
// flock(1)). What this process may not see into stays unnamed. Linux only, like Table.
func FlockHolders(path string) ([]Identity, error) {
	held, err := flockHolders(path)
	if err != nil {
		return nil, fmt.Errorf("find holders of the lock %s: %w", path, err)
	}
	return held, nil
}
