//go:build linux

package torture

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/livhana/steward/test/rig"
)

// sabotage is what happens to the Nth of some system calls. The tracer counts the calls of each thread by itself.
type sabotage struct {
	calls, does string
	short       []int // the Ns of the short form; none: in long runs only
	from        bool  // from there on all of them do: N means nothing, and the long form is the short one
}

var sabotages = map[string]sabotage{
	"fsync fails":      {"fsync,fdatasync", "error=EIO:when=%d", []int{2}, false},
	"write fails":      {"write,pwrite64", "error=EIO:when=%d", []int{11}, false},
	"rename fails":     {"rename,renameat,renameat2", "error=EIO:when=%d", []int{3}, false},
	"open fails":       {"openat", "error=EIO:when=%d", []int{20}, false},
	"stat fails":       {"newfstatat,statx", "error=EIO:when=%d", nil, false},
	"list fails":       {"getdents64", "error=EIO:when=%d", nil, false},
	"unlink fails":     {"unlink,unlinkat", "error=EIO:when=%d", []int{1}, false},
	"killed at rename": {"rename,renameat,renameat2", "signal=KILL:when=%d", []int{2}, false},
	"killed at fsync":  {"fsync,fdatasync", "signal=KILL:when=%d", []int{7}, false},
	"killed at unlink": {"unlink,unlinkat", "signal=KILL:when=%d", nil, false},
	"killed at write":  {"write,pwrite64", "signal=KILL:when=%d", []int{25}, false},
	"no fsync at all":  {"fsync,fdatasync", "error=EIO:when=%d+", []int{1}, true},
	"no rename at all": {"rename,renameat,renameat2", "error=EIO:when=%d+", []int{1}, true},
	"no open any more": {"openat", "error=EIO:when=%d+", []int{60}, true},
}

// TestFaultCalls: the Nth call of a kind fails, or the daemon dies at it, while tasks are held, retried, buried and
// finished. Whatever happens, it all ends as in an undisturbed run; and without a death, by itself.
func TestFaultCalls(t *testing.T) {
	if testing.Short() {
		t.Skip("short: runs the whole program")
	}
	t.Parallel()
	strace := tracer(t)
	want := sync.OnceValue(func() []string {
		x := newOrdeal(t, faultRules(""))
		x.work(x.Start(ordealProject))
		x.laws()
		return x.shape()
	})
	reach := func(sabotage) int { return 0 }
	if os.Getenv("STEWARD_LONG") == "1" {
		reach = newOrdeal(t, faultRules("")).reach(strace)
	}
	for _, name := range slices.Sorted(maps.Keys(sabotages)) {
		s := sabotages[name]
		ns := s.short
		if most := reach(s); most > 0 && !s.from {
			ns = nil
			for n := range most {
				ns = append(ns, n+1)
			}
			t.Logf("%s: up to the %dth", name, most)
		}
		for _, n := range ns {
			t.Run(fmt.Sprintf("%s %d", name, n), func(t *testing.T) {
				t.Parallel()
				x := newOrdeal(t, faultRules(""))
				x.sabotaged(strace, s.calls+":"+fmt.Sprintf(s.does, n))
				if got := x.shape(); !slices.Equal(got, want()) {
					t.Errorf("it ended otherwise than undisturbed: %s", differences(got, want()))
				}
			})
		}
	}
}

// reach counts the calls of a run that nothing is done to, and gives how many of a kind one thread makes, with some more
// for the chance of it, and 200 at most: beyond that nothing would happen.
func (x *ordeal) reach(strace string) func(sabotage) int {
	x.Helper()
	var all []string
	for _, s := range sabotages {
		all = append(all, s.calls)
	}
	file := x.At("calls.txt")
	p := x.Spawn(x.Command(strace, "-D", "-f", "-o", file, "-e", "trace="+strings.Join(all, ","), "steward", "run", "--project", ordealProject))
	x.Until("the daemon answers", func() bool { return !p.Alive() || x.Answers() })
	x.work(p)
	x.laws()
	p.Kill()
	data, err := os.ReadFile(file)
	if err != nil {
		x.Fatal(err)
	}
	counts := map[string]map[string]int{} // by call and thread
	for line := range strings.Lines(string(data)) {
		thread, rest, _ := strings.Cut(line, " ")
		call, _, called := strings.Cut(strings.TrimSpace(rest), "(")
		if !called {
			continue
		}
		if counts[call] == nil {
			counts[call] = map[string]int{}
		}
		counts[call][thread]++
	}
	return func(s sabotage) (most int) {
		sums := map[string]int{}
		for call := range strings.SplitSeq(s.calls, ",") {
			for thread, n := range counts[call] {
				sums[thread] += n
				most = max(most, sums[thread])
			}
		}
		return min(most*5/4, 200)
	}
}

// work has everything happen once: with no room at the agent, then with room.
func (x *ordeal) work(p *rig.Child) {
	x.Helper()
	x.roominess(0.1)
	x.hire()
	x.order(len(tortures))
	first := rig.TaskID(0) // asks for room, and is held unless its agent was faster
	x.Until("it is dead, or a task is held", func() bool {
		return !p.Alive() || isHeld(x.torture.Rig, ordealProject, first) || rig.There(x.Task(ordealProject, first, ".result.json"))
	})
	x.roominess(0.95)
}

// sabotaged does the work under a tracer, and judges. A daemon that died of it, or that nothing works for any more, gets a
// clean one after it.
func (x *ordeal) sabotaged(strace, inject string) {
	x.Helper()
	p := x.traced(strace, inject)
	x.each = strings.Contains(inject, "error=") && !strings.HasSuffix(inject, "+")
	x.work(p)
	if strings.HasSuffix(inject, "+") {
		x.Pause(2 * time.Second)
		x.killed = true
		p.Kill()
	} else {
		x.Until("it is dead, or all is done", func() bool { return !p.Alive() || x.open() == 0 })
	}
	if strings.Contains(inject, "signal=KILL") && p.Alive() { // its call may be among the last ones, or never come
		x.Pause(time.Second)
		p.Kill()
	}
	x.tend = func() { // it may die at any moment from now on: some thread makes its Nth call only at rest
		if p.Alive() {
			return
		}
		x.tend = nil
		x.Logf("%s: the daemon has died", inject)
		x.killed = true
		p.Kill()
		x.Start(ordealProject)
	}
	x.tend()
	x.laws()
	if x.said(`(?m)^panic: `) { // the runtime may throw when its own calls fail; steward may not
		x.Error("the daemon has panicked")
	}
}

// differences lists what stands in one of two lists only.
func differences(got, want []string) string {
	var text strings.Builder
	for _, line := range got {
		if !slices.Contains(want, line) {
			text.WriteString("\n+ " + line)
		}
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			text.WriteString("\n- " + line)
		}
	}
	return text.String()
}
