package ralph

import (
	"context"
	"os"
	"syscall"
	"time"
)

// flockAt takes the lock as the program does.
func flockAt(ctx context.Context, path string) (func(), error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return flock(ctx, f)
}

// flock is the Flock option as production wires it: flock(2), with a wait until ctx ends.
func flock(ctx context.Context, f *os.File) (func(), error) {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(2 * time.Millisecond):
		}
	}
}
