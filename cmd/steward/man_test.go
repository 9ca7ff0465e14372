//go:build packaging

package main

import (
	"cmp"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/cmd/steward/cli"
	manual "github.com/spf13/cobra/doc"
)

// TestManPages writes the manual into STEWARD_MAN_DIR for packaging/build.sh. It is a test so that the program itself
// carries neither the command nor the library.
func TestManPages(t *testing.T) {
	dir := cmp.Or(os.Getenv("STEWARD_MAN_DIR"), t.TempDir())
	seconds, _ := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	date := time.Unix(seconds, 0).UTC()
	root := newRootCommand(&cli.App{Out: os.Stdout, Err: os.Stderr})
	root.InitDefaultCompletionCmd()
	root.DisableAutoGenTag = true // it holds the day of the build
	header := &manual.GenManHeader{Section: "1", Date: &date, Source: "steward " + os.Getenv("VERSION"), Manual: "User Commands"}
	if err := manual.GenManTree(root, header, dir); err != nil {
		t.Fatal(err)
	}
	for _, c := range root.Commands() {
		if !c.IsAvailableCommand() {
			continue
		}
		page, err := os.ReadFile(filepath.Join(dir, "steward-"+c.Name()+".1"))
		if err != nil || !strings.Contains(string(page), c.Short) {
			t.Errorf("the page of steward %s: %v, %d bytes; want its one-line description in it", c.Name(), err, len(page))
		}
	}
}
