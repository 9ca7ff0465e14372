package lock

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Files per lock in the folder of locks: the locked file (empty, and never removed), the record, and the second copy of
// the fencing token.
const (
	lockSuffix   = ".lock"
	recordSuffix = ".json"
	copySuffix   = ".fence"
)

// ErrName says that a string cannot be the name of a lock.
var ErrName = errors.New("no name for a lock")

const (
	maxName = 100 // bytes
	maxFile = 200 // bytes of the name in its escaped form
)

// fileName converts a lock's name to a single path component. Characters that could change the path, or that some file
// system refuses, are percent-encoded, so that "src/main.go" can be locked and read back.
func fileName(name string) (string, error) {
	if err := checkName(name); err != nil {
		return "", err
	}
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		c := name[i]
		edge := i == 0 || i == len(name)-1
		if strings.IndexByte(`/\%:*?"<>|`, c) >= 0 || edge && (c == '.' || c == ' ') {
			fmt.Fprintf(&b, "%%%02X", c)
			continue
		}
		b.WriteByte(c)
	}
	file := b.String()
	if len(file) > maxFile {
		return "", fmt.Errorf("%w: %q is too long as a file name", ErrName, name)
	}
	if !filepath.IsLocal(file) {
		return "", fmt.Errorf("%w: %q is a reserved name here", ErrName, name)
	}
	return file, nil
}

func checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: it is empty", ErrName)
	case len(name) > maxName:
		return fmt.Errorf("%w: it has %d bytes; %d at most", ErrName, len(name), maxName)
	case !utf8.ValidString(name):
		return fmt.Errorf("%w: %q is not UTF-8", ErrName, name)
	}
	for _, r := range name {
		if !unicode.IsPrint(r) {
			return fmt.Errorf("%w: %q holds %U, which cannot be seen", ErrName, name, r)
		}
	}
	return nil
}

// checkAgent keeps the mirror parsable: a name must read back as it was written.
func checkAgent(agent string) error {
	if err := checkName(agent); err != nil || strings.TrimSpace(agent) != agent {
		return fmt.Errorf("%q is not a valid agent name", agent)
	}
	return nil
}

// nameOf decodes a file name; ok is false if fileName would not produce it.
func nameOf(file string) (name string, ok bool) {
	name, err := url.PathUnescape(file)
	if err != nil {
		return "", false
	}
	again, err := fileName(name)
	return name, err == nil && again == file
}
