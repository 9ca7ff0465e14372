package main

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/supervisor"
)

// What work costs outlives a restart, and also a memory that has to be set aside; and the other way round.
func TestLessonsOutliveTheMemory(t *testing.T) {
	dir := t.TempDir()
	root, err := jsonfile.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	open := func() *house { return &house{state: root, log: slog.New(slog.NewTextHandler(io.Discard, nil))} }
	looked := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	m := supervisor.Memory{LastLook: looked}
	m.Gate.Learnt = capacity.Learnt{"demo/codex/execute": {Cores: 0.5, Memory: 1 << 20, Runs: 3, At: looked}}
	if err := open().save(m); err != nil {
		t.Fatal(err)
	}
	check := func(wantMemory, wantLessons bool) {
		t.Helper()
		got := open().remembered()
		if got.LastLook.Equal(looked) != wantMemory || (got.Gate.Learnt["demo/codex/execute"].Runs == 3) != wantLessons {
			t.Errorf("remembered %+v", got)
		}
	}
	check(true, true)
	spoil := func(name string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(`{"torn`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	spoil("memory.json")
	check(false, true)
	if err := open().save(m); err != nil {
		t.Fatal(err)
	}
	spoil("learnt.json")
	check(true, false)
	for _, name := range []string{"memory.json.bad", "learnt.json.bad"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}
