package worker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/livhana/steward/protocol/jsonfile"
)

// temporary creates a folder for one run's temporary files, accessible only to this user. Write access to the whole
// system temporary folder would be too much: it holds sockets and files of other programs.
func (w *Worker) temporary(mark string) (string, error) {
	dir, err := filepath.Abs(w.tempOf(mark))
	if err == nil {
		err = os.Mkdir(dir, 0o700) // an existing folder belongs to another process, so it is an error
	}
	if err != nil {
		return "", fmt.Errorf("make a folder for temporary files: %w", err)
	}
	return dir, nil
}

// tempOf is the temporary folder of the run with that mark. The name is derived from the mark so that another worker
// can clean up after a dead one.
func (w *Worker) tempOf(mark string) string { return filepath.Join(w.o.Temp, "steward-"+mark) }

// clearTemp removes the temporary folder that a dead worker's run has left.
func (w *Worker) clearTemp(mark string) {
	if !jsonfile.PlainName("steward-" + mark) {
		return // the mark comes from a file that any program may have written
	}
	if st, err := os.Lstat(w.tempOf(mark)); err == nil && st.IsDir() {
		_ = removeAll(w.tempOf(mark))
	}
}

// removeAll removes a run's temporary files, including those in folders that the command made read-only (Go's module
// cache).
func removeAll(dir string) error {
	err := os.RemoveAll(dir)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	_ = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = root.Chmod(path, 0o700) // before WalkDir reads it
		}
		return err
	})
	return os.RemoveAll(dir)
}
