package measure

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// groups creates a tree of control groups from the table: mount points below DIR, files with their text.
func (f fakeProc) groups(own, mounts string, files map[string]string) string {
	f.t.Helper()
	dir := f.t.TempDir()
	f.write("self/cgroup", own)
	f.write("self/mountinfo", strings.ReplaceAll(mounts, "DIR", dir))
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			f.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			f.t.Fatal(err)
		}
	}
	f.Gauge.groups = groups{}
	return dir
}

const (
	unified = "31 23 0:28 / DIR rw,nosuid - cgroup2 cgroup2 rw\n"
	hybrid  = "31 23 0:28 / DIR rw - tmpfs tmpfs rw\n" +
		"32 31 0:29 / DIR/memory rw shared:9 - cgroup cgroup rw,memory\n" +
		"33 31 0:30 / DIR/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n" +
		"34 31 0:31 / DIR/unified rw - cgroup2 cgroup2 rw\n"
	gib = 1 << 30
)

func stat2(inactive, active uint64) string {
	return fmt.Sprintf("anon 5\nfile 6\ninactive_file %d\nactive_file %d\nslab_reclaimable 0\n", inactive, active)
}

func text(n uint64) string { return fmt.Sprintf("%d\n", n) }

// The machine has 16 GiB, a quarter of it used: the plain share is 25 %.
func TestMemoryOfGroups(t *testing.T) {
	const noLimit1 = "9223372036854771712\n"
	for _, c := range []struct {
		name, own, mounts string
		files             map[string]string
		used              float64
		total             uint64
		cause             string
	}{
		{"no control groups", "", "", nil, 0.25, 16 * gib, ""},
		{"no limits", "0::/a\n", unified, map[string]string{"a/memory.max": "max\n", "a/memory.high": "max\n", "a/memory.current": text(9 * gib)}, 0.25, 16 * gib, ""},
		{"own limit", "0::/a/b\n", unified, map[string]string{
			"a/b/memory.max": text(4 * gib), "a/b/memory.high": "max\n", "a/b/memory.current": text(3 * gib), "a/b/memory.stat": stat2(0, 0)}, 0.75, 4 * gib, "a/b"},
		{"an ancestor's, nested high", "0::/a/b/c\n", unified, map[string]string{
			"a/b/c/memory.max": text(8 * gib), "a/b/c/memory.high": text(6 * gib), "a/b/c/memory.current": text(3 * gib), "a/b/c/memory.stat": stat2(0, 0),
			"a/memory.max": "max\n", "a/memory.high": text(5 * gib), "a/memory.current": text(4 * gib), "a/memory.stat": stat2(0, 0)}, 0.8, 5 * gib, "a"},
		{"a group full of files that were read", "0::/a\n", unified, map[string]string{
			"a/memory.max": text(4 * gib), "a/memory.current": text(4 * gib), "a/memory.stat": stat2(3*gib, gib/2)}, 0.25, 4 * gib, ""},
		{"of files that are used over and over", "0::/a\n", unified, map[string]string{
			"a/memory.max": text(4 * gib), "a/memory.current": text(4 * gib), "a/memory.stat": stat2(gib, 3*gib)}, 0.375, 4 * gib, "a"},
		{"a limit above the machine's memory", "0::/a\n", unified, map[string]string{
			"a/memory.max": text(64 * gib), "a/memory.current": text(9 * gib), "a/memory.stat": stat2(0, 0)}, 0.25, 16 * gib, ""},
		{"version 1", "4:memory:/a\n0::/\n", hybrid, map[string]string{
			"memory/a/memory.limit_in_bytes": text(2 * gib), "memory/a/memory.usage_in_bytes": text(2 * gib),
			"memory/a/memory.stat":         "inactive_file 9\ntotal_inactive_file " + text(gib/2),
			"memory/memory.limit_in_bytes": noLimit1, "memory/memory.usage_in_bytes": text(9 * gib)}, 0.75, 2 * gib, "memory/a"},
		{"version 1, mounted elsewhere, seen from a container", "4:memory:/docker/x/y\n", "32 31 0:29 /docker/x DIR/else\\040where rw - cgroup cgroup rw,memory\n", map[string]string{
			"else where/memory.limit_in_bytes": text(2 * gib), "else where/memory.usage_in_bytes": text(gib), "else where/memory.stat": "total_inactive_file 0\n",
			"else where/y/memory.limit_in_bytes": noLimit1}, 0.5, 2 * gib, "else where"},
		{"a namespace of its own", "0::/\n", unified, map[string]string{
			"memory.max": text(2 * gib), "memory.current": text(gib), "memory.stat": stat2(0, 0)}, 0.5, 2 * gib, ""},
		{"outside the namespace, out of sight", "0::/../../b\n", unified, map[string]string{
			"memory.max": text(2 * gib), "memory.current": text(gib), "memory.stat": stat2(0, 0)}, 0.25, 16 * gib, ""},
		{"a mount from above the namespace", "0::/x\n", strings.Replace(unified, " / ", " /.. ", 1), map[string]string{
			"memory.max": text(2 * gib), "memory.current": text(gib), "memory.stat": stat2(0, 0)}, 0.5, 2 * gib, ""},
		{"a stat that says nothing", "0::/a\n", unified, map[string]string{
			"a/memory.max": text(2 * gib), "a/memory.current": text(2 * gib), "a/memory.stat": "\n"}, 0.25, 2 * gib, ""},
		{"garbage", "x\n0:\n:::\n0::a\n", "x\n - cgroup2\n1 2 3 4 5 - cgroup c\n", nil, 0.25, 16 * gib, ""},
	} {
		f := newFakeProc(t)
		f.write("meminfo", meminfo(16<<20, 12<<20, 0, 0))
		dir := f.groups(c.own, c.mounts, c.files)
		load := f.Sample(noon)
		used, _ := load.Memory.Value()
		if used != c.used || load.MemoryTotal != c.total {
			t.Errorf("%s: %v of %d, want %v of %d", c.name, used, load.MemoryTotal, c.used, c.total)
		}
		if cause := load.Because["memory"]; (cause != "") != (used > 0.25) || c.cause != "" && !strings.Contains(cause, filepath.Join(dir, c.cause)+" ") {
			t.Errorf("%s: because %q", c.name, cause)
		}
	}
}

// A limit stays in force while the groups cannot be read, and is read again after a while.
func TestGroupsAreReadAgain(t *testing.T) {
	f := newFakeProc(t)
	dir := f.groups("0::/a\n", unified, map[string]string{"a/memory.max": text(4 * gib), "a/memory.current": text(3 * gib), "a/memory.stat": stat2(0, 0)})
	f.write("meminfo", meminfo(16<<20, 12<<20, 0, 0))
	f.Sample(noon)
	f.spoil("self/cgroup")
	at := noon.Add(groupsEvery)
	if load := f.Sample(at); load.MemoryTotal != 4*gib || load.Memory.Or(0) != 0.75 {
		t.Errorf("nothing can be looked up: %+v", load)
	}
	if err := os.Remove(filepath.Join(f.proc, "self/cgroup")); err != nil {
		t.Fatal(err)
	}
	f.write("self/cgroup", "0::/a\n")
	if err := os.WriteFile(filepath.Join(dir, "a/memory.max"), []byte("max\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if load := f.Sample(at.Add(time.Second)); load.MemoryTotal != 16*gib || load.Memory.Or(0) != 0.25 {
		t.Errorf("the limit is gone: %+v", load)
	}
}

func TestProcessorOfGroups(t *testing.T) {
	for _, c := range []struct {
		name, own, mounts, file, first, then string
		limits                               map[string]string
		used, cores                          float64
	}{
		{"version 2", "0::/a/b\n", unified, "a/cpu.stat", "usage_usec 5000000\nuser_usec 1\n", "usage_usec 5400000\nuser_usec 1\n",
			map[string]string{"a/cpu.max": "50000 100000\n", "a/b/cpu.max": "max 100000\n"}, 0.8, 0.5},
		{"version 1", "3:cpu,cpuacct:/a\n", hybrid, "cpu,cpuacct/a/cpuacct.usage", "1000000000\n", "1100000000\n",
			map[string]string{"cpu,cpuacct/a/cpu.cfs_quota_us": "25000\n", "cpu,cpuacct/a/cpu.cfs_period_us": "100000\n", "cpu,cpuacct/cpu.cfs_quota_us": "-1\n", "cpu,cpuacct/cpu.cfs_period_us": "100000\n"}, 0.4, 0.25},
		{"a count that runs backwards", "0::/a\n", unified, "a/cpu.stat", "usage_usec 5000000\n", "usage_usec 4000000\n", map[string]string{"a/cpu.max": "50000 100000\n"}, 0.1, 0.5},
	} {
		f := newFakeProc(t)
		dir := f.groups(c.own, c.mounts, c.limits)
		write := func(text string) {
			if err := os.WriteFile(filepath.Join(dir, c.file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, c.file)), 0o700); err != nil {
			t.Fatal(err)
		}
		write(c.first)
		f.Sample(noon)
		write(c.then)
		f.stat(10, 90)
		load := f.Sample(noon.Add(time.Second))
		if used := load.CPU.Or(-1); used < c.used-1e-9 || used > c.used+1e-9 || load.Cores != c.cores || (load.Because["cpu"] != "") != (c.used > 0.1) {
			t.Errorf("%s: %v of %v cores, %v", c.name, used, load.Cores, load.Because)
		}
		if load.Window != time.Second {
			t.Errorf("%s: window %v", c.name, load.Window)
		}
		again := f.Sample(noon.Add(time.Second + shortest/2))
		if again.CPU != load.CPU {
			t.Errorf("%s: too close together: %v, then %v", c.name, load.CPU, again.CPU)
		}
	}
}

func TestChain(t *testing.T) {
	for _, c := range []struct {
		root, group string
		want        []string
	}{
		{"/", "/", []string{"/m"}},
		{"/", "/a/b", []string{"/m/a/b", "/m/a", "/m"}},
		{"/a", "/a/b", []string{"/m/b", "/m"}},
		{"/a", "/ab", nil},
		{"/a", "/", nil},
		{"/", "/..", nil},
		{"/", "/../x", nil},
		{"/..", "/", []string{"/m"}},
		{"/..", "/../x/y", []string{"/m/x/y", "/m/x", "/m"}},
		{"/../..", "/../x", []string{"/m"}},
	} {
		if got := (hierarchy{root: c.root, mount: "/m"}).chain(c.group); !slices.Equal(got, c.want) {
			t.Errorf("%s of %s: %v, want %v", c.group, c.root, got, c.want)
		}
	}
}

// When programs wait for memory, it is nearly used up, whatever the page counts say.
func TestPressureInTheLoad(t *testing.T) {
	psi := func(some, full int) string {
		return fmt.Sprintf("some avg10=0.00 avg60=0.00 avg300=0.00 total=%d\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=%d\n", some, full)
	}
	for _, c := range []struct {
		name       string
		up         time.Duration
		some, full int
		want       float64
	}{
		{"calm", time.Hour, 150_000, 0, 0.25},
		{"some wait", time.Hour, 200_000, 0, 0.9},
		{"all wait", time.Hour, 200_000, 100_000, 1},
		{"right after the start of the machine", 30 * time.Second, 200_000, 100_000, 0.25},
	} {
		f := newFakeProc(t)
		f.up = func() time.Duration { return c.up }
		f.write("meminfo", meminfo(16<<20, 12<<20, 0, 0))
		f.write("pressure/memory", psi(7_000_000, 5_000_000))
		f.write("pressure/cpu", psi(1000, 0))
		if load := f.Sample(noon); load.Memory.Or(0) != 0.25 || load.Stalled.Known() {
			t.Errorf("%s: at first sight %v, %v", c.name, load.Memory, load.Stalled)
		}
		f.write("pressure/memory", psi(7_000_000+c.some, 5_000_000+c.full))
		f.write("pressure/cpu", psi(1_001_000, 0))
		load := f.Sample(noon.Add(2 * time.Second))
		if load.Memory.Or(0) != c.want || load.Stalled.Or(0) != 0.5 || (load.Because["memory"] != "") != (c.want > 0.25) {
			t.Errorf("%s: %v, %v, %v", c.name, load.Memory, load.Stalled, load.Because)
		}
	}
}
