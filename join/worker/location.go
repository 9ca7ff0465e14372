package worker

import (
	"os"
	"path/filepath"
	"regexp"
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
	if len(lines) > mostLines {
		lines = lines[len(lines)-mostLines:]
	}
	for i := len(lines) - 1; i >= 0; i-- {
		if file, at, ok = f.match(pythonFrame(), lines[i]); ok && !foreign(file) {
			return file, at, true
		}
	}
	for _, form := range [][]func() *regexp.Regexp{{nodeFrame}, {shellLine, typeScript, arrowed, plainPlace}} {
		for _, l := range lines {
			for _, re := range form {
				if file, at, ok = f.match(re(), l); ok && !foreign(file) {
					return file, at, true
				}
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

func (f finder) match(re *regexp.Regexp, text string) (string, int, bool) {
	if len(text) > 2000 {
		return "", 0, false
	}
	m := re.FindStringSubmatch(text)
	if m == nil {
		return "", 0, false
	}
	at, err := strconv.Atoi(m[2])
	if err != nil || at < 1 {
		return "", 0, false
	}
	file, ok := f.file(m[1])
	return file, at, ok
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
