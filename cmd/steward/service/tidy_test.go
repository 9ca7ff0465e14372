package service

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/livhana/steward/config"
	"github.com/livhana/steward/platform"
)

// A purge names every folder that it removes in a project, and leaves one whose lock some process holds.
func TestPurgeNamesWhatItRemovesInProjects(t *testing.T) {
	dir := t.TempDir()
	own, locks := filepath.Join(dir, "tmp/agent_status/steward"), filepath.Join(dir, ".claude/steward/locks")
	for _, path := range []string{own + "/attempts", locks} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(own+"/guard.lock", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	held, err := platform.Lock(filepath.Join(locks, "build.lock"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	refs := []config.ProjectRef{{Path: dir}, {Path: filepath.Join(dir, "gone")}}
	gone, notes := purgeProjects(refs)
	if !reflect.DeepEqual(gone, []string{own}) {
		t.Errorf("it names %q as removed", gone)
	}
	if len(notes) != 1 || !strings.Contains(notes[0], filepath.Dir(locks)+" stays: a process holds "+locks) {
		t.Errorf("it notes %q", notes)
	}
	if _, err := os.Lstat(own); err == nil {
		t.Error("what it names as removed is there")
	}
	if _, err := os.Lstat(filepath.Join(locks, "build.lock")); err != nil {
		t.Error("a lock that is held was removed")
	}
	if err := held.Unlock(); err != nil {
		t.Fatal(err)
	}
	if gone, notes := purgeProjects(refs); !reflect.DeepEqual(gone, []string{filepath.Dir(locks)}) || len(notes) > 0 {
		t.Errorf("the second purge: %q, %q", gone, notes)
	}
}
