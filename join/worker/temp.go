package worker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/livhana/steward/protocol/jsonfile"
)

// temporary makes a folder for one run's temporary files, for this user alone. The whole folder for temporary files would
// be too much to write to: sockets and files of others lie there.
func (w *Worker) temporary(mark string) (string, error) {
	dir, err := filepath.Abs(w.tempOf(mark))
	if err == nil {
		err = os.Mkdir(dir, 0o700) // one that is there already is somebody else's
	}
	if err != nil {
		return "", fmt.Errorf("make a folder for temporary files: %w", err)
	}
	return dir, nil
}

// tempOf is where the temporary files of the run with that mark lie: whoever clears up after a dead worker finds them.
func (w *Worker) tempOf(mark string) string { return filepath.Join(w.o.Temp, "steward-"+mark) }

// clearTemp removes what a dead worker's run has left there, if it is this user's own folder.
func (w *Worker) clearTemp(mark string) {
	if !jsonfile.PlainName("steward-" + mark) {
		return // the mark stands in a file that anybody may have written
	}
	if st, err := os.Lstat(w.tempOf(mark)); err == nil && st.IsDir() {
		_ = removeAll(w.tempOf(mark))
	}
}

// removeAll removes a run's temporary files, also from folders that the command has closed to itself (Go's module cache).
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
			err = root.Chmod(path, 0o700) // before it is read
		}
		return err
	})
	return os.RemoveAll(dir)
}
