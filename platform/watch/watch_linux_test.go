package watch

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestNewWithoutDescriptors(t *testing.T) {
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &old)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	if _, err := New(); !errors.Is(err, ErrNoWatches) {
		t.Fatalf("got %v", err)
	}
}

// TestFolderDeletedWhileInUse: the kernel reports the deletion only when the last process using the folder has left
// it.
func TestFolderDeletedWhileInUse(t *testing.T) {
	w, root := running(t), t.TempDir()
	dir := folderOf(t, filepath.Join(root, "dir"))
	user, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer user.Close()
	set(t, w, "p", dir)
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	folderOf(t, dir)
	set(t, w, "p", dir)
	until(t, w, Event{Key: "p", Path: write(t, filepath.Join(dir, "a"))})
}
