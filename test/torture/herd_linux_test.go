//go:build linux

package torture

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/test/rig"
)

// herdRules are the shipped ones, but for the disk, which is as full as the machine's owner has it.
const herdRules = `
[escalate]
channels = []
[capacity]
dimensions = ["cpu", "memory", "files", "agent"]
[worker]
`

// herdPatience is how long nothing at all may begin or end before a task is released by hand: a gate that waits for room
// waits for all others on this machine too, and they may never leave any.
const herdPatience = 15 * time.Second

// TestHerd: a burst of tasks that each keep one core busy comes to a worker with far more places than the machine has
// cores. Its real gauges see a task late; what was admitted and is not seen yet must count all the same. So there are never
// more than twice as many at work as there are cores, and every one comes to its end. How long that takes is bench's
// business: here others may be at work.
func TestHerd(t *testing.T) {
	if testing.Short() {
		t.Skip("short: runs the whole program on a full machine")
	}
	tasks, cores := rig.Long(10, 50), runtime.NumCPU()
	r := rig.New(t, herdRules)
	r.Boot("p")
	script := writeScript(r, "p", "burn.sh", burn)
	rounds := calibrate(t, r, script)
	r.Start("p")
	r.Spawn(workerCommand(r, "p", "--jobs", strconv.Itoa(max(tasks, 8*cores))))
	began := time.Now()
	for n := range tasks {
		d := executeOf(rig.TaskID(n+1), script, strconv.Itoa(n), rounds)
		d["throttle_capacity"] = 0.8 // the document's default
		r.Put(r.Task("p", rig.TaskID(n+1), ".request.json"), d)
	}
	h := herdLog{at: r.At("p", "burnt")}
	byHand := h.follow(r, tasks)
	if h.most > 2*cores {
		t.Errorf("%d tasks at once on %d cores", h.most, cores)
	}
	if byHand > 0 && h.ended < tasks {
		t.Skipf("skipped the rest: others fill this machine, and the gate rightly stays shut; %d of %d tasks came through, %d at once at the most", h.ended, tasks, h.most)
	}
	for n := range tasks {
		slowly(r, "the result of a task", func() bool { return readResult(r, "p", rig.TaskID(n+1)).Status != "" })
		endsAs(r, "p", rig.TaskID(n+1), "completed")
	}
	if h.begun != tasks || h.ended != tasks {
		t.Errorf("%d begins and %d ends of %d tasks", h.begun, h.ended, tasks)
	}
	t.Logf("%d tasks on %d cores: %d at once at the most, all done after %v, of which the work alone %v on idle cores; %d released by hand, for others had filled the machine",
		tasks, cores, h.most, time.Since(began).Round(time.Millisecond), (time.Duration(tasks) * herdWork / time.Duration(cores)).Round(time.Millisecond), byHand)
}

// follow waits until all tasks have ended, or patience has. When nothing moves for long, the operator releases one.
func (h *herdLog) follow(r *rig.Rig, tasks int) (byHand int) {
	r.Helper()
	last, moved, begun := 0, time.Now(), time.Now()
	for h.read(r); h.ended < tasks; h.read(r) {
		if now := h.begun + h.ended; now > last || h.begun > h.ended {
			last, moved = now, time.Now()
		}
		if time.Since(moved) > herdPatience {
			byHand, moved = byHand+letOneGo(r, "p"), time.Now()
		}
		if time.Since(begun) > 2*workPatience+time.Duration(tasks)*herdWork {
			if byHand == 0 {
				p, _ := r.Status()
				r.Fatalf("%d of %d tasks came to their end\n%s", h.ended, tasks, p.Raw)
			}
			return byHand
		}
		r.Pause(100 * time.Millisecond)
	}
	return byHand
}

// letOneGo is the operator's hand for one task that is held.
func letOneGo(r *rig.Rig, project string) int {
	held, _ := filepath.Glob(r.Task(project, "*", ".request.json.held"))
	for _, file := range held {
		id := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "task_"), ".request.json.held")
		if r.Command("steward", "release", project+":task/"+id).Run() == nil {
			return 1
		}
	}
	return 0
}

// herdWork is about how long one task keeps a core busy when nothing else does.
const herdWork = time.Second

// burn counts, which is the same work however full the machine is. A line is written by one call, and so never torn.
const burn = `echo "begin $1 $(date +%s%N)" >>burnt
i=0
while [ "$i" -lt "$2" ]; do i=$((i + 1)); done
echo "end $1 $(date +%s%N)" >>burnt`

// calibrate finds out how far to count for about herdWork of one core: by the processor time of a smaller count, for the
// machine may be busy.
func calibrate(t *testing.T, r *rig.Rig, script string) (rounds string) {
	t.Helper()
	const try = 200_000
	c := r.Command(script, "none", strconv.Itoa(try))
	c.Dir = r.At("p")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("count: %v\n%s", err, out)
	}
	if err := os.Remove(r.At("p", "burnt")); err != nil {
		t.Fatal(err)
	}
	took := c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	return fmt.Sprint(int(try * herdWork / max(took, time.Millisecond)))
}

// herdLog is what the tasks wrote of themselves.
type herdLog struct {
	at                 string
	begun, ended, most int
}

func (h *herdLog) read(t testing.TB) {
	t.Helper()
	type step struct{ at, by int }
	var steps []step
	h.begun, h.ended, h.most = 0, 0, 0
	data, _ := os.ReadFile(h.at)
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) != 3 {
			t.Fatalf("torn: %q", line)
		}
		at, _ := strconv.Atoi(f[2])
		if f[0] == "begin" {
			h.begun++
			steps = append(steps, step{at, 1})
			continue
		}
		h.ended++
		steps = append(steps, step{at, -1})
	}
	slices.SortFunc(steps, func(a, b step) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by)) })
	now := 0
	for _, s := range steps {
		now += s.by
		h.most = max(h.most, now)
	}
}
