package measure

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/livhana/steward/capacity"
)

// fakeProc is a Gauge on a fake procfs.
type fakeProc struct {
	t *testing.T
	*Gauge
}

func newFakeProc(t *testing.T) fakeProc {
	f := fakeProc{t, New()}
	f.proc, f.scan.clock, f.allowed = t.TempDir(), nil, everyCPU
	f.stat(0, 0)
	f.write("meminfo", meminfo(16<<20, 4<<20, 0, 0))
	f.write("sys/fs/file-nr", "600\t0\t2400\n")
	return f
}

// everyCPU is the mask of a process without an affinity.
func everyCPU() *unix.CPUSet { return nil }

func (f fakeProc) write(name, text string) {
	f.t.Helper()
	path := filepath.Join(f.proc, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// spoil makes a file unreadable, even for the superuser, by replacing it with a folder. Unlike in a real procfs, an
// open file would stay readable.
func (f fakeProc) spoil(name string) {
	f.t.Helper()
	clear(f.open)
	if err := os.Remove(filepath.Join(f.proc, name)); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(f.proc, name), 0o700); err != nil {
		f.t.Fatal(err)
	}
}

// stat writes the processor counters, in ticks. Guest time is already included in user time.
func (f fakeProc) stat(user, idle int) {
	f.t.Helper()
	f.write("stat", fmt.Sprintf("cpu  %d 0 0 %d 0 0 0 0 %d 0\ncpu0 1 2 3 4\nintr 5\n", 1000+user, 5000+idle, 1000+user))
}

func meminfo(total, available, swapTotal, swapFree uint64) string {
	return fmt.Sprintf("MemTotal: %d kB\nMemFree: 1 kB\nMemAvailable: %d kB\nSwapTotal: %d kB\nSwapFree: %d kB\n",
		total, available, swapTotal, swapFree)
}

func TestReadings(t *testing.T) {
	f := newFakeProc(t)
	f.write("meminfo", meminfo(16<<20, 4<<20, 32<<20, 2<<20))
	f.Sample(noon)
	f.stat(150, 50)
	load := f.Sample(noon.Add(time.Second))
	if v, known := load.CPU.Value(); !known || v != 0.75 {
		t.Errorf("cpu %v, want 75 %%", load.CPU)
	}
	if v, _ := load.Memory.Value(); v != 42.0/48 {
		t.Errorf("memory %v: 12 of 16 GiB and 30 of 32 GiB swap are taken", load.Memory)
	}
	if v, _ := load.Files.Value(); v != 0.25 {
		t.Errorf("files %v, want 25 %%", load.Files)
	}
	if *load.OpenFiles != 600 || *load.MemoryUsedMB != 12<<10 {
		t.Errorf("%d files, %d MiB", *load.OpenFiles, *load.MemoryUsedMB)
	}
}

// Whatever a file contains: its dimension becomes unknown with a reason, never 0; the others stay known; and it
// recovers.
func TestBrokenFiles(t *testing.T) {
	for _, c := range []struct{ dimension, file, text string }{
		{"cpu", "stat", ""},
		{"cpu", "stat", "intr 1 2 3\n"},
		{"cpu", "stat", "cpu  all is well\n"},
		{"cpu", "stat", "cpu  nan 0 0 nan 0 0 0 0 0 0\n"},
		{"cpu", "stat", "cpu  1000 0 0 1e400 0 0 0 0 0 0\n"},
		{"cpu", "stat", "cpu  9 0 0 5 0 0 0 0 0 0\n"}, // backwards
		{"memory", "meminfo", ""},
		{"memory", "meminfo", "MemTotal: lots\n"},
		{"memory", "meminfo", "MemTotal: 0 kB\nMemAvailable: 0 kB\n"},
		{"memory", "meminfo", "MemTotal: 99999999999999999999 kB\nMemAvailable: 5 kB\n"},
		{"memory", "meminfo", "MemTotal: 18014398509481983 kB\nMemAvailable: 5 kB\n"},
		{"memory", "meminfo", "MemTotal: 100 kB\nMemAvailable: 101 kB\n"},
		{"files", "sys/fs/file-nr", ""},
		{"files", "sys/fs/file-nr", "600 0"},
		{"files", "sys/fs/file-nr", "600 0 many"},
		{"files", "sys/fs/file-nr", "600 0 0"},
		{"files", "sys/fs/file-nr", "600 601 2400"},
		{"files", "sys/fs/file-nr", "-1 0 2400"},
		{"files", "sys/fs/file-nr", "600 0 99999999999999999999"},
		{"cpu", "stat", "<unreadable>"},
		{"memory", "meminfo", "<unreadable>"},
		{"files", "sys/fs/file-nr", "<unreadable>"},
	} {
		f := newFakeProc(t)
		f.Sample(noon)
		f.stat(100, 100)
		if c.text == "<unreadable>" {
			f.spoil(c.file)
		} else {
			f.write(c.file, c.text)
		}
		load := f.Sample(noon.Add(time.Second))
		unknown, problems := strings.Join(load.Unknown(), " "), f.Problems()
		if unknown != c.dimension+" disk" || len(problems) != 2 || problems[c.dimension] == "" {
			t.Errorf("%s %q: unknown: %s; problems: %v", c.file, c.text, unknown, problems)
		}
		if (load.MemoryUsedMB == nil) != (c.dimension == "memory") || (load.OpenFiles == nil) != (c.dimension == "files") {
			t.Errorf("%s %q: %v MiB, %v files", c.file, c.text, load.MemoryUsedMB, load.OpenFiles)
		}
	}
}

func TestProcessorWindow(t *testing.T) {
	f := newFakeProc(t)
	used := 0
	at := noon
	for i, c := range []struct {
		gap  time.Duration
		want string // the share, or part of the reason for none
	}{
		{0, "first sample"},
		{50 * time.Millisecond, "too close together"},
		{200 * time.Millisecond, "100 %"},
		{50 * time.Millisecond, "100 %"}, // the window continues, and the last share remains
		{time.Second, "100 %"},
		{0, "0s apart"},
		{time.Second, "100 %"},
		{-time.Minute, "-1m0s apart"},
		{time.Second, "100 %"},
		{time.Hour, "1h0m0s apart"}, // a suspend
		{5 * time.Second, "100 %"},
	} {
		used += 10
		f.stat(used, 0)
		at = at.Add(c.gap)
		load := f.Sample(at)
		if got := load.CPU.String() + " " + f.Problems()["cpu"]; !strings.Contains(got, c.want) {
			t.Errorf("sample %d, %v after the last: %q, want %q", i, c.gap, got, c.want)
		}
	}
	f.Sample(at.Add(time.Second)) // no tick has passed
	if got := f.Problems()["cpu"]; !strings.Contains(got, "stand still") {
		t.Errorf("no ticks: %q", got)
	}
}

// process writes one row of the process table.
func (f fakeProc) process(pid, start, cpuTicks, rssPages int, name string) {
	f.t.Helper()
	f.write(fmt.Sprintf("%d/stat", pid), fmt.Sprintf(
		"%d (%s) S 1 1 1 0 -1 0 0 0 0 0 %d 0 0 0 20 0 1 0 %d 1000 %d 18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
		pid, name, cpuTicks, start, rssPages))
}

func (f fakeProc) names(n int) string {
	var out []string
	for _, c := range f.Consumers(n) {
		out = append(out, fmt.Sprintf("%s %.1f", c.Name, c.CPU))
	}
	return strings.Join(out, ", ")
}

func TestConsumers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeProc(t)
		f.process(10, 0, 1_000_000_000, 10, "veteran")
		f.process(11, 0, 500, 3000, "hoarder")
		f.process(12, 0, 500, 20, "busy")
		f.write("13/stat", "garbage")
		f.write("14/stat", "")
		f.write("irq/stat", "not a process")

		f.binding = capacity.DimCPU
		if got := f.names(1); !strings.HasPrefix(got, "veteran") {
			t.Errorf("first scan, by the mean of their lives: %s", got)
		}
		f.process(12, 0, 900, 20, "bu\x1b[2Jsy")
		f.process(11, 0, 600, 3000, "hoarder")
		if got := f.names(1); !strings.HasPrefix(got, "veteran") {
			t.Errorf("scanned again within 2 s: %s", got)
		}
		time.Sleep(scanEvery)
		if got := f.names(3); got != "bu?[2Jsy 2.0, hoarder 0.5" {
			t.Errorf("4 s and 1 s of work in 2 s: %s", got)
		}
		f.binding = capacity.DimMemory
		if got := f.names(2); got != "hoarder 0.5, bu?[2Jsy 2.0" {
			t.Errorf("by memory: %s", got)
		}
		// Another process got pid 12: its counter does not continue the previous one.
		f.process(12, 1, 100, 20, "heir")
		f.binding = capacity.DimCPU
		time.Sleep(scanEvery)
		if got := f.names(1); !strings.HasPrefix(got, "heir") {
			t.Errorf("two processes taken for one: %q", got)
		}
	})
}

// The time of a sample is before the scan that found its consumers. A query for the usage with that time gets the same
// scan, not a new one a moment later in which no process has worked.
func TestUsageAfterConsumers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeProc(t)
		work := 100
		f.process(12, 3, work, 20, "busy")
		f.binding = capacity.DimCPU
		roots := []capacity.Identity{{PID: 12, Start: 3}}
		for range 4 {
			at := time.Now()
			time.Sleep(time.Millisecond)
			f.names(1)
			f.scan.boot, roots[0].Boot = "b", "b"
			f.Usage(roots, at)
			time.Sleep(scanEvery)
			work += 400
			f.process(12, 3, work, 20, "busy")
		}
		at := time.Now()
		time.Sleep(time.Millisecond)
		before := f.names(1)
		used := f.Usage(roots, at)
		if after := f.names(1); before != "busy 2.0" || after != before {
			t.Errorf("4 s of work in 2 s: %q, then %q", before, after)
		}
		if len(used) != 1 || used[0].Cores < 1.9 || used[0].Cores > 2.1 {
			t.Errorf("its tree: %+v", used)
		}
	})
}

// TestCandidates: the consumers of the scarce dimension come first; a gate shut for another dimension finds its own
// among the rest.
func TestCandidates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeProc(t)
		for pid, p := range map[int][2]int{10: {900, 1}, 11: {800, 2}, 12: {0, 300}, 13: {0, 200}, 14: {0, 100}} {
			f.process(pid, 0, p[0], p[1], fmt.Sprint("p", pid))
		}
		f.binding = capacity.DimMemory
		list := f.Candidates(2)
		names := func(list []capacity.Consumer) (s string) {
			for _, c := range list {
				s += c.Name + " "
			}
			return s
		}
		if got := names(list); got != "p12 p13 p10 p11 " {
			t.Errorf("candidates: %s", got)
		}
		for dimension, want := range map[string]string{capacity.DimCPU: "p10 p11 ", capacity.DimMemory: "p12 p13 p11 ", capacity.DimFiles: "", capacity.DimDisk: "", capacity.DimAgent: ""} {
			if got := names(capacity.Largest(list, dimension, 3)); got != want {
				t.Errorf("%s: %q, want %q", dimension, got, want)
			}
		}
	})
}

func TestConsumersByFiles(t *testing.T) {
	f := newFakeProc(t)
	f.process(10, 0, 900, 900, "few")
	f.process(11, 0, 1, 1, "many")
	f.process(12, 0, 1, 1, "hidden")
	for pid, n := range map[int]int{10: 2, 11: 7} {
		for fd := range n {
			f.write(fmt.Sprintf("%d/fd/%d", pid, fd), "")
		}
	}
	f.binding = capacity.DimFiles
	got := f.Consumers(5)
	if len(got) != 2 || got[0].Name != "many" || got[0].Files != 7 || got[1].Files != 2 {
		t.Errorf("%+v", got)
	}
}

func TestConsumersUnreadable(t *testing.T) {
	f := newFakeProc(t)
	f.proc = filepath.Join(f.proc, "gone")
	if got := f.Consumers(3); len(got) != 0 || f.Problems()["consumers"] == "" {
		t.Errorf("%v %v", got, f.Problems())
	}
	f.proc = filepath.Dir(f.proc)
	if f.Consumers(0); f.Problems()["consumers"] != "" {
		t.Errorf("it recovered: %v", f.Problems())
	}
	if got := f.Consumers(-1); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

func FuzzParseFileNr(f *testing.F) {
	for _, seed := range []string{
		"600\t0\t2400\n", "600 0 9223372036854775807", "", "1 2 3 4", "-1 0 1", "0 0 0", "1 2 3", "99999999999999999999 0 1", "a b c",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseFileNr([]byte(text))
		if err != nil {
			return
		}
		if v := got.used(); !(v >= 0 && v <= 1) || got.limit == 0 {
			t.Errorf("%q: %+v is %v", text, got, v)
		}
	})
}
