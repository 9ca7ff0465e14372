package keep

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestAnAgentThatRunsWhenDue: it starts when work waits, is not started again after it ended well, and a hold keeps it
// from starting. A change of its command ends no run.
func TestAnAgentThatRunsWhenDue(t *testing.T) {
	row := script("a", "echo life >>lives; while [ -e stay ]; do sleep 0.02; done")
	row.Restart = WhenDue
	s := newSite(t, row)
	works := script("a", "echo life >>lives; while [ -e "+filepath.Join(s.state, "due-a")+" ]; do sleep 0.02; done").Command
	due := func() { s.touch("due-a"); s.reload() }
	ended := func(lives int) {
		s.Helper()
		s.until("the life", func() bool { return s.lives() >= lives })
		_ = os.Remove(filepath.Join(s.state, "due-a"))
		s.until("its end", func() bool { return len(s.all("a")) == 0 && s.record("a").Process.PID == 0 })
		s.reload()
		if n := s.lives(); n != lives {
			t.Fatalf("%d lives, want %d", n, lives)
		}
	}
	stay := filepath.Join(s.dir, "stay")
	if err := os.WriteFile(stay, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.start()
	s.until("the keeper", func() bool { return s.logged("no work waits for it") })
	if s.lives() != 0 {
		t.Fatal("it was started without work")
	}
	due()
	pid := s.pid("a", 0)
	// A run outlives the keeper, and a change of its row.
	s.kill()
	_ = os.Remove(filepath.Join(s.state, "due-a"))
	s.plan.Rows[0].Command = works
	s.start()
	s.until("it is adopted", func() bool { return s.logged("agent adopted") })
	if now := s.pid("a", 0); now != pid {
		t.Fatalf("the run was replaced: %d, before %d", now, pid)
	}
	_ = os.Remove(stay)
	ended(1)
	// A hold, in a file that no damaged record can end.
	held := filepath.Join(s.state, Folder, "shop.a.held")
	if err := os.WriteFile(held, []byte("why\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	due()
	s.until("it is held", func() bool { return s.logged("the operator holds it") })
	_ = os.Remove(held)
	s.reload()
	ended(2)
	// A kill of a run counts as a failure; it is started again only for work.
	s.plan.Rows[0].Command = script("a", "echo life >>lives; exec sleep 600").Command
	s.reload()
	due()
	pid = s.pid("a", 0)
	_ = os.Remove(filepath.Join(s.state, "due-a"))
	_ = syscall.Kill(pid, syscall.SIGKILL)
	ended(3)
	if r := s.record("a"); r.History.Count != 1 {
		t.Errorf("the record: %+v", r)
	}
}

func TestNextOfAnAgentThatRunsWhenDue(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	cfg := Config{Backoff: time.Second, MaxBackoff: time.Minute, Burst: 2, Within: time.Minute}
	failed := History{Count: 2, Times: []time.Time{now.Add(-time.Second), now.Add(-time.Second)}}
	if d := Next("a", WhenDue, failed, Ending{At: now}, now, cfg); d.Action != Start || !d.At.Equal(now) || d.History.Count != 0 {
		t.Errorf("after a good end: %+v", d)
	}
	if d := Next("a", WhenDue, failed, Ending{At: now, Code: 1}, now, cfg); d.Action != Fail {
		t.Errorf("after the third failure: %+v", d)
	}
}

func (s *site) logged(text string) bool {
	raw, _ := os.ReadFile(filepath.Join(s.state, "keeper.log"))
	return strings.Contains(string(raw), text)
}
