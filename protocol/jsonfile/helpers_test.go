package jsonfile_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/livhana/steward/protocol/jsonfile"
)

// open returns a Root over a fresh folder, with files from name, content pairs.
func open(t testing.TB, files ...string) (*jsonfile.Root, string) {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		write(t, filepath.Join(dir, files[i]), files[i+1])
	}
	r, err := jsonfile.Open(dir)
	must(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return r, dir
}

func write(t testing.TB, path, content string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(content), 0o644))
}

func read(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	return string(b)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// want checks both the sentinel and that the error has a message for the operator.
func want(t testing.TB, err, target error, words ...string) {
	t.Helper()
	var e *jsonfile.Error
	if !errors.Is(err, target) || !errors.As(err, &e) {
		t.Fatalf("error %v (%T), want %v", err, err, target)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}

func same[T comparable](t testing.TB, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("got\n%v\nwant\n%v", got, want)
	}
}

// names lists a folder's entries, drafts included.
func names(t testing.TB, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var b bytes.Buffer
	for _, e := range entries {
		b.WriteString(e.Name() + " ")
	}
	return strings.TrimSpace(b.String())
}
