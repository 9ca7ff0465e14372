package main

import (
	"path/filepath"
	"testing"

	"github.com/livhana/steward/platform"
)

// Without a configured name the person is called by the account's own.
func TestThePersonIsTheAccounts(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("STEWARD_CONFIG", "")
	t.Setenv("XDG_CONFIG_HOME", dir)
	t.Setenv("STEWARD_STATE_DIR", filepath.Join(dir, "state"))
	t.Setenv("STEWARD_SOCKET", filepath.Join(dir, "s.sock"))
	cfg, _, err := (&app{}).settings()
	if want := platform.Person("nobody"); err != nil || cfg.Human.Name != want || cfg.Human.Name == "Jesse" {
		t.Errorf("called %q, want %q; %v", cfg.Human.Name, want, err)
	}
}
