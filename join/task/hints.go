package task

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"github.com/livhana/steward/platform/watch"
	"github.com/livhana/steward/protocol/agentstatus"
)

// Folders are those of the tasks of protocol 000 in the project at dir.
func Folders(dir string) []string {
	base := filepath.Join(dir, filepath.FromSlash(agentstatus.Base))
	return []string{filepath.Join(base, "codex_tasks"), filepath.Join(base, "steward", "attempts")}
}

// Hints sends a hint when files in the folders change, as far as the kernel reports it. stop ends that, also after an
// error.
func Hints(folders []string) (hints <-chan struct{}, stop func(), err error) {
	w, err := watch.New()
	if err != nil {
		return nil, func() {}, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	out := make(chan struct{}, 1)
	var both sync.WaitGroup
	both.Go(func() { _ = w.Run(ctx) })
	both.Go(func() {
		// The folders may be created later or replaced: so they are added to the watcher again periodically.
		again := time.NewTicker(5 * time.Second)
		defer again.Stop()
		missing, _ := w.Set("tasks", folders)
		for {
			select {
			case <-ctx.Done():
				return
			case <-w.Events():
			case <-again.C:
				before := len(missing)
				if missing, _ = w.Set("tasks", folders); len(missing) >= before {
					continue
				}
			}
			select {
			case out <- struct{}{}:
			default: // a hint is already pending
			}
		}
	})
	return out, func() { cancel(); both.Wait() }, nil
}
