package worker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"
)

// allowedPaths limits the paths of a request to the project and the folders that the configuration adds.
type allowedPaths struct {
	project string   // absolute, links not resolved
	roots   []string // with all links resolved
}

func allow(project string, paths []string) allowedPaths {
	a := allowedPaths{project: project}
	for _, dir := range append([]string{project}, paths...) {
		if real, err := resolve(filepath.Clean(dir)); err == nil {
			a.roots = append(a.roots, real)
		}
	}
	return a
}

// The longest path and the longest file name that systems accept, in bytes.
const (
	longestPath = 4096
	longestName = 255
)

// locate returns the absolute path that a request means. Relative paths are relative to the project; ~ is an ordinary
// file name. The error says why the path is not allowed.
func (a allowedPaths) locate(path string) (string, error) {
	if err := checkPath(path); err != nil {
		return "", err
	}
	abs := path
	if !filepath.IsAbs(abs) {
		abs = filepath.Join(a.project, abs)
	}
	abs = filepath.Clean(abs)
	real, err := resolve(abs)
	if err != nil {
		return abs, err
	}
	if !a.contains(real) {
		if real != abs {
			return abs, fmt.Errorf("leads to %s, out of the project and of [worker] paths", line(real, 200))
		}
		return abs, errors.New("is outside the project and of [worker] paths")
	}
	return abs, nil
}

// checkPath refuses paths that no legitimate request contains.
func checkPath(path string) error {
	switch {
	case path == "":
		return errors.New("is empty")
	case len(path) > longestPath:
		return fmt.Errorf("has %d bytes; %d at most", len(path), longestPath)
	case !utf8.ValidString(path):
		return errors.New("is not valid UTF-8")
	case strings.ContainsFunc(path, unicode.IsControl):
		return errors.New("holds a control character")
	}
	for name := range strings.SplitSeq(filepath.ToSlash(path), "/") {
		if len(name) > longestName {
			return fmt.Errorf("holds a name of %d bytes; %d at most", len(name), longestName)
		}
	}
	return nil
}

// resolve resolves the links of the part of a path that exists. A dangling link is refused: its target may be created
// later, anywhere.
func resolve(abs string) (string, error) {
	real, err := filepath.EvalSymlinks(abs)
	switch {
	case err == nil:
		return real, nil
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR):
		return "", fmt.Errorf("cannot be followed: %w", withoutPath(err))
	}
	if _, err := os.Readlink(abs); err == nil {
		return "", errors.New("is a link that leads nowhere")
	}
	parent := filepath.Dir(abs)
	if parent == abs {
		return "", fmt.Errorf("cannot be followed: %w", withoutPath(err))
	}
	real, err = resolve(parent)
	return filepath.Join(real, filepath.Base(abs)), err
}

// withoutPath strips the path from an error whose message already names the path.
func withoutPath(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// contains reports whether a resolved path is in an allowed folder.
func (a allowedPaths) contains(real string) bool {
	for _, root := range a.roots {
		if rel, err := filepath.Rel(root, real); err == nil && filepath.IsLocal(rel) {
			return true
		}
	}
	return false
}

// allows is contains for an unresolved path; a path that cannot be resolved is not allowed.
func (a allowedPaths) allows(abs string) bool {
	real, err := resolve(filepath.Clean(abs))
	return err == nil && a.contains(real)
}

// short returns a path relative to the project, if it is in the project.
func (a allowedPaths) short(abs string) string {
	if rel, err := filepath.Rel(a.project, abs); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return abs
}
