package measure

import (
	"bytes"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// clockTicks is the number of ticks per second on every Linux that Go runs on.
const clockTicks = 100

// largestStat is the maximum size of the buffer for /proc/stat: enough for about 8,000 processors.
const largestStat = 1 << 20

// allowedCPUs returns the affinity mask of this process, which reflects taskset, the cpuset of a control group and a
// container's pinning. nil: the kernel does not return one, for example on machines with more processors than the mask
// has bits.
func allowedCPUs() *unix.CPUSet {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil
	}
	return &set
}

// cpuReader is the state that a Gauge needs to read the processor counters.
type cpuReader struct {
	allowed func() *unix.CPUSet // nil: allowedCPUs; only tests set it
	stat    []byte              // buffer for /proc/stat, whose size grows with the processors
}

// readTicks reads the counters of the processors on which steward may run.
func (g *Gauge) readTicks() (ticks, error) {
	allowed := allowedCPUs
	if g.allowed != nil {
		allowed = g.allowed
	}
	return g.ticksOf(allowed())
}

func (g *Gauge) ticksOf(allowed *unix.CPUSet) (ticks, error) {
	g.cpu.processors(allowed)
	if len(g.stat) == 0 {
		g.stat = make([]byte, roomy)
	}
	for {
		text, err := g.kept("stat").read(g.stat)
		if err != nil {
			return ticks{}, fmt.Errorf("read processor counters: %w", err)
		}
		if len(text) == len(g.stat) && len(text) < largestStat && !bytes.Contains(text, []byte("\nintr ")) {
			g.stat = make([]byte, 2*len(g.stat)) // the processor lines do not all fit
			continue
		}
		return parseTicks(text, allowed)
	}
}

// processors resets the gauge when the set of allowed processors has changed: the counters of two different sets cannot
// be compared.
func (g *cpuGauge) processors(allowed *unix.CPUSet) {
	var set unix.CPUSet
	if allowed != nil {
		set = *allowed
	}
	if set != g.set {
		*g = cpuGauge{allowedSet: allowedSet{set}}
	}
}

// allowedSet is the set of processors included in the last counters.
type allowedSet struct{ set unix.CPUSet }

// cores is the number of processors on which steward may run; 0: unknown.
func (g *cpuGauge) cores() int { return g.set.Count() }

// parseTicks sums the lines of the allowed processors in /proc/stat. If every listed processor is allowed it uses the
// first line, the total. Inside a container lxcfs lists only the container's processors and renumbers them; then there
// are as many lines as the mask has bits, or none of them is in the mask.
func parseTicks(text []byte, allowed *unix.CPUSet) (ticks, error) {
	line, text, _ := bytes.Cut(text, []byte{'\n'})
	rest, ok := bytes.CutPrefix(line, []byte("cpu "))
	if !ok {
		return ticks{}, errors.New("read processor counters: nothing usable is there")
	}
	all, err := parseTickLine(rest, line)
	if err != nil || allowed == nil {
		return all, err
	}
	var sum ticks
	listed, counted := 0, 0
	for {
		line, text, ok = bytes.Cut(text, []byte{'\n'})
		rest, isCPU := bytes.CutPrefix(line, []byte("cpu"))
		if !isCPU || !ok {
			break
		}
		n, rest, ok := number(rest)
		if !ok {
			return ticks{}, fmt.Errorf("read processor counters: %q makes no sense", line)
		}
		listed++
		if n >= uint64(len(allowed)*64) || !allowed.IsSet(int(n)) {
			continue
		}
		t, err := parseTickLine(rest, line)
		if err != nil {
			return ticks{}, err
		}
		counted++
		sum.idle, sum.total = sum.idle+t.idle, sum.total+t.total
	}
	if counted == 0 || listed <= allowed.Count() {
		return all, nil
	}
	return sum, nil
}

// parseTickLine reads the numbers of one line: user, nice, system, idle, iowait, irq, softirq, steal. The guest times
// that follow are already included in user and nice.
func parseTickLine(rest, line []byte) (ticks, error) {
	var t ticks
	for i := range 8 {
		n, after, ok := number(rest)
		if !ok && i >= 4 && len(bytes.TrimSpace(rest)) == 0 {
			break // the oldest kernels have only four
		}
		if !ok {
			return ticks{}, fmt.Errorf("read processor counters: number %d of %q makes no sense", i+1, line)
		}
		seconds := float64(n) / clockTicks
		t.total += seconds
		if i == 3 || i == 4 {
			t.idle += seconds
		}
		rest = after
	}
	return t, nil
}
