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

// Fault is why a command cannot be started. It matches fs.ErrNotExist or fs.ErrPermission where that is its kind.
type Fault struct {
	Kind    string // one of the constants
	Problem string // in words
}

func (f *Fault) Error() string { return f.Problem }

// Is compares the kind with an error of the file system.
func (f *Fault) Is(target error) bool {
	return target == fs.ErrNotExist && f.Kind == NotFound || target == fs.ErrPermission && f.Kind == Permission
}

// kindOf is the kind of an error of execve(2), or of a step before it.
func kindOf(errno syscall.Errno) string {
	switch errno {
	case syscall.ENOENT, syscall.ENOTDIR, syscall.ELOOP, syscall.ENAMETOOLONG:
		return NotFound
	case syscall.EACCES, syscall.EPERM:
		return Permission
	case syscall.ENOEXEC:
		return Format
	case syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE:
		return Resources
	}
	return Other
}

// StartFault explains why a program that Find has accepted could not be started in the working folder dir.
func StartFault(err error, path, dir string) error {
	if fault := Folder(dir); fault != nil {
		return fault
	}
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return &Fault{Other, err.Error()}
	}
	f := &Fault{kindOf(errno), fmt.Sprintf("start %s: %v", path, errno)}
	switch {
	case f.Kind == NotFound || f.Kind == Permission:
		if words := interpreterProblem(path); words != "" {
			f.Problem = words
		}
	case f.Kind == Format:
		f.Problem = fmt.Sprintf("%s is neither a program of this machine nor a script with a #! line", path)
	case errno == syscall.E2BIG:
		f.Problem = fmt.Sprintf("arguments and environment of %s are longer than the system allows", path)
	}
	return f
}

// interpreterProblem says what is wrong with the interpreter of a script: the kernel reports its error as that of the
// script. An interpreter may itself be a script; the kernel follows no further than four of them.
func interpreterProblem(script string) string {
	for range 4 {
		interpreter := interpreterOf(script)
		switch err := Runnable(interpreter); {
		case interpreter == "":
			return ""
		case strings.HasSuffix(interpreter, "\r"):
			return fmt.Sprintf("%s: its first line ends as on Windows, with a carriage return", script)
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Sprintf("%s: its interpreter %q does not exist", script, interpreter)
		case err != nil:
			return fmt.Sprintf("%s: its interpreter cannot be executed: %v", script, err)
		}
		script = interpreter
	}
	return ""
}

// interpreterOf returns the interpreter in the #! line; "" when none exists. The kernel reads 255 bytes of it.
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
