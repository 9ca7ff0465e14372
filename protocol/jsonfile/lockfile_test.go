package jsonfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/livhana/steward/protocol/jsonfile"
)

// Exactly the users who may write in a folder may take the locks in it.
func TestLockFollowsTheFoldersMode(t *testing.T) {
	for _, c := range []struct{ folder, old, want os.FileMode }{
		{0o755, 0, 0o600}, {0o775, 0, 0o660}, {0o777, 0, 0o666}, {0o775, 0o600, 0o660}, {0o755, 0o644, 0o644},
	} {
		r, dir := open(t)
		must(t, os.Chmod(dir, c.folder))
		path := filepath.Join(dir, "a.lock")
		if c.old != 0 {
			must(t, errors.Join(os.WriteFile(path, nil, c.old), os.Chmod(path, c.old)))
		}
		f, err := r.OpenLock("a.lock")
		must(t, err)
		if info, err := f.Stat(); err != nil || info.Mode().Perm() != c.want || !r.Is("a.lock", f) {
			t.Errorf("%+v: mode %v, %v", c, info.Mode(), err)
		}
		must(t, os.Remove(path))
		if r.Is("a.lock", f) {
			t.Error("it was removed and still has its name")
		}
		f.Close()
	}
}

// A lock file is created in its existing folder or not at all.
func TestLockMakesNoFolder(t *testing.T) {
	r, dir := open(t)
	if _, err := r.OpenLock("none/a.lock"); !errors.Is(err, jsonfile.ErrNotExist) {
		t.Errorf("in a folder that is missing: %v", err)
	}
	must(t, os.RemoveAll(dir))
	if _, err := r.OpenLock("a.lock"); !errors.Is(err, jsonfile.ErrNotExist) {
		t.Errorf("in a folder that was removed: %v", err)
	}
	if err := r.Mkdir("own", 0o755); !errors.Is(err, jsonfile.ErrNotExist) {
		t.Errorf("a folder in one that was removed: %v", err)
	}
}

// A file that root creates in another user's folder belongs to the folder's owner.
func TestRootMakesTheOwnersFiles(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes files for others")
	}
	const owner = 65534
	r, dir := open(t)
	must(t, os.Chown(dir, owner, owner))
	f, err := r.OpenLock("lock")
	must(t, err)
	f.Close()
	must(t, r.Mkdir("one", 0o755))
	must(t, r.MkdirAll("some/more", 0o755))
	must(t, r.Create("some/more/new", nil, 0o644))
	must(t, r.Append("log", []byte("line")))
	late, err := r.Replace("doc", []byte("text"), jsonfile.Any)
	must(t, err)
	late.Close()
	for _, name := range []string{"lock", "one", "some", "some/more", "some/more/new", "log", "doc"} {
		if st, err := r.Stat(name); err != nil || st.UID != owner || st.GID != owner {
			t.Errorf("%s belongs to %d:%d (%v)", name, st.UID, st.GID, err)
		}
	}
}
