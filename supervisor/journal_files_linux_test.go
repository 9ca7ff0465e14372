package supervisor_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/livhana/steward/supervisor"
)

// TestJournalRotatesWithoutDescriptors: while no file can be opened, the journal grows on in its place, and loses nothing.
func TestJournalRotatesWithoutDescriptors(t *testing.T) {
	j, path := openJournal(t)
	long := strings.Repeat("x", 1<<20)
	n := 0
	more := func() error {
		n++
		return j.Write(supervisor.Entry{At: midnight, Kind: "note", Text: fmt.Sprintf("%d %s", n, long)})
	}
	for range 15 {
		if err := more(); err != nil {
			t.Fatal(err)
		}
	}
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 0, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	failed := 0
	for range 9 {
		if more() != nil {
			failed++
		}
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if failed == 0 {
		t.Error("no rotation failed: the test shows nothing")
	}
	for range 3 {
		if err := more(); err != nil {
			t.Error(err)
		}
	}
	got, err := j.Read(100, all)
	if err != nil || len(got) != n || !strings.HasPrefix(got[0].Text, "1 ") {
		t.Errorf("%d entries of %d, %v", len(got), n, err)
	}
	if files, _ := filepath.Glob(path + "*"); len(files) != 3 {
		t.Errorf("files: %v", files)
	}
}

// TestJournalKeepsItsNumbers: where the newest file was taken away, the older ones stay as they are.
func TestJournalKeepsItsNumbers(t *testing.T) {
	j, path := openJournal(t)
	long := strings.Repeat("x", 6<<20)
	write(t, j, "first "+long, "second "+long)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	write(t, j, "third "+long, "fourth")
	got, err := j.Read(10, all)
	if err != nil || len(got) != 3 || !strings.HasPrefix(got[0].Text, "first ") || !strings.HasPrefix(got[1].Text, "third ") {
		t.Errorf("%d entries, %v", len(got), err)
	}
}
