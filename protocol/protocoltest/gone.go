package protocoltest

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
)

// gone: a folder that is removed between scan and change stays removed, whatever happens to the change: all of the
// project's folders, or any one of the protocol's.
func (s Suite) gone(t *testing.T, c *Case) {
	removals := []string{"."}
	if !testing.Short() {
		removals = append(removals, folders(t, s.lay(t, c).dir)...)
	}
	for _, removed := range removals {
		if slices.Contains(strings.Split(removed, "/"), "steward") {
			continue // steward's own folder: it is recreated
		}
		b, change := s.judged(t, c)
		for _, name := range children(t, b.dir, removed) {
			if err := os.RemoveAll(filepath.Join(b.dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		before := folders(t, b.dir)
		_ = b.a.Apply(t.Context(), change, b.now)
		for range 3 {
			b.now = b.now.Add(30 * time.Second)
			b.a.Observe(t.Context(), protocol.ScanOrder{Now: b.now})
		}
		if open, ok := b.a.(interface{ Close() }); ok {
			open.Close()
		}
		for _, name := range folders(t, b.dir) {
			if !slices.Contains(before, name) && !slices.Contains(strings.Split(name, "/"), "steward") {
				t.Errorf("%s was removed, and the folder %s is back", removed, name)
			}
		}
		if left := tree(t, b.dir); removed == "." && len(left) > 0 {
			t.Errorf("everything was removed, and these files are back: %v", left)
		}
	}
}

// children are the paths to remove for a folder: the folder itself, or for the project all its entries.
func children(t testing.TB, dir, folder string) []string {
	if folder != "." {
		return []string{filepath.FromSlash(folder)}
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// folders lists the folders below dir.
func folders(t testing.TB, dir string) []string {
	var list []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && p != dir {
			rel, _ := filepath.Rel(dir, p)
			list = append(list, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}
