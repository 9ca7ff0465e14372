package lock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/platform/proc"
)

func heldNames(t *testing.T, p *Locks) string {
	t.Helper()
	list, err := p.Held()
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for _, s := range list {
		words = append(words, fmt.Sprintf("%s %s", s.Name, s.State))
	}
	return strings.Join(words, ", ")
}

// TestHeld: Held lists exactly the locks held now, however often it is called, and does not check again a grant that is
// over.
func TestHeld(t *testing.T) {
	if _, err := proc.Table(); err != nil {
		t.Skip("a process that gave a lock back and lives on cannot be told from a holder here")
	}
	dir, now, asked := t.TempDir(), time.Now(), 0
	p := Open(dir, Options{Now: func() time.Time { return now }, Holders: func(path string) ([]proc.Identity, error) {
		asked++
		return proc.FlockHolders(path)
	}})
	defer p.Close()
	if got := heldNames(t, p); got != "" {
		t.Errorf("a project without locks: %s", got)
	}
	if _, err := os.Stat(filepath.Join(dir, ".claude")); !errors.Is(err, os.ErrNotExist) {
		t.Error("to ask made a folder")
	}
	h, other := take(t, p, "src/b"), take(t, p, "a")
	if got := heldNames(t, p); got != "a held, src/b held" {
		t.Error(got)
	}
	now = now.Add(2 * time.Minute)
	if got := heldNames(t, p); got != "a overdue, src/b overdue" {
		t.Error(got)
	}
	give(t, other)
	give(t, h)
	if got := heldNames(t, p); got != "" {
		t.Error(got)
	}
	// The holder lives, so it may only have lost its lock file. Once the holder is gone, the grant is over for good.
	if asked = 0; heldNames(t, p) != "" || asked != 2 {
		t.Errorf("with a living holder the kernel was asked %d times", asked)
	}
	gone := p.procs.self
	gone.Start++
	rec := record{Name: "a", Fence: 7, Agent: "builder", Process: gone, Host: p.procs.host, Acquired: now, TTL: 60}
	if err := p.folder.write("a", rec, 1000); err != nil {
		t.Fatal(err)
	}
	heldNames(t, p)
	if asked = 0; heldNames(t, p) != "" || asked != 1 {
		t.Errorf("after its holder's end the kernel was asked %d times in place of 1", asked)
	}
	again := take(t, p, "a")
	if got := heldNames(t, p); got != "a held" {
		t.Errorf("taken again: %s", got)
	}
	give(t, again)
}

// TestWhoWaits: Waiting names the process in the kernel's queue, from any Place.
func TestWhoWaits(t *testing.T) {
	if _, err := proc.Table(); err != nil {
		t.Skip("the kernel does not tell here")
	}
	dir := t.TempDir()
	p, asker := locksOf(dir, false), locksOf(dir, false)
	defer p.Close()
	defer asker.Close()
	if _, err := asker.Waiting("it"); err == nil {
		t.Error("a lock that never was has a queue")
	}
	if _, err := asker.Waiting("../x\n"); !errors.Is(err, ErrName) {
		t.Errorf("a hostile name: %v", err)
	}
	h := take(t, p, "it")
	if list, err := asker.Waiting("it"); err != nil || list == nil || len(list) != 0 {
		t.Errorf("no process waits: %v, %v", list, err)
	}
	give(t, h)
}
