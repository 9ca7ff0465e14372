package worker

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// finder finds the file and line of an error in the messages that programs print.
type finder struct {
	dirs []string // searched in this order for relative names
	owns func(abs string) bool
}

// The formats in which programs print files and lines.
var (
	pythonFrame = lazily(`^\s*File "([^"]+)", line (\d+)`)
	nodeFrame   = lazily(`^\s+at (?:.*\()?(?:file://)?(/[^():]+|[A-Za-z]:[^():]+):(\d+):\d+\)?\s*$`)
	shellLine   = lazily(`^([^:\s][^:]*): (?:line )?(\d+): `)
	typeScript  = lazily(`^\s*([^\s(][^(]*)\((\d+),\d+\): `)
	arrowed     = lazily(`^\s*--> ([^:]+):(\d+):\d+`)
	plainPlace  = lazily(`^\s*(?:E\s+)?((?:[A-Za-z]:)?[^:\s][^:]*):(\d+)(?::\d+)?(?:[:\s]|$)`)
)

// mostLines bounds the number of lines that are read.
const mostLines = 400

// inOutput returns the file and line that an output points at. A traceback names its cause last, every other format first.
// Only existing files in the allowed folders count.
func (f finder) inOutput(text string) (file string, at int, ok bool) {
	lines := strings.Split(text, "\n")
	lines = lines[max(0, len(lines)-mostLines):]
	for _, l := range slices.Backward(lines) {
		if file, at, ok = f.match(l, pythonFrame); ok {
			return file, at, true
		}
	}
	for _, forms := range [][]func() *regexp.Regexp{{nodeFrame}, {shellLine, typeScript, arrowed, plainPlace}} {
		for _, l := range lines {
			if file, at, ok = f.match(l, forms...); ok {
				return file, at, true
			}
		}
	}
	return "", 0, false
}

// foreign reports whether a file is third-party code.
func foreign(file string) bool {
	for _, dir := range []string{"node_modules", "site-packages", "dist-packages"} {
		if strings.Contains(filepath.ToSlash(file), "/"+dir+"/") {
			return true
		}
	}
	return false
}

// match returns the file and line that one line of an output names in one of the forms.
func (f finder) match(text string, forms ...func() *regexp.Regexp) (file string, at int, ok bool) {
	if len(text) > 2000 {
		return "", 0, false
	}
	for _, form := range forms {
		m := form().FindStringSubmatch(text)
		if m == nil {
			continue
		}
		at, err := strconv.Atoi(m[2])
		if err != nil || at < 1 {
			continue
		}
		if file, ok := f.file(m[1]); ok && !foreign(file) {
			return file, at, true
		}
	}
	return "", 0, false
}

// file returns the absolute path of a file that an output names.
func (f finder) file(name string) (string, bool) {
	name = strings.TrimSpace(name)
	if checkPath(name) != nil {
		return "", false
	}
	if filepath.IsAbs(name) {
		return name, f.there(name)
	}
	for _, dir := range f.dirs {
		if abs := filepath.Join(dir, name); f.there(abs) {
			return abs, true
		}
	}
	return "", false
}

func (f finder) there(abs string) bool {
	info, err := os.Lstat(abs)
	return err == nil && info.Mode().IsRegular() && f.owns(abs)
}
