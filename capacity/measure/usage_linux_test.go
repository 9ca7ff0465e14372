package measure

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/platform/proc"
)

// fakeProcess is one process of a fake procfs.
type fakeProcess struct {
	pid, parent, session int
	start                int // ticks
	spent, children      int // ticks
	pages                int
	state                string // "" means S
	name                 string
}

func (f fakeProc) has(list ...fakeProcess) {
	f.t.Helper()
	for _, p := range list {
		if p.state == "" {
			p.state = "S"
		}
		f.write(fmt.Sprintf("%d/stat", p.pid), fmt.Sprintf(
			"%d (%s) %s %d %d %d 0 -1 0 0 0 0 0 %d 0 %d 0 20 0 1 0 %d 1000 %d 18446744073709551615 0 0 0\n",
			p.pid, p.name, p.state, p.parent, p.session, p.session, p.spent, p.children, p.start, p.pages))
	}
}

func (f fakeProc) lost(pid int) {
	f.t.Helper()
	if err := os.RemoveAll(filepath.Join(f.proc, fmt.Sprint(pid))); err != nil {
		f.t.Fatal(err)
	}
}

// descriptors gives a process n open files, and a limit.
func (f fakeProc) descriptors(pid, n, limit int) {
	f.t.Helper()
	f.write(fmt.Sprintf("%d/limits", pid), fmt.Sprintf("Limit   Soft Limit   Hard Limit   Units\nMax open files            %d                 9999                files     \n", limit))
	for fd := range n {
		f.write(fmt.Sprintf("%d/fd/%d", pid, fd), "")
	}
}

func bootHere(t *testing.T) string {
	t.Helper()
	me, err := proc.Inspect(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	return me.Boot
}

// trees formats the result of Usage: "10: 3 processes, 2.00 cores".
func (f fakeProc) trees(now time.Time, roots ...capacity.Identity) string {
	var out []string
	for _, u := range f.Usage(roots, now) {
		out = append(out, fmt.Sprintf("%d: %d, %.2f cores", u.Identity.PID, u.Processes, u.Cores))
	}
	return strings.Join(out, "; ")
}

func TestUsageOfTrees(t *testing.T) {
	f := newFakeProc(t)
	boot := bootHere(t)
	root := func(pid, start int) capacity.Identity {
		return capacity.Identity{PID: pid, Start: uint64(start), Boot: boot}
	}
	a, b := root(10, 100), root(20, 200)
	f.has(fakeProcess{pid: 1, start: 1}, fakeProcess{pid: 10, parent: 1, start: 100, session: 10, pages: 10},
		fakeProcess{pid: 11, parent: 10, start: 110, session: 10, pages: 5}, fakeProcess{pid: 12, parent: 11, start: 120, session: 12},
		fakeProcess{pid: 20, parent: 10, start: 200, session: 10}, fakeProcess{pid: 21, parent: 20, start: 210, session: 10},
		fakeProcess{pid: 30, parent: 1, start: 100, session: 30})

	f.write("11/io", "rchar: 7\nwchar: 4711\n")
	if got := f.trees(noon, a, b, a, root(30, 99), root(99, 1), capacity.Identity{PID: 30, Start: 100, Boot: "other"}, capacity.Identity{PID: 30}); got != "10: 5, -1.00 cores; 20: 2, -1.00 cores" {
		t.Errorf("at first: %s", got)
	}
	first := f.Usage([]capacity.Identity{a}, noon)[0]
	if first.Memory != uint64(15*os.Getpagesize()) || first.Written != 4711 || first.Tree == "" || !first.At.Equal(noon) {
		t.Errorf("%+v", first)
	}

	// 11 ends; 12, which is in a session of its own, is adopted by 1; 21 works for 1 s.
	f.lost(11)
	f.has(fakeProcess{pid: 12, parent: 1, start: 120, session: 12}, fakeProcess{pid: 21, parent: 20, start: 210, session: 10, spent: 100})
	if got := f.trees(noon.Add(time.Second), a, b); got != "10: 5, -1.00 cores; 20: 2, -1.00 cores" {
		t.Errorf("scanned again within 2 s: %s", got)
	}
	now := noon.Add(scanEvery)
	if got := f.trees(now, a, b); got != "10: 4, 0.50 cores; 20: 2, 0.50 cores" {
		t.Errorf("adopted by another: %s", got)
	}
	second := f.Usage([]capacity.Identity{a}, now)[0]
	if second.Tree == first.Tree || second.CPU-first.CPU != time.Second || second.Written != 0 {
		t.Errorf("%+v, then %+v", first, second)
	}
	// Processes started by 12 belong to it, even after 12 is gone. An unrelated process gets pid 12.
	f.has(fakeProcess{pid: 13, parent: 12, start: 130, session: 12})
	now = now.Add(scanEvery)
	if got := f.trees(now, a); got != "10: 5, 0.00 cores" {
		t.Errorf("a child of it: %s", got)
	}
	f.has(fakeProcess{pid: 12, parent: 1, start: 900, session: 12}, fakeProcess{pid: 13, parent: 1, start: 130, session: 12})
	now = now.Add(scanEvery)
	if got := f.trees(now, a, root(12, 900)); got != "10: 4, 0.00 cores; 12: 1, 0.00 cores" {
		t.Errorf("its number was given to another: %s", got)
	}
	// When the root is gone or a zombie, its tree is left out.
	f.lost(10)
	f.has(fakeProcess{pid: 20, parent: 1, start: 200, session: 10, state: "Z"})
	now = now.Add(scanEvery)
	if got := f.trees(now, a, b); got != "" {
		t.Errorf("roots that are gone: %s", got)
	}
}

// The session shows the origin of a process that was never seen with its parent.
func TestUsageKnowsTheSession(t *testing.T) {
	f := newFakeProc(t)
	a := capacity.Identity{PID: 10, Start: 100, Boot: bootHere(t)}
	f.has(fakeProcess{pid: 1, start: 1}, fakeProcess{pid: 5, parent: 1, start: 5, session: 5}, fakeProcess{pid: 10, parent: 5, start: 100, session: 10},
		fakeProcess{pid: 12, parent: 5, start: 120, session: 10}, // adopted by 5
		fakeProcess{pid: 13, parent: 1, start: 130, session: 13}, // left both parent and session
		fakeProcess{pid: 14, parent: 5, start: 90, session: 10},  // older than the leader: an earlier session with that number
	)
	if got := f.trees(noon, a); got != "10: 2, -1.00 cores" {
		t.Error(got)
	}
}

// The processor time of children counts once, either with them or, when they have ended, with their parent.
func TestUsageOfShortLives(t *testing.T) {
	f := newFakeProc(t)
	a := capacity.Identity{PID: 10, Start: 100, Boot: bootHere(t)}
	make10 := func(children int) fakeProcess {
		return fakeProcess{pid: 10, parent: 1, start: 100, session: 10, children: children}
	}
	f.has(make10(0))
	f.trees(noon, a)
	f.has(fakeProcess{pid: 11, parent: 10, start: 1 << 30, session: 10, spent: 300}) // it has just started, whatever the uptime
	now := noon.Add(scanEvery)
	if got := f.trees(now, a); got != "10: 2, 1.50 cores" {
		t.Errorf("it runs: %s", got)
	}
	f.lost(11)
	f.has(make10(400)) // 3 s are already counted, 1 s is new
	now = now.Add(scanEvery)
	if got := f.trees(now, a); got != "10: 1, 0.50 cores" {
		t.Errorf("it ended: %s", got)
	}
	if u := f.Usage([]capacity.Identity{a}, now)[0]; u.CPU != 4*time.Second {
		t.Errorf("%v in all", u.CPU)
	}
	f.has(make10(400 + 200)) // other children came and went between the scans
	now = now.Add(scanEvery)
	if got := f.trees(now, a); got != "10: 1, 1.00 cores" {
		t.Errorf("never seen: %s", got)
	}
}

// The descriptors of agents' processes count as files, by the process nearest its limit.
func TestDescriptorsOfAgents(t *testing.T) {
	f := newFakeProc(t)
	f.write("sys/fs/file-nr", "600\t0\t60000\n")
	a := capacity.Identity{PID: 10, Start: 100, Boot: bootHere(t)}
	f.has(fakeProcess{pid: 10, parent: 1, start: 100, name: "node"}, fakeProcess{pid: 11, parent: 10, start: 101, name: "es\x1bbuild"},
		fakeProcess{pid: 12, parent: 10, start: 102}, fakeProcess{pid: 20, parent: 1, start: 1})
	f.descriptors(10, 50, 1000)
	f.descriptors(11, 10, 100)
	f.descriptors(20, 99, 100) // its usage is not queried
	f.write("12/limits", "Max open files            0\n")
	u := f.Usage([]capacity.Identity{a}, noon)
	if len(u) != 1 || u[0].Files != 10 || u[0].FileLimit != 100 || u[0].FilesPID != 11 {
		t.Fatalf("%+v", u)
	}
	if load := f.Sample(noon); load.Files.Or(0) != 0.1 || load.Because != nil {
		t.Errorf("a tenth of a limit: %+v", load)
	}
	f.descriptors(11, 40, 100)
	now := noon.Add(scanEvery)
	f.Usage([]capacity.Identity{a}, now)
	load := f.Sample(now)
	if load.Files.Or(0) != 0.4 || load.Exhausted != soon || load.Because != nil {
		t.Errorf("15 a second, 60 left, by one reading: %+v", load)
	}
	f.descriptors(11, 55, 100)
	if load = f.Sample(now.Add(time.Second)); load.Files.Or(0) != 1 || load.Exhausted != 3*time.Second || load.Because["files"] != "es?build (pid 11) nears its limit of 100 open files" {
		t.Errorf("it goes on, between two scans: %+v", load)
	}
	f.lost(11)
	now = now.Add(scanEvery)
	f.Usage([]capacity.Identity{a}, now)
	if load = f.Sample(now); load.Files.Or(0) != 0.05 || load.Exhausted != 0 {
		t.Errorf("it is gone, node has 50 of 1000: %+v", load)
	}
	if load = f.Sample(now.Add(time.Minute)); load.Files.Or(0) != 0.01 {
		t.Errorf("nobody asks any more: %+v", load)
	}
}

func TestInotifyOfThisUser(t *testing.T) {
	f := newFakeProc(t)
	f.write("sys/fs/file-nr", "600\t0\t60000\n")
	f.write("sys/fs/inotify/max_user_watches", "20\n")
	f.write("sys/fs/inotify/max_user_instances", "4\n")
	a := capacity.Identity{PID: 10, Start: 100, Boot: bootHere(t)}
	f.has(fakeProcess{pid: 10, parent: 1, start: 100})
	link := func(pid, fd, watches int) {
		f.write(fmt.Sprintf("%d/fdinfo/%d", pid, fd), "pos:\t0\n"+strings.Repeat("inotify wd:1 ino:1\n", watches))
		dir := filepath.Join(f.proc, fmt.Sprintf("%d/fd", pid))
		_ = os.MkdirAll(dir, 0o700)
		if err := os.Symlink("anon_inode:inotify", filepath.Join(dir, fmt.Sprint(fd))); err != nil {
			t.Fatal(err)
		}
	}
	link(10, 3, 2)
	link(11, 3, 16)
	f.Sample(noon)
	if f.inotify.pending != nil {
		t.Fatal("counted though nobody has asked about agents")
	}
	share := func(now time.Time) capacity.Load {
		f.Usage([]capacity.Identity{a}, now)
		f.Sample(now)
		for f.inotify.pending != nil && len(f.inotify.pending) == 0 {
			time.Sleep(time.Millisecond)
		}
		f.Sample(now)
		return f.Sample(now)
	}
	if load := share(noon); load.Files.Or(0) != 0.01 || load.Because["files"] != "" {
		t.Errorf("18 of 20 watches, as ever: %+v", load)
	}
	link(11, 4, 1)
	if load := share(noon.Add(inotifyEvery / 2)); load.Files.Or(0) != 0.01 {
		t.Errorf("counted again within the minute: %+v", load)
	}
	now := noon.Add(inotifyEvery)
	if load := share(now); load.Files.Or(0) != 0.95 || !strings.Contains(load.Because["files"], "20 inotify watches") {
		t.Errorf("19 of 20 watches: %+v", load)
	}
	link(10, 4, 0)
	if load := share(now.Add(inotifyEvery)); load.Files.Or(0) != 1 || !strings.Contains(load.Because["files"], "4 inotify instances") {
		t.Errorf("4 of 4 instances: %+v", load)
	}
	f.write("sys/fs/inotify/max_user_watches", "many\n")
	if load := share(now.Add(2 * inotifyEvery)); load.Files.Or(0) != 0.01 {
		t.Errorf("the limit cannot be read: %+v", load)
	}
}

// If the process table is unreadable the last scan is used, with its own time.
func TestUsageUnreadable(t *testing.T) {
	f := newFakeProc(t)
	a := capacity.Identity{PID: 10, Start: 100, Boot: bootHere(t)}
	f.has(fakeProcess{pid: 10, parent: 1, start: 100})
	good := f.proc
	f.proc = filepath.Join(good, "gone")
	if got := f.Usage([]capacity.Identity{a}, noon); got != nil || f.Problems()["consumers"] == "" {
		t.Errorf("%v %v", got, f.Problems())
	}
	f.proc = good
	if got := f.Usage([]capacity.Identity{a}, noon); len(got) != 1 || len(f.Problems()["consumers"]) > 0 {
		t.Errorf("%v %v", got, f.Problems())
	}
	f.scan.dir.Close()
	got := f.Usage([]capacity.Identity{a}, noon.Add(scanEvery))
	if len(got) != 1 || !got[0].At.Equal(noon) || f.Problems()["consumers"] == "" {
		t.Errorf("%v %v", got, f.Problems())
	}
	if got := f.Usage(nil, noon); len(got) != 0 {
		t.Errorf("%v", got)
	}
}
