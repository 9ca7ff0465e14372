package service

import (
	"os"
	"path/filepath"
	"testing"
)

func TestShelf(t *testing.T) {
	dir := t.TempDir()
	old, fresh := File{filepath.Join(dir, "old"), mark + "\nold"}, File{filepath.Join(dir, "new"), mark + "\nnew"}
	if err := write(old); err != nil {
		t.Fatal(err)
	}
	s, err := keep([]File{old, fresh})
	if err != nil || !s.wasThere() || s.same([]File{old, fresh}) {
		t.Fatal(s, err)
	}
	for _, f := range []File{{old.Path, mark + "\nchanged"}, fresh} {
		if err := write(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.restore(); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(old.Path); string(text) != old.Text {
		t.Errorf("%q", text)
	}
	if _, err := os.Stat(fresh.Path); err == nil {
		t.Error("what was not there before is there")
	}
	if _, err := os.Stat(old.Path); err != nil {
		t.Error(err)
	}
}

// TestShelfLeavesStrangersAlone: a unit with our name that steward did not write is not replaced.
func TestShelfLeavesStrangersAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "steward.service")
	if err := os.WriteFile(path, []byte("[Service]\nExecStart=/opt/other/steward\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := keep([]File{{Path: path}}); err == nil {
		t.Error("it would be replaced")
	}
}

// TestWriteFileKeeps: a link stays a link, the mode stays the same, and a failed write keeps the old text.
func TestWriteFileKeeps(t *testing.T) {
	dir := t.TempDir()
	real, link := filepath.Join(dir, "real.toml"), filepath.Join(dir, "link.toml")
	if err := os.WriteFile(real, []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real.toml", link); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(link, "b"); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(link)
	text, _ := os.ReadFile(real)
	st, _ := os.Stat(real)
	if err != nil || info.Mode()&os.ModeSymlink == 0 || string(text) != "b" || st.Mode().Perm() != 0o600 {
		t.Errorf("%v %v %q %v", info.Mode(), err, text, st.Mode())
	}
	if err := WriteFile(filepath.Join(dir, "deep", "er", "new.toml"), "c"); err != nil {
		t.Error(err)
	}
	left, _ := filepath.Glob(filepath.Join(dir, ".steward-*"))
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
