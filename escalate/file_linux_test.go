package escalate

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// TestFullDisk checks that on a disk that is really full, the error says so, no partial file remains, and the
// incident is written once there is space.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("mount a small tmpfs: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	ledger := filepath.Join(dir, "incidents")
	l := open(t, ledger)
	first := mustRaise(t, l, trouble("1", protocol.High), noon)
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("fill the disk: %v", err)
	}
	i, out, err := l.Raise(trouble("2", protocol.High), noon)
	if !errors.Is(err, syscall.ENOSPC) || out != rules.OutcomeNew || i.State != rules.Raised {
		t.Fatalf("raise on a full disk: %s %+v, %v", out, i, err)
	}
	if err := second(l.Resolve(first.Key, rules.ByFiles, "", noon)); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("resolve on a full disk: %v", err)
	}
	want(t, "in memory", len(l.Heads()), 2)
	names, _ := filepath.Glob(filepath.Join(ledger, ".steward-*.tmp"))
	want(t, "leftovers", len(names), 0)
	want(t, "what was on disk is whole", open(t, ledger).Heads()[first.Key].State, rules.Raised)

	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	again := open(t, ledger).Heads()
	want(t, "on disk", len(again), 2)
	want(t, "the resolution", again[first.Key].State, rules.Resolved)
}
