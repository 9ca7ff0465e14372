package platform

import (
	"errors"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestSharedLockOutlivesTheOneWhoTookIt: a lock shared with a program lasts until both the program and the original
// holder have released it.
func TestSharedLockOutlivesTheOneWhoTookIt(t *testing.T) {
	for _, shared := range []bool{true, false} {
		path := filepath.Join(t.TempDir(), "a.lock")
		l, err := Lock(path, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Share(shared); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sleep", "600")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if err := l.Share(false); err != nil {
			t.Fatal(err)
		}
		if err := l.Leave(); err != nil {
			t.Fatal(err)
		}
		if again, err := Lock(path, 0o600); shared != errors.Is(err, ErrLocked) {
			t.Errorf("shared %v, its program lives: %v", shared, err)
		} else if err == nil {
			again.Unlock()
		}
		cmd.Process.Kill()
		cmd.Wait()
		again, err := LockQueue(deadline(t, 10*time.Second), path, 0o600)
		if err != nil {
			t.Fatalf("shared %v, its program is gone: %v", shared, err)
		}
		again.Unlock()
	}
}
