package escalate

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/livhana/steward/protocol/jsonfile"
)

// TestReadWithoutDescriptors checks that a lack of file descriptors is not reported as bad content, for which the
// incident's file would be set aside.
func TestReadWithoutDescriptors(t *testing.T) {
	key, doc := sample(t)
	path := filepath.Join(t.TempDir(), key+".json")
	if err := os.WriteFile(path, doc, 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := jsonfile.Open(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 0, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	_, err = read(root, key)
	if e := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old); e != nil {
		t.Fatal(e)
	}
	if err == nil || errors.Is(err, errContent) || !strings.Contains(err.Error(), "too many open files") {
		t.Fatalf("read: %v", err)
	}
}
