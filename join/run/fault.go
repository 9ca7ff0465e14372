package run

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// classify explains why execve(2), or a step before it, failed.
func classify(err error, path, dir string) *fault {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return &fault{Other, err.Error()}
	}
	switch errno {
	case syscall.ENOENT, syscall.ENOTDIR, syscall.ELOOP, syscall.ENAMETOOLONG:
		return &fault{NotFound, missing(path)}
	case syscall.EACCES, syscall.EPERM:
		return &fault{Permission, denied(path, dir, errno)}
	case syscall.ENOEXEC:
		return &fault{Format, fmt.Sprintf("%s is neither a program of this machine nor a script with a #! line", path)}
	case syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE:
		return &fault{Resources, fmt.Sprintf("the system has nothing left to start %s with: %v", path, errno)}
	case syscall.E2BIG:
		return &fault{Other, fmt.Sprintf("arguments and environment of %s are longer than the system allows", path)}
	}
	return &fault{Other, fmt.Sprintf("start %s: %v", path, errno)}
}

// missing distinguishes a missing program from a missing interpreter: the kernel reports ENOENT for both.
func missing(path string) string {
	if _, err := os.Stat(path); err != nil {
		return fmt.Sprintf("%s does not exist", path)
	}
	script := path
	for range 4 { // an interpreter may itself be a script; the kernel follows no further than this
		interpreter := interpreterOf(script)
		if interpreter == "" {
			return fmt.Sprintf("%s: the loader that this program names does not exist", script)
		}
		if _, err := os.Stat(interpreter); err != nil && strings.HasSuffix(interpreter, "\r") {
			return fmt.Sprintf("%s: its interpreter %q does not exist: the first line ends as on Windows, with a carriage return", script, interpreter)
		} else if err != nil {
			return fmt.Sprintf("%s: its interpreter %q does not exist", script, interpreter)
		}
		script = interpreter
	}
	return fmt.Sprintf("%s: its interpreters lead in a circle", path)
}

// interpreterOf returns the interpreter in the #! line; "" when there is none. The kernel reads 255 bytes of it.
func interpreterOf(path string) string {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	first, _ := bufio.NewReaderSize(f, 256).Peek(255)
	rest, found := bytes.CutPrefix(first, []byte("#!"))
	if !found {
		return ""
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	name, _, _ := strings.Cut(strings.Trim(string(line), " \t"), " ")
	name, _, _ = strings.Cut(name, "\t")
	return name
}

func denied(path, dir string, errno syscall.Errno) string {
	const execute = 1 // X_OK
	if syscall.Access(dir, execute) != nil {
		return fmt.Sprintf("the working folder %s: %v", dir, errno)
	}
	st, err := os.Stat(path)
	switch {
	case err != nil && errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("%s: a folder on the way to it is closed to this user", path)
	case err != nil:
		return fmt.Sprintf("%s: %v", path, errno)
	case st.IsDir():
		return fmt.Sprintf("%s is a folder, not a program", path)
	case !st.Mode().IsRegular():
		return fmt.Sprintf("%s is not a regular file", path)
	case syscall.Access(path, execute) != nil:
		return fmt.Sprintf("%s has no execute permission for this user (mode %04o)", path, st.Mode().Perm())
	}
	if interpreter := interpreterOf(path); interpreter != "" && syscall.Access(interpreter, execute) != nil {
		return fmt.Sprintf("%s: its interpreter %q must not be executed", path, interpreter)
	}
	return fmt.Sprintf("%s: %v", path, errno)
}
