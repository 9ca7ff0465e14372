package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// standardPath is the PATH when the environment has none.
const standardPath = "/usr/local/bin:/usr/bin:/bin"

// program returns the absolute path of Argv[0].
func (s *Spec) program() (string, error) {
	if err := Folder(s.Dir); err != nil {
		return "", err
	}
	search, ok := Variable(s.Env, "PATH")
	if !ok {
		search = standardPath
	}
	return Find(s.Argv[0], s.Dir, search)
}

// Find returns the path of a program to start in the folder dir: a name with a slash is relative to dir, any
// other name is searched for in the folders of path. It skips relative folders there: they would select another program
// in another working folder. The error is a *Fault.
func Find(name, dir, path string) (string, error) {
	if name == "" {
		return "", &Fault{NotFound, "no command is named"}
	}
	if strings.ContainsRune(name, filepath.Separator) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, Runnable(name)
	}
	var refused error
	for _, folder := range filepath.SplitList(path) {
		if !filepath.IsAbs(folder) {
			continue
		}
		file := filepath.Join(folder, name)
		err := Runnable(file)
		if err == nil {
			return file, nil
		}
		if refused == nil && !errors.Is(err, fs.ErrNotExist) {
			refused = err
		}
	}
	if refused != nil {
		return "", refused
	}
	return "", &Fault{NotFound, name + ": not found in the PATH"}
}

const executable = 1 // X_OK of access(2)

// Runnable says why a file cannot be executed: nil, or a *Fault. Whether its format and its interpreter are usable shows
// only when it is started.
func Runnable(path string) error {
	st, err := os.Stat(path)
	var errno syscall.Errno
	switch {
	case errors.Is(err, fs.ErrPermission):
		return &Fault{Permission, path + ": a folder on the way to it is closed to this user"}
	case errors.As(err, &errno) && kindOf(errno) == NotFound:
		return &Fault{NotFound, path + " does not exist"}
	case err != nil:
		return &Fault{Other, err.Error()}
	case st.IsDir():
		return &Fault{Format, path + " is a folder, not a program"}
	case !st.Mode().IsRegular():
		return &Fault{Format, path + " is not a regular file"}
	case syscall.Access(path, executable) != nil:
		return &Fault{Permission, fmt.Sprintf("%s: it is not executable for this user (mode %04o); try: chmod +x %[1]s", path, st.Mode().Perm())}
	}
	return nil
}

// Folder says why a command cannot run in the working folder dir: nil, or a *Fault.
func Folder(dir string) error {
	st, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrPermission), err == nil && st.IsDir() && syscall.Access(dir, executable) != nil:
		return &Fault{Permission, fmt.Sprintf("the working folder %s: permission denied", dir)}
	case err != nil:
		return &Fault{NotFound, fmt.Sprintf("the working folder %s does not exist", dir)}
	case !st.IsDir():
		return &Fault{NotFolder, fmt.Sprintf("the working folder %s is not a folder", dir)}
	}
	return nil
}
