package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// fault is why a command could not be started: one of the constants, and words.
type fault struct{ kind, problem string }

func (f *fault) Error() string { return f.problem }

// standardPath is where programs are looked for when the environment has no PATH.
const standardPath = "/usr/local/bin:/usr/bin:/bin"

// program gives the absolute path of what Argv[0] means.
func (s *Spec) program() (string, error) {
	if err := usableDir(s.Dir); err != nil {
		return "", err
	}
	for _, text := range append(append([]string{s.Dir}, s.Argv...), s.Env...) {
		if strings.Contains(text, "\x00") {
			return "", &fault{Other, fmt.Sprintf("%.80q: no argument, folder or variable can hold a NUL byte", text)}
		}
	}
	name := s.Argv[0]
	switch {
	case filepath.IsAbs(name):
		return name, nil
	case filepath.Base(name) != name:
		return filepath.Join(s.Dir, name), nil
	}
	return find(name, s.path())
}

// path is the PATH of the environment that the command gets.
func (s *Spec) path() string {
	for _, entry := range s.Env {
		if path, ok := strings.CutPrefix(entry, "PATH="); ok {
			return path
		}
	}
	return standardPath
}

// find looks in the folders of a PATH. Relative ones would make another program of the same name out of another
// working folder, and are passed over.
func find(name, path string) (string, error) {
	var denied string
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		file, err := exec.LookPath(filepath.Join(dir, name))
		if err == nil {
			return file, nil
		}
		if errors.Is(err, fs.ErrPermission) && denied == "" {
			denied = filepath.Join(dir, name)
		}
	}
	if denied != "" {
		return "", &fault{Permission, fmt.Sprintf("%s must not be executed", denied)}
	}
	return "", &fault{NotFound, fmt.Sprintf("no program %q in PATH (%s)", name, path)}
}

func usableDir(dir string) error {
	st, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return &fault{Permission, fmt.Sprintf("the working folder %s: permission denied", dir)}
	case err != nil:
		return &fault{NotFound, fmt.Sprintf("the working folder %s does not exist", dir)}
	case !st.IsDir():
		return &fault{NotFound, fmt.Sprintf("the working folder %s is not a folder", dir)}
	}
	return nil
}
