package ralph

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/protocoltest"
)

// counter updates the kanban as the program does (protocol 002, Concurrent Access): under flock(1) on the lock file, it
// writes a new file beside the kanban and renames it over the kanban.
const counter = `
for i in $(seq 50); do
  (
    flock -w 30 200 || exit 1
    umask 077
    n=$(sed -n 's/^Count: //p' "$1")
    tmp=$(mktemp "$1.XXXXXX")
    sed "s/^Count: .*/Count: $((n + 1))/" "$1" > "$tmp"
    mv "$tmp" "$1"
  ) 200>"$1.lock" || exit 1
  sleep 0.03
done`

func needFlock(t *testing.T) {
	t.Helper()
	for _, tool := range []string{"bash", "flock"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
}

func inode(t *testing.T, path string) uint64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Ino
}

// Protocol 002, Concurrent Access: with four writers and steward, no increment is lost.
func TestNoIncrementIsLost(t *testing.T) {
	needFlock(t)
	rounds := 2
	if testing.Short() {
		rounds = 1
	}
	if os.Getenv("STEWARD_LONG") == "1" {
		rounds = 20
	}
	changes := 0
	for round := range rounds {
		dir := lay(t, file(kanbanPath, kanban("Count: 0", line("=", "TASK-001", "lost"), line(" ", "TASK-002", "other")))+
			file(home+"/agent.pid", nobody)+file(kanbanPath+".lock", ""))
		lock := inode(t, filepath.Join(dir, kanbanPath+".lock"))
		done := make(chan error, 4)
		for range 4 {
			cmd := exec.Command("bash", "-c", counter, "counter", filepath.Join(dir, kanbanPath))
			go func() {
				out, err := cmd.CombinedOutput()
				if err != nil {
					err = fmt.Errorf("%w: %s", err, out)
				}
				done <- err
			}()
		}
		p := open(t, dir)
		for left := 4; left > 0; {
			select {
			case err := <-done:
				if left--; err != nil {
					t.Fatal(err)
				}
			case <-time.After(20 * time.Millisecond): // leave CPU time to the writers
				changes += flip(t, p)
			}
		}
		text, err := os.ReadFile(filepath.Join(dir, kanbanPath))
		if err != nil || !strings.Contains(string(text), "Count: 200\n") {
			t.Errorf("round %d: %v\n%s", round, err, text)
		}
		if now := inode(t, filepath.Join(dir, kanbanPath+".lock")); now != lock {
			t.Errorf("round %d: the lock was inode %d, is %d", round, lock, now)
		}
		if info, _ := os.Stat(filepath.Join(dir, kanbanPath)); info.Mode().Perm() != 0o600 {
			t.Errorf("round %d: mode %v, the writers left 0600", round, info.Mode())
		}
	}
	if changes < rounds {
		t.Errorf("only %d changes of ours in %d rounds: nothing is proved", changes, rounds)
	}
}

// flip concludes or requeues the task, depending on its current marker.
func flip(t *testing.T, p *Project) int {
	k := taskOf(t, look(t, p, time.Now()), "TASK-001")
	verb := protocol.VerbConclude
	if k.Outcome != nil {
		verb = protocol.VerbRequeue
	}
	if k.Visible {
		return begin(t, p)
	}
	p.write.lockedBy = "" // the lock is held nearly all the time
	if err := p.Apply(t.Context(), about(verb, k), time.Now()); err != nil {
		if !errors.Is(err, protocol.ErrConflict) {
			t.Fatal(err)
		}
		return 0
	}
	// A writer that had read the kanban before steward's change would by now have overwritten it with its old text.
	release, err := flockAt(t.Context(), filepath.Join(p.dir, kanbanPath+".lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	want := map[protocol.Verb]string{protocol.VerbConclude: "- [*] **[TASK-001]", protocol.VerbRequeue: "- [ ] **[TASK-001]"}[verb]
	if text, err := os.ReadFile(filepath.Join(p.dir, kanbanPath)); err != nil || !strings.Contains(string(text), want) {
		t.Fatalf("%s was lost: %v\n%s", verb, err, text)
	}
	return 1
}

// begin plays the program: it marks the task as in progress, under the lock.
func begin(t *testing.T, p *Project) int {
	release, err := flockAt(t.Context(), filepath.Join(p.dir, kanbanPath+".lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if err := protocoltest.Rewrite(filepath.Join(p.dir, kanbanPath), "[ ] **[TASK-001]", "[=] **[TASK-001]"); err != nil {
		t.Fatal(err)
	}
	return 0
}

// Protocol 002, Lock Files: the kernel tells which process holds a lock, and asking disturbs no process.
func TestHolderOfAFlockIsShown(t *testing.T) {
	needFlock(t)
	dir := lay(t, file(kanbanPath, kanban(line(" ", "TASK-001", "x")))+file(Base+"/logs/activity.jsonl.lock", ""))
	p := open(t, dir)
	if s := look(t, p, time.Now()); len(s.Locks) != 0 {
		t.Fatalf("nobody holds one: %+v", s.Locks)
	}
	cmd := exec.Command("bash", "-c", `exec 9>"$0.lock" 8>logs/activity.jsonl.lock; flock 9; flock 8; echo ready; read`, kanbanFile)
	cmd.Dir = filepath.Join(dir, Base)
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out.Read(make([]byte, 8))
	s := sameByHints(t, p, time.Now())
	holder := fmt.Sprintf("bash (%d)", cmd.Process.Pid)
	if len(s.Locks) != 2 || s.Locks[0].Resource != "kanban.md" || s.Locks[1].Resource != "logs/activity.jsonl" {
		t.Fatalf("locks %+v", s.Locks)
	}
	for _, l := range s.Locks {
		if l.Holder != holder || !l.Kernel || l.Process.PID != cmd.Process.Pid {
			t.Errorf("lock %+v, want held by %s", l, holder)
		}
	}
	in.Close()
	cmd.Wait()
	if s := look(t, p, time.Now()); len(s.Locks) != 0 {
		t.Errorf("after its end: %+v", s.Locks)
	}
	if _, err := os.Stat(filepath.Join(dir, kanbanPath+".lock")); err != nil {
		t.Error(err)
	}
}

// Protocol 002, Concurrent Access: the wait for the lock is bounded.
func TestWaitForTheLockIsBounded(t *testing.T) {
	now := time.Now()
	dir := lay(t, file(kanbanPath, kanban(line(" ", "TASK-001", "x"))))
	synctest.Test(t, func(t *testing.T) {
		p := New(dir, Options{Flock: func(ctx context.Context, _ *os.File) (func(), error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		defer p.Close()
		c := about(protocol.VerbCancel, taskOf(t, look(t, p, now), "TASK-001"))
		for _, try := range []struct{ after, takes time.Duration }{{0, lockWait}, {0, 0}, {lockRetry - 1, 0}, {lockRetry, lockWait}, {-time.Second, lockWait}} {
			begun := time.Now()
			err := p.Apply(t.Context(), c, now.Add(try.after))
			if !errors.Is(err, protocol.ErrConflict) || !strings.Contains(err.Error(), "the kanban is locked by another process; tried again at the next scan") || time.Since(begun) != try.takes {
				t.Errorf("after %v: %v in %v, want a conflict in %v", try.after, err, time.Since(begun), try.takes)
			}
		}
	})
}

// Protocol 002, Concurrent Access: the error names the process that holds the kanban's lock. A held lock does not stop
// changes that need not write the kanban.
func TestHolderOfTheKanbanIsNamed(t *testing.T) {
	needFlock(t)
	dir := lay(t, file(kanbanPath, kanban(line(" ", "TASK-001", "x"), line("N", "TASK-002", "x")))+file(kanbanPath+".lock", ""))
	cmd := exec.Command("bash", "-c", `exec 9>"$0"; flock 9; echo ready; read`, filepath.Join(dir, kanbanPath+".lock"))
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out.Read(make([]byte, 8))
	p := open(t, dir)
	now := time.Now()
	s := look(t, p, now)
	c := about(protocol.VerbCancel, taskOf(t, s, "TASK-001"))
	want := fmt.Sprintf("the kanban is locked by bash (%d); tried again at the next scan", cmd.Process.Pid)
	if err := p.Apply(t.Context(), c, now); !errors.Is(err, protocol.ErrConflict) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	if err := p.Apply(t.Context(), about(protocol.VerbCancel, taskOf(t, s, "TASK-002")), now); err != nil {
		t.Errorf("what is in place already needs no lock: %v", err)
	}
	in.Close()
	cmd.Wait()
	if err := p.Apply(t.Context(), c, now.Add(lockRetry)); err != nil {
		t.Errorf("when it is free again: %v", err)
	}
}

func TestWithoutAFlockNothingIsWritten(t *testing.T) {
	dir := lay(t, file(kanbanPath, kanban(line(" ", "TASK-001", "x"))))
	p := New(dir, Options{})
	defer p.Close()
	c := about(protocol.VerbCancel, taskOf(t, look(t, p, time.Now()), "TASK-001"))
	if err := p.Apply(t.Context(), c, time.Now()); !errors.Is(err, ErrNoFlock) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, kanbanPath+".lock")); err == nil {
		t.Error("a lock was made")
	}
}
