package daemon

import (
	"bufio"
	"log/slog"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/livhana/steward/config"
	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
)

// deafFamily starts a process that exits when asked to, with a child that ignores SIGTERM.
func deafFamily(t *testing.T) (root protocol.Identity, child proc.Identity) {
	t.Helper()
	c := exec.Command("/bin/sh", "-c", `(trap "" TERM; exec sleep 1000 >&-) & echo $!; wait`)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	reaped := make(chan struct{})
	go func() { c.Wait(); close(reaped) }()
	// Kill the child too, whatever the result of the test.
	t.Cleanup(func() { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL); <-reaped })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	id, err := proc.Inspect(c.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	child, err = proc.Inspect(pid)
	if err != nil {
		t.Fatal(err)
	}
	return protocol.Identity(id), child
}

// runEndings ends processes until the test is over.
func runEndings(t *testing.T) *endings {
	t.Helper()
	journal, err := supervisor.OpenJournal(filepath.Join(t.TempDir(), "journal.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	h := newEndings(&reports{journal: journal, settings: &settings{}, log: slog.New(slog.DiscardHandler)})
	var cfg config.Config
	cfg.Keep.Stop = 200 * time.Millisecond
	h.settings.set(cfg, nil)
	t.Cleanup(func() { h.Close(); journal.Close() })
	return h
}

// noted waits for the journal entry about an ended process.
func noted(t *testing.T, h *endings) supervisor.Entry {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		found, err := h.journal.Read(1, func(e *supervisor.Entry) bool { return e.Verb == "end" })
		if err != nil {
			t.Fatal(err)
		}
		if len(found) > 0 {
			return found[0]
		}
	}
	t.Fatal("the journal has no word on it")
	return supervisor.Entry{}
}

// TestStopEndsTheTree: the process exits when asked to. Its child ignores the signal, has lost its parent by then, and
// is killed.
func TestStopEndsTheTree(t *testing.T) {
	h := runEndings(t)
	root, child := deafFamily(t)
	begun := time.Now()
	h.end(root, "it hangs")
	if took := time.Since(begun); took > 100*time.Millisecond {
		t.Errorf("stop took %v: the loop waits for it", took)
	}
	if e := noted(t, h); e.Error != "" || !strings.Contains(e.Text, "have ended: 2") {
		t.Errorf("the journal says %q, %q", e.Text, e.Error)
	}
	for _, id := range []proc.Identity{proc.Identity(root), child} {
		if got := proc.Check(id); got != proc.Gone {
			t.Errorf("process %d is %v", id.PID, got)
		}
	}
}

// TestStopSparesWhoHasTheNumberNow: if an identity is gone, no process is ended, even if another one has its pid.
func TestStopSparesWhoHasTheNumberNow(t *testing.T) {
	h := runEndings(t)
	root, child := deafFamily(t)
	former := root
	former.Start--
	h.end(former, "it hangs")
	if e := noted(t, h); !strings.Contains(e.Text, "have ended: 0") {
		t.Errorf("the journal says %q, %q", e.Text, e.Error)
	}
	for _, id := range []proc.Identity{proc.Identity(root), child} {
		if got := proc.Check(id); got != proc.Alive {
			t.Errorf("process %d is %v", id.PID, got)
		}
	}
	h.end(root, "the test is over")
	for end := time.Now().Add(30 * time.Second); proc.Check(child) != proc.Gone && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
	}
}
