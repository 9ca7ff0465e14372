package platform

import (
	"os"
	"path/filepath"
	"testing"
)

// TestFolderIdentity: a renamed folder keeps its identity; another folder at its old path has a different one.
func TestFolderIdentity(t *testing.T) {
	dir, _ := filepath.EvalSymlinks(t.TempDir())
	old, moved, link := filepath.Join(dir, "old"), filepath.Join(dir, "moved"), filepath.Join(dir, "link")
	identify := func(path string) (string, FolderID) {
		t.Helper()
		at, id, err := IdentifyFolder(path)
		if err != nil || id.Inode == 0 {
			t.Fatalf("%s: %+v, %v", path, id, err)
		}
		return at, id
	}
	os.Mkdir(old, 0o700)
	_, first := identify(old)
	os.Rename(old, moved)
	os.Mkdir(old, 0o700)
	os.Symlink(moved, link)
	if at, id := identify(link); id != first || at != moved {
		t.Errorf("moved: %s %+v, want %+v", at, id, first)
	}
	if _, id := identify(old); id == first {
		t.Errorf("another folder has the same identity: %+v", id)
	}
	if _, _, err := IdentifyFolder(filepath.Join(dir, "none")); !os.IsNotExist(err) {
		t.Errorf("a folder that is not there: %v", err)
	}
}
