package run

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

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
	case f.Kind == NotFound:
		f.Problem = missing(path)
	case f.Kind == Permission:
		if interpreter := interpreterOf(path); interpreter != "" && syscall.Access(interpreter, executable) != nil {
			f.Problem = fmt.Sprintf("%s: its interpreter %q must not be executed", path, interpreter)
		}
	case f.Kind == Format:
		f.Problem = fmt.Sprintf("%s is neither a program of this machine nor a script with a #! line", path)
	case f.Kind == Resources:
		f.Problem = fmt.Sprintf("the system has nothing left to start %s with: %v", path, errno)
	case errno == syscall.E2BIG:
		f.Problem = fmt.Sprintf("arguments and environment of %s are longer than the system allows", path)
	}
	return f
}

// missing distinguishes a missing program from a missing interpreter: the kernel reports ENOENT for both.
func missing(path string) string {
	if _, err := os.Stat(path); err != nil {
		return path + " does not exist" // removed meanwhile
	}
	script := path
	for range 4 { // an interpreter may itself be a script; the kernel follows no further than this
		interpreter := interpreterOf(script)
		if interpreter == "" {
			return fmt.Sprintf("%s: the loader that this program names does not exist", script)
		}
		if _, err := os.Stat(interpreter); err != nil {
			problem := fmt.Sprintf("%s: its interpreter %q does not exist", script, interpreter)
			if strings.HasSuffix(interpreter, "\r") {
				problem += ": the first line ends as on Windows, with a carriage return"
			}
			return problem
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
