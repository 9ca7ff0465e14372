package measure

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/livhana/steward/capacity"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// On the real machine every reading is known and plausible, the processor's from the second sample on.
func TestSampleOfThisMachine(t *testing.T) {
	g := New(t.TempDir(), t.TempDir())
	first := g.Sample(time.Now())
	if first.CPU.Known() || g.Problems()[capacity.DimCPU] == "" {
		t.Errorf("first sample: cpu %v, problems %v", first.CPU, g.Problems())
	}
	tick := time.NewTicker(shortest)
	defer tick.Stop()
	load := first
	for deadline := time.Now().Add(30 * time.Second); !load.CPU.Known(); load = g.Sample(time.Now()) {
		if time.Now().After(deadline) {
			t.Fatalf("cpu still unknown: %v", g.Problems())
		}
		<-tick.C
	}
	for _, d := range capacity.Dimensions() {
		if !load.Share(d).Known() {
			t.Errorf("%s unknown: %v", d, g.Problems())
		}
	}
	if load.MemoryUsedMB == nil || *load.MemoryUsedMB <= 0 {
		t.Errorf("memory used: %v", load.MemoryUsedMB)
	}
	if v, _ := load.Memory.Value(); v <= 0 || v >= 1 {
		t.Errorf("memory %v", v)
	}
	if v, _ := load.Disk.Value(); v <= 0 || v > 1 {
		t.Errorf("disk %v", v)
	}
	if len(g.Problems()) > 0 {
		t.Errorf("problems: %v", g.Problems())
	}
	if consumers := g.Consumers(3); len(consumers) == 0 || consumers[0].Name == "" {
		t.Errorf("consumers: %v %v", consumers, g.Problems())
	}
}

func TestDisk(t *testing.T) {
	here := t.TempDir()
	project := filepath.Join(here, "project")
	if err := os.Mkdir(project, 0o700); err != nil {
		t.Fatal(err)
	}
	g := New()
	if load := g.Sample(noon); load.Disk.Known() || !strings.Contains(g.Problems()["disk"], "no project folders") {
		t.Errorf("without projects: %v %v", load.Disk, g.Problems())
	}
	g.SetPaths(filepath.Join(here, "missing"), project)
	if load := g.Sample(noon); !load.Disk.Known() {
		t.Errorf("one of two folders is there: %v", g.Problems())
	} else if d, known := load.Disks[project]; !known || len(load.Disks) != 1 || d.Used != load.Disk.Or(-1) {
		t.Errorf("the disks by folder: %+v", load.Disks)
	}
	if err := os.Remove(project); err != nil {
		t.Fatal(err)
	}
	if load := g.Sample(noon.Add(4 * time.Second)); !load.Disk.Known() {
		t.Errorf("asked again within 5 s: %v", g.Problems())
	}
	if load := g.Sample(noon.Add(5 * time.Second)); load.Disk.Known() || !strings.Contains(g.Problems()["disk"], project) {
		t.Errorf("no folder is there: %v %v", load.Disk, g.Problems())
	}
}

// A dead network mount must not block the samples, nor slow down those after the sample that queried it.
func TestDiskThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mount := t.TempDir()
		g := New(mount)
		hangs := &diskQuestion{done: make(chan struct{}), disk: capacity.Disk{Used: 0.25}}
		g.disk.asked = map[string]*diskQuestion{mount: hangs}
		begun := time.Now()
		for range 3 {
			if load := g.Sample(noon); load.Disk.Known() || !load.Memory.Known() || g.Problems()["disk"] != errNoAnswer.Error() {
				t.Fatalf("disk %v, memory %v, %v", load.Disk, load.Memory, g.Problems())
			}
		}
		if waited := time.Since(begun); waited != 0 {
			t.Errorf("waited for %v", waited)
		}
		close(hangs.done)
		if v, known := g.Sample(noon.Add(time.Second)).Disk.Value(); !known || v != 0.25 {
			t.Errorf("it answered at last: %v %v", v, g.Problems())
		}
	})
}

// However often the settings are reloaded, a mount that hangs holds one goroutine, and it delays no sample once it is
// removed from the settings.
func TestReloadsWithADiskThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mount, project := t.TempDir(), t.TempDir()
		g := New(mount)
		hangs := &diskQuestion{done: make(chan struct{}), disk: capacity.Disk{Used: 0.25}}
		g.disk.asked = map[string]*diskQuestion{mount: hangs}
		for range 5 {
			g.SetPaths(project, mount)
			if load := g.Sample(noon); load.Disk.Known() || g.disk.asked[mount] != hangs {
				t.Fatalf("with the mount: %v; asked again: %v", load.Disk, g.disk.asked[mount] != hangs)
			}
		}
		g.SetPaths(project)
		if load := g.Sample(noon); !load.Disk.Known() {
			t.Errorf("without the mount: %v", g.Problems())
		}
		g.SetPaths(mount)
		if load := g.Sample(noon); load.Disk.Known() || g.disk.asked[mount] != hangs {
			t.Errorf("it is back, and still hangs: %v", load.Disk)
		}
		close(hangs.done)
		if v, known := g.Sample(noon).Disk.Value(); !known || v != 0.25 {
			t.Errorf("it answered at last: %v %v", v, g.Problems())
		}
	})
}

func TestUsedMemory(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		name string
		m    memory
		want float64
	}{
		{"no swap", memory{total: 16 * gib, available: 4 * gib}, 0.75},
		{"empty swap makes nothing look emptier", memory{total: 16 * gib, available: 4 * gib, swapTotal: 100 * gib}, 0.75},
		{"a little swap neither", memory{total: 16 * gib, available: 4 * gib, swapTotal: 100 * gib, swapUsed: gib}, 0.75},
		{"full small swap is no alarm", memory{total: 16 * gib, available: 8 * gib, swapTotal: 2 * gib, swapUsed: 2 * gib}, 10.0 / 18},
		{"most of it moved out", memory{total: 16 * gib, available: 4 * gib, swapTotal: 32 * gib, swapUsed: 30 * gib}, 42.0 / 48},
		{"impossible swap is left out", memory{total: 16 * gib, available: 8 * gib, swapTotal: gib, swapUsed: 2 * gib}, 0.5},
	} {
		if got := c.m.used(); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestUsedBetween(t *testing.T) {
	for _, c := range []struct {
		name        string
		idle, total float64
		want        float64
		ok          bool
	}{
		{"half", 1, 2, 0.5, true},
		{"idle", 2, 2, 0, true},
		{"busy", 0, 2, 1, true},
		{"iowait a tick backwards", -0.01, 2, 1, true},
		{"idle a tick too far", 2.01, 2, 0, true},
		{"idle backwards", -1, 2, 0, false},
		{"more idle than time", 3, 2, 0, false},
		{"no time", 0, 0, 0, false},
		{"time backwards", 0, -1, 0, false},
	} {
		got, err := usedBetween(ticks{idle: 100, total: 1000}, ticks{idle: 100 + c.idle, total: 1000 + c.total})
		if (err == nil) != c.ok || got < c.want-1e-6 || got > c.want+1e-6 {
			t.Errorf("%s: %v %v", c.name, got, err)
		}
	}
}

func TestUsedFiles(t *testing.T) {
	for _, c := range []struct {
		f    files
		want float64
	}{{files{50, 100}, 0.5}, {files{600, 1<<63 - 1}, 600.0 / (1<<63 - 1)}, {files{120, 100}, 1}} {
		if got := c.f.used(); got != c.want {
			t.Errorf("%+v: %v", c.f, got)
		}
	}
}

func BenchmarkSample(b *testing.B) {
	g := New(b.TempDir())
	b.ReportAllocs()
	for b.Loop() {
		g.Sample(noon) // at the same moment: the disk is queried once
	}
}

func BenchmarkSampleWithDisk(b *testing.B) {
	g := New(b.TempDir())
	now := noon
	for b.Loop() {
		now = now.Add(diskEvery)
		g.Sample(now)
	}
}

func BenchmarkConsumers(b *testing.B) {
	g := New()
	b.ReportAllocs()
	for b.Loop() {
		g.scan.at = time.Time{}
		g.Consumers(3)
	}
	b.ReportMetric(float64(len(g.scan.alive)), "processes")
}
