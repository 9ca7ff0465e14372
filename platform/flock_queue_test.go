package platform

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"
)

func TestLockQueueWaitsForAnotherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.lock")
	end := holder(t, path)
	got := make(chan error, 1)
	go func() {
		l, err := LockQueue(t.Context(), path, 0o600)
		if err == nil {
			err = l.Unlock()
		}
		got <- err
	}()
	select {
	case err := <-got:
		t.Fatalf("while another process holds it: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	end()
	if err := <-got; err != nil {
		t.Fatalf("after the holder's death: %v", err)
	}
}

// TestLockQueueCalledOff: a cancelled waiter leaves nothing behind; the lock is free again as soon as its holder
// releases it.
func TestLockQueueCalledOff(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.lock")
	held, err := Lock(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := LockQueue(ctx, path, 0o600); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	held.Unlock()
	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	l, err := LockQueue(ctx, path, 0o600)
	if err != nil {
		t.Fatalf("the one that was called off kept it: %v", err)
	}
	l.Unlock()
}

func deadline(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
