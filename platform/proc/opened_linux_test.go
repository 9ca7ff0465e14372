package proc

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestOpenedTellsDescriptorAndAppend(t *testing.T) {
	dir := t.TempDir()
	open := func(name string, flag int) *os.File {
		f, err := os.OpenFile(filepath.Join(dir, name), flag|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	c := start(t, "plain", func(cmd *exec.Cmd) {
		cmd.ExtraFiles = []*os.File{open("written", os.O_WRONLY), open("log", os.O_WRONLY|os.O_APPEND), open("read", os.O_RDONLY), open("written", os.O_RDWR)}
	})
	got, err := Opened(c.pid())
	got = slices.DeleteFunc(got, func(f OpenFile) bool { return !strings.HasPrefix(f.Path, dir) }) // go test's output file
	want := []OpenFile{{filepath.Join(dir, "written"), 3, false}, {filepath.Join(dir, "log"), 4, true}, {filepath.Join(dir, "written"), 6, false}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	if files, err := Opened(1 << 30); err == nil {
		t.Errorf("of no process: %+v", files)
	}
}
