package protocoltest

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol/jsonfile"
)

// fixtureMode is unusual, so that a file rewritten with a default mode is detected.
const fixtureMode = 0o640

// Write writes the files of a txtar archive into dir.
func Write(t testing.TB, dir, archive string, now time.Time) {
	t.Helper()
	for name, text := range Parse(archive, now) {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), fixtureMode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, fixtureMode); err != nil {
			t.Fatal(err)
		}
	}
}

// Parse reads a txtar archive: a line "-- name --" begins each file. Times in double braces are filled in.
func Parse(archive string, now time.Time) map[string]string {
	files := map[string]string{}
	name := ""
	for line := range strings.Lines(archive) {
		if rest, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "-- "); ok && strings.HasSuffix(rest, " --") {
			name = strings.TrimSuffix(rest, " --")
			files[name] = ""
			continue
		}
		if name != "" {
			files[name] += fill(line, now)
		}
	}
	return files
}

var timeMark = regexp.MustCompile(`\{\{now([+-][0-9a-z.]+)?\}\}`)

func fill(line string, now time.Time) string {
	return timeMark.ReplaceAllStringFunc(line, func(mark string) string {
		shift, err := time.ParseDuration(timeMark.FindStringSubmatch(mark)[1])
		if err != nil {
			shift = 0
		}
		return jsonfile.FormatTime(now.Add(shift))
	})
}

// Rewrite replaces old by new in a file, in place, as clients do.
func Rewrite(file, old, new string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if !strings.Contains(string(b), old) {
		return fmt.Errorf("%s does not contain %q", file, old)
	}
	return os.WriteFile(file, []byte(strings.Replace(string(b), old, new, 1)), fixtureMode)
}

// node is the content and mode of one file.
type node struct {
	text string
	mode fs.FileMode
	info fs.FileInfo
}

// tree reads every file below dir. It skips drafts left by a crash: they are swept a minute later.
func tree(t testing.TB, dir string) map[string]node {
	t.Helper()
	files := map[string]node{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), ".steward-") {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text, err := os.ReadFile(p)
		rel, _ := filepath.Rel(dir, p)
		files[filepath.ToSlash(rel)] = node{string(text), info.Mode(), info}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// same compares two trees, except for files that match except.
func same(t testing.TB, what string, want, got map[string]node, except ...string) {
	t.Helper()
	for name, w := range want {
		g, ok := got[name]
		switch {
		case matches(except, name):
		case !ok:
			t.Errorf("%s: %s is gone", what, name)
		case g.text != w.text:
			t.Errorf("%s: %s is\n%s\nwant\n%s", what, name, g.text, w.text)
		case g.mode != w.mode:
			t.Errorf("%s: %s has mode %v, want %v", what, name, g.mode, w.mode)
		}
	}
	for name, g := range got {
		if _, ok := want[name]; !ok && !matches(except, name) {
			t.Errorf("%s: %s should not be there:\n%s", what, name, g.text)
		}
	}
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, _ := path.Match(p, name)
		return ok
	})
}
