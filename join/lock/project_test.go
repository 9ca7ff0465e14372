package lock

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/livhana/steward/protocol/handoffs"
)

func locksOf(dir string, mirror bool) *Locks {
	o := Options{Now: time.Now}
	if mirror {
		o.Mirror = mirrorOf(dir)
	}
	return Open(dir, o)
}

func mirrorOf(dir string) *handoffs.Mirror {
	return handoffs.OpenMirror(dir, handoffs.MirrorOptions{TTL: 30 * time.Minute, Watch: 200 * time.Millisecond, Life: time.Minute,
		Options: handoffs.Options{Granted: Open(dir, Options{Now: time.Now}).Granted}})
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func readText(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func statePath(dir string) string { return filepath.Join(dir, ".claude", "state.json") }

const plainState = `{
  "schema_version": "1.0.0",
  "locks": {},
  "iteration":   1,
  "agents": {"builder": {"status": "idle"}}
}
`

func seed(t testing.TB, dir string) { write(t, statePath(dir), plainState) }
