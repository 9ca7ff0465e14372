package daemon

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/config"
	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/supervisor/decide"
)

// TestLessonsOutliveTheMemory: the costs of work survive a restart, and also a memory that has to be set aside; and
// vice versa.
func TestLessonsOutliveTheMemory(t *testing.T) {
	dir := t.TempDir()
	open := func() *store { return openStore(t, dir) }
	looked := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	m := decide.Memory{LastLook: looked}
	m.Gate.Learnt = capacity.Learnt{"demo/codex/execute": {Cores: 0.5, Memory: 1 << 20, Runs: 3, At: looked}}
	if err := open().save(m); err != nil {
		t.Fatal(err)
	}
	check := func(wantMemory, wantLessons bool) {
		t.Helper()
		got, err := open().remembered()
		if err != nil {
			t.Fatal(err)
		}
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

// openStore opens a state folder.
func openStore(t *testing.T, dir string) *store {
	t.Helper()
	root, err := jsonfile.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	ledger, _, err := escalate.Open(filepath.Join(dir, "incidents"))
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	r := &reports{ledger: ledger, settings: &settings{}, log: log}
	r.settings.set(config.Config{}, nil)
	return &store{reports: r, dir: dir, root: root}
}

// TestBadMemoryIsSetAside: a memory with unusable content is set aside beside the earlier ones, and the operator is
// told.
func TestBadMemoryIsSetAside(t *testing.T) {
	dir := t.TempDir()
	for n, text := range []string{"", `{"torn`, `{"standing": []}`, "[1]", `{"version": 2, "last_look": "2026-01-01T00:00:00Z"}`} {
		if err := os.WriteFile(filepath.Join(dir, MemoryFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		h := openStore(t, dir)
		if m, err := h.remembered(); err != nil || !m.LastLook.IsZero() {
			t.Fatalf("%q: %v %+v", text, err, m)
		}
		aside := MemoryFile + ".bad"
		if n > 0 {
			aside += strconv.Itoa(n + 1)
		}
		if kept, err := os.ReadFile(filepath.Join(dir, aside)); err != nil || string(kept) != text {
			t.Errorf("%q is kept as %q, %v", text, kept, err)
		}
		words := "damaged"
		if strings.Contains(text, "version") {
			words = "written by a newer steward"
		}
		if open := openIncidents(h.reports.ledger); len(open) != 1 || !strings.Contains(open[0].Summary, words) || !strings.Contains(open[0].Detail, aside) {
			t.Errorf("%q: incidents %+v", text, open)
		}
	}
}

// TestFilesSetAsideAreBounded: however often files are set aside, the first ones stay, and their number is bounded.
func TestFilesSetAsideAreBounded(t *testing.T) {
	dir := t.TempDir()
	h := openStore(t, dir)
	for n := range mostKept + 3 {
		if err := os.WriteFile(filepath.Join(dir, MemoryFile), fmt.Appendf(nil, "{%d", n), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := h.remembered(); err != nil {
			t.Fatal(err)
		}
	}
	if names, _ := filepath.Glob(filepath.Join(dir, MemoryFile+".bad*")); len(names) != mostKept {
		t.Errorf("kept: %v", names)
	}
	for name, want := range map[string]string{".bad": "{0", ".bad2": "{1", ".bad10": "{12"} {
		if kept, _ := os.ReadFile(filepath.Join(dir, MemoryFile+name)); string(kept) != want {
			t.Errorf("%s holds %q, not %q", name, kept, want)
		}
	}
}

// TestUnreadableMemoryStays: a memory that cannot be read at the moment says nothing about its content. The file stays
// in place, and the start fails.
func TestUnreadableMemoryStays(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, MemoryFile), 0o700); err != nil {
		t.Fatal(err)
	}
	h := openStore(t, dir)
	if _, err := h.remembered(); err == nil || !strings.Contains(err.Error(), MemoryFile) {
		t.Errorf("remembered: %v", err)
	}
	if names, _ := filepath.Glob(filepath.Join(dir, "*.bad*")); len(names) != 0 || len(openIncidents(h.reports.ledger)) != 0 {
		t.Errorf("set aside: %v", names)
	}
}

// TestStateIsReadBack: steward can read every file that it writes; a file that would be too big is not written.
func TestStateIsReadBack(t *testing.T) {
	h := openStore(t, t.TempDir())
	m := decide.Memory{LastLook: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Exhaustion: decide.Exhaustion{ExhaustedBy: strings.Repeat("x", 70<<20)}}
	if err := h.save(m); err != nil {
		t.Fatal(err)
	}
	if got, err := h.remembered(); err != nil || len(got.ExhaustedBy) != len(m.ExhaustedBy) || got.Version != stateVersion {
		t.Errorf("read back: %v, %d bytes, version %d", err, len(got.ExhaustedBy), got.Version)
	}
	if err := h.put(MemoryFile, make([]byte, maxState+1)); err == nil {
		t.Error("a file was written that cannot be read back")
	}
	if got, err := h.remembered(); err != nil || !got.LastLook.Equal(m.LastLook) {
		t.Errorf("the file before: %v", err)
	}
}

// TestCostsWithoutVersion: costs that were written before files had versions are read.
func TestCostsWithoutVersion(t *testing.T) {
	dir := t.TempDir()
	text := `{"demo/codex/execute": {"cores": 0.5, "memory": 1, "runs": 3, "at": "2026-01-01T00:00:00Z"}}`
	if err := os.WriteFile(filepath.Join(dir, learntFile), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	h := openStore(t, dir)
	if m, err := h.remembered(); err != nil || len(m.Gate.Learnt) != 1 {
		t.Errorf("costs: %v, %v", m.Gate.Learnt, err)
	}
}
