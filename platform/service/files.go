package service

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// shelf holds the previous contents of a service's files, to restore them.
type shelf []kept

type kept struct {
	path string
	text []byte // nil: the file did not exist
}

// keep reads the current contents of the files. It fails for a file that steward did not write.
func keep(files []File) (shelf, error) {
	var all shelf
	for _, f := range files {
		text, err := os.ReadFile(f.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			all = append(all, kept{path: f.Path})
			continue
		case err != nil:
			return nil, fmt.Errorf("look at what is installed: %w", err)
		case !ours(string(text)):
			return nil, fmt.Errorf("%s was not written by steward; move it away first", f.Path)
		}
		all = append(all, kept{path: f.Path, text: text})
	}
	return all, nil
}

// ours reports whether steward wrote the text.
func ours(text string) bool { return strings.HasPrefix(text, mark) }

// same reports whether the files already exist with the wanted contents.
func (s shelf) same(files []File) bool {
	for i, k := range s {
		if k.text == nil || string(k.text) != files[i].Text {
			return false
		}
	}
	return true
}

// wasThere reports whether the service was already defined.
func (s shelf) wasThere() bool { return len(s) > 0 && s[0].text != nil }

// restore restores all files and removes those that did not exist before.
func (s shelf) restore() error {
	var all error
	for _, k := range s {
		if k.text == nil {
			if err := os.Remove(k.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				all = errors.Join(all, err)
			}
			continue
		}
		all = errors.Join(all, write(File{k.path, string(k.text)}))
	}
	return all
}

// WriteFile replaces a file atomically. A link is followed and stays a link, and an existing file keeps its mode.
func WriteFile(path, text string) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	mode := fs.FileMode(0o644)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	if err := write(File{path, text}); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

// write replaces a file atomically (temporary file and rename), so that a full disk leaves the old file intact.
func write(f File) error {
	dir := filepath.Dir(f.Path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	temp, err := os.CreateTemp(dir, ".steward-*")
	if err != nil {
		return err
	}
	_, err = temp.WriteString(f.Text)
	err = errors.Join(err, temp.Chmod(0o644), temp.Sync(), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), f.Path)
	}
	if err != nil {
		_ = os.Remove(temp.Name())
	}
	return err
}

// remove deletes the files and returns the paths that it deleted.
func remove(paths ...string) (gone []string, err error) {
	for _, path := range paths {
		switch e := os.Remove(path); {
		case e == nil:
			gone = append(gone, path)
		case !errors.Is(e, fs.ErrNotExist):
			err = errors.Join(err, e)
		}
	}
	return gone, err
}
