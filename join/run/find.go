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

// fault is why a command could not be started: one of the constants, and a message.
type fault struct{ kind, problem string }

func (f *fault) Error() string { return f.problem }

// standardPath is the PATH when the environment has none.
const standardPath = "/usr/local/bin:/usr/bin:/bin"

// program returns the absolute path of Argv[0].
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

// path is the PATH of the command's environment.
func (s *Spec) path() string {
	for _, entry := range s.Env {
		if path, ok := strings.CutPrefix(entry, "PATH="); ok {
			return path
		}
	}
	return standardPath
}

// find searches the folders of a PATH. It skips relative folders: they would select another program in another working
// folder.
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
