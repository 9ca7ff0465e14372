package service

import (
	"context"
	"fmt"
	"os"

	"github.com/livhana/steward/platform"
)

// lockFolder lets only one installation at a time change the units in a folder. It locks the folder itself, so that
// no lock file is left behind.
func lockFolder(ctx context.Context, dir string) (release func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if _, err := platform.LockOpenWait(ctx, f); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return func() { f.Close() }, nil
}
