package measure

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// on returns the mask of the given processors.
func on(cpus ...int) func() *unix.CPUSet {
	var set unix.CPUSet
	for _, n := range cpus {
		set.Set(n)
	}
	return func() *unix.CPUSet { return &set }
}

// processors writes /proc/stat with n processors, of which the given ones were busy for the given ticks and the others
// idle. Every processor has counted 100 s more.
func (f fakeProc) processors(n int, busy map[int]int) {
	f.t.Helper()
	const passed = 10_000
	var lines strings.Builder
	sum := 0
	for i := range n {
		sum += busy[i]
		fmt.Fprintf(&lines, "cpu%d %d 0 0 %d 0 0 0 0 0 0\n", i, busy[i], passed-busy[i])
	}
	f.write("stat", fmt.Sprintf("cpu  %d 0 0 %d 0 0 0 0 0 0\n%sintr 5 0 0\nctxt 7\n", sum, n*passed-sum, lines.String()))
}

// Only the processors on which steward may run count. Two full processors of 64 are a full machine to a process bound
// to those two, and an idle one to a process bound to two others.
func TestOnlyAllowedProcessorsCount(t *testing.T) {
	const passed = 10_000
	two := map[int]int{4: passed, 5: passed}
	for _, c := range []struct {
		name    string
		allowed func() *unix.CPUSet
		listed  int
		busy    map[int]int
		used    float64
		cores   float64
	}{
		{"bound to the full ones", on(4, 5), 64, two, 1, 2},
		{"bound to idle ones", on(6, 7), 64, two, 0, 2},
		{"bound to a full and an idle one", on(5, 6), 64, two, 0.5, 2},
		{"more lines than one read holds", on(799), 800, map[int]int{799: passed}, 1, 1},
		{"a container's own list, numbered anew", on(4, 5), 2, map[int]int{0: passed}, 0.5, 2},
		{"a container's own list, where one number is in the mask", on(1, 2), 2, map[int]int{0: passed}, 0.5, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFakeProc(t)
			f.allowed = c.allowed
			f.write("stat", "cpu  0 0 0 0\n"+zeroLines(c.listed)+"intr 5\n")
			f.Sample(noon)
			f.processors(c.listed, c.busy)
			load := f.Sample(noon.Add(time.Second))
			if used, known := load.CPU.Value(); !known || used != c.used {
				t.Errorf("cpu %v, want %v: %v", load.CPU, c.used, f.Problems())
			}
			if load.Cores != c.cores {
				t.Errorf("%v cores, want %v", load.Cores, c.cores)
			}
		})
	}
}

func zeroLines(n int) string {
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, "cpu%d 0 0 0 0 0 0 0 0 0 0\n", i)
	}
	return lines.String()
}

// A mask that changes while steward runs (taskset -p, a cpuset) invalidates the previous counters.
func TestChangedMaskStartsAnew(t *testing.T) {
	f := newFakeProc(t)
	f.allowed = on(0)
	f.processors(4, nil)
	f.Sample(noon)
	f.allowed = on(0, 1)
	f.processors(4, map[int]int{0: 50})
	if load := f.Sample(noon.Add(time.Second)); load.CPU.Known() {
		t.Errorf("cpu %v of two different sets of processors", load.CPU)
	}
}

// The ZFS cache gives memory back, down to its minimum, although MemAvailable does not count it.
func TestARCIsAvailable(t *testing.T) {
	const arc = "9 1 0x01 123 33456 6000 7000\nname type data\nhits 4 1\nc_min 4 %d\nsize 4 %d\n"
	for _, c := range []struct {
		name      string
		least     uint64
		size      uint64
		usedShare float64
	}{
		{"most of what is used is the cache", 1 << 30, 9 << 30, 4.0 / 16},
		{"the cache is at its minimum", 9 << 30, 9 << 30, 12.0 / 16},
		{"the cache of another machine", 1 << 30, 30 << 30, 12.0 / 16},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFakeProc(t) // 16 GiB, of which 4 are available
			f.write("spl/kstat/zfs/arcstats", fmt.Sprintf(arc, c.least, c.size))
			if v, known := f.Sample(noon).Memory.Value(); !known || v != c.usedShare {
				t.Errorf("memory is %v full, want %v: %v", v, c.usedShare, f.Problems())
			}
		})
	}
}
