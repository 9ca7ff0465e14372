//go:build unix

package platform

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestLockRefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	if err := os.WriteFile(target, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	link, pipe := filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, pipe, "/dev/null"} {
		if l, err := Lock(path, 0o600); err == nil {
			l.Unlock()
			t.Errorf("locked %s", path)
		}
		if _, err := ReadLock(path); err == nil {
			t.Errorf("read %s", path)
		}
	}
}

func TestReplacedLockFileIsNotTheLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.lock")
	f, err := openLock(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if !named(f, path) {
		t.Fatal("the file is in place")
	}
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	if named(f, path) {
		t.Fatal("the file is gone from its name")
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if named(f, path) {
		t.Fatal("another file has its name")
	}
}
