//go:build linux

package torture

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/livhana/steward/test/rig"

	"golang.org/x/sys/unix"
)

// limitFiles sets how many files a running process may have open, and gives what sets it back.
func limitFiles(p *rig.Child, t testing.TB, files uint64) (back func()) {
	t.Helper()
	var old unix.Rlimit
	limit := func(now unix.Rlimit) {
		if err := unix.Prlimit(p.Process.Pid, unix.RLIMIT_NOFILE, &now, &old); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Prlimit(p.Process.Pid, unix.RLIMIT_NOFILE, nil, &old); err != nil {
		t.Fatal(err)
	}
	was := old
	limit(unix.Rlimit{Cur: files, Max: was.Max})
	return func() { limit(was) }
}

// TestFaultNoDescriptors: the working daemon may open nothing more, or next to nothing. It takes nothing that it cannot
// read for gone, says what is wrong, does no harm, and goes on when there are descriptors again.
func TestFaultNoDescriptors(t *testing.T) {
	t.Parallel()
	for _, spare := range []int{0, 2} {
		t.Run(fmt.Sprintf("%d to spare", spare), func(t *testing.T) {
			t.Parallel()
			x := newOrdeal(t, strings.Replace(faultRules("[heartbeat]\nlate = \"500ms\"\ndead = \"1s\"\nresume_grace = \"1ms\"\n"), `fault_after = "1s"`, `fault_after = "3s"`, 1))
			x.hire()
			p := x.Start(ordealProject)
			x.order(2)
			x.Shows(`"codex-cursor"[^}]*"state": *"alive"`)
			back := limitFiles(p, t, uint64(openDescriptors(p)+spare))
			x.order(4)
			x.Until("it says what is wrong", func() bool { return x.said(`too many open files`) })
			x.Pause(5 * time.Second)
			if !p.Alive() {
				t.Fatal("the daemon has ended")
			}
			back()
			x.Until("it answers again", x.Answers)
			x.laws()
			if spare == 0 && !x.toldOf(`too many open files`) {
				t.Error("the human was not told, though it lasted longer than fault_after")
			}
		})
	}
}

// confined is a command in a user namespace in which this user has no more than so many inotify watches and queues.
func (x *ordeal) confined(watches, queues int, args ...string) *rig.Child {
	x.Helper()
	limits := fmt.Sprintf("echo %d > /proc/sys/user/max_inotify_watches && echo %d > /proc/sys/user/max_inotify_instances", watches, queues)
	if out, err := x.Command("unshare", "--user", "--map-root-user", "sh", "-c", limits).CombinedOutput(); err != nil {
		x.Skipf("no user namespace with limits of its own: %v: %s", err, out)
	}
	return x.Spawn(x.Command("unshare", append([]string{"--user", "--map-root-user", "sh", "-c", limits + ` && exec "$@"`, "sh"}, args...)...))
}

// TestFaultNoWatches: the kernel gives no queue, or too few watches. Then steward looks at its pace, and says so; once.
func TestFaultNoWatches(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string][2]int{"no queue": {1000, 0}, "two watches": {2, 10}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newOrdeal(t, faultRules(""))
			x.stays = "cannot be watched"
			x.hire()
			p := x.confined(limit[0], limit[1], "steward", "run", "--project", ordealProject)
			x.Until("the daemon answers", func() bool { return !p.Alive() || x.Answers() })
			x.order(6)
			x.laws()
			if !p.Alive() {
				t.Fatal("the daemon has ended")
			}
			if !x.said(`(?i)level=WARN.*looking every few seconds`) {
				t.Error("the log does not say that folders are not watched")
			}
			inside := x.Command("nsenter", "-t", pidText(p), "-U", "--preserve-credentials", "steward", "doctor")
			if out, _ := inside.CombinedOutput(); rig.Found(string(out), `folders cannot be watched|watches .{0,40}(run out|limit is low)`) != nil {
				t.Errorf("doctor does not say so:\n%s", out)
			}
			if s, err := x.Status(); err != nil || rig.Found(s.Raw, `cannot be watched`) != nil {
				t.Error("the status page does not say that folders are not watched")
			}
			x.Until("it is an incident", func() bool { return x.toldOf(`cannot be watched`) })
		})
	}
}

// TestFaultFlood: while the daemon stands still, 12,000 files come to a watched folder, and the kernel's queue overflows:
// what comes after that is in no event. It is found all the same, and the log says so.
func TestFaultFlood(t *testing.T) {
	if testing.Short() {
		t.Skip("short: runs the whole program")
	}
	t.Parallel()
	x := newOrdeal(t, strings.NewReplacer(`look_every = "200ms"`, `look_every = "20s"`, "[tasks]", "[tasks]\nlease = \"80s\"").Replace(faultRules("")))
	x.hire()
	p := x.Start(ordealProject)
	x.order(1)
	x.Until("it works", func() bool { return x.open() == 0 })
	sendSignal(x.torture.Rig, p, syscall.SIGSTOP)
	for n := range 12_000 {
		x.Put(x.At(ordealProject, "tmp/agent_status/codex_tasks", fmt.Sprintf("note_%d.txt", n)), rig.Doc{"n": n})
	}
	x.order(12)
	sendSignal(x.torture.Rig, p, syscall.SIGCONT)
	began := time.Now()
	x.Until("all is found", func() bool { return x.open() == 0 })
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("it took %v: that was the next full look, and not the overflow", took)
	}
	if !x.said(`level=WARN msg="more changes than the kernel keeps[^\n]*project=p\b`) {
		t.Error("the log does not say that events were lost")
	}
	x.laws()
}
