package rig

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// Package is the import path of the program under test.
const Package = "github.com/livhana/steward/cmd/steward"

// Main runs the tests of a package with the programs they use in PATH: steward, built from this tree; the two clients; and
// the package's own. The test binary stands in for all but steward.
func Main(m *testing.M, own map[string]func()) {
	programs := map[string]func(){"codex": codexMain, "livhana": livhanaMain}
	for name, main := range own {
		programs[name] = main
	}
	testscript.Main(built{m}, programs)
}

// envBuilt is set for everything that runs below a test binary which has built the program.
const envBuilt = "STEWARD_TEST_BUILT"

// built builds steward before the tests run; a test binary that stands in for another program does not come here.
type built struct{ tests *testing.M }

func (b built) Run() int {
	if os.Getenv(envBuilt) != "" { // a test that runs itself again, as another user for instance
		return b.tests.Run()
	}
	dir, err := os.MkdirTemp("", "steward-built")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := build(dir); err != nil {
		fmt.Fprintln(os.Stderr, "build steward:", err)
		return 1
	}
	os.Setenv(envBuilt, "1")
	os.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	return b.tests.Run()
}

func build(dir string) error {
	if err := readSources(); err != nil {
		return err
	}
	args := []string{"build", "-o", filepath.Join(dir, "steward")}
	if raceDetector {
		args = append(args, "-race")
	}
	out, err := exec.Command("go", append(args, Package)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// readSources reads the folders that the program is built from. The go command repeats a cached verdict while what a test
// has read is unchanged; it does not see what a compiler started by the test reads.
func readSources() error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if name := d.Name(); path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bench" || name == "dist") {
			return fs.SkipDir
		}
		_, err = os.ReadDir(path)
		return err
	})
}

// moduleRoot is the folder above with go.mod in it.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if There(filepath.Join(dir, "go.mod")) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			err = fmt.Errorf("no go.mod above the test's folder")
		}
	}
	return "", err
}
