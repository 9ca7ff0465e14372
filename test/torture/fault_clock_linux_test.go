//go:build linux

package torture

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/test/rig"
)

// The host's clock is not ours to set, and Go asks the kernel past every library that could be put in between. So the
// program is built once more with one line added to the standard library's time.Now, which adds a number of seconds that
// lies in a file mapped into memory.

const (
	nowAsItIs   = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	nowStepping = nowAsItIs + "\tsec += stepped()\n"
	steppedCode = `package time

import (
	"sync/atomic"
	"syscall"
	"unsafe"
)

var stepFile = openStepFile()

func openStepFile() *int64 {
	path, ok := syscall.Getenv("STEPPED_CLOCK")
	if !ok {
		return new(int64)
	}
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		panic(err)
	}
	data, err := syscall.Mmap(fd, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		panic(err)
	}
	syscall.Close(fd)
	return (*int64)(unsafe.Pointer(&data[0]))
}

func stepped() int64 { return atomic.LoadInt64(stepFile) }
`
)

// buildStepping builds steward with a clock that can be stepped.
func buildStepping(t *testing.T) (program string) {
	goRoot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Skipf("no go to build with: %v", err)
	}
	lib, dir := filepath.Join(strings.TrimSpace(string(goRoot)), "src", "time"), t.TempDir()
	text, err := os.ReadFile(filepath.Join(lib, "time.go"))
	if err != nil || strings.Count(string(text), nowAsItIs) != 1 {
		t.Skipf("the standard library's time.Now has moved on (%v)", err)
	}
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	overlay, _ := json.Marshal(rig.Doc{"Replace": map[string]string{
		filepath.Join(lib, "time.go"):    write("time.go", strings.Replace(string(text), nowAsItIs, nowStepping, 1)),
		filepath.Join(lib, "stepped.go"): write("stepped.go", steppedCode),
	}})
	program = filepath.Join(dir, "steward")
	build := exec.Command("go", "build", "-overlay", write("overlay.json", string(overlay)), "-o", program, rig.Package)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return program
}

// stepClock is the clock of the daemon and of its agent.
type stepClock struct{ file *os.File }

func (x *ordeal) stepClock() stepClock {
	x.Helper()
	f, err := os.Create(x.At("clock"))
	if err != nil {
		x.Fatal(err)
	}
	x.Cleanup(func() { f.Close() })
	c := stepClock{f}
	c.set(0)
	return c
}

func (c stepClock) set(by time.Duration) {
	_, _ = c.file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(by/time.Second)), 0)
}

func (c stepClock) now() time.Time {
	var data [8]byte
	_, _ = c.file.ReadAt(data[:], 0)
	return time.Now().Round(0).Add(time.Duration(binary.NativeEndian.Uint64(data[:])) * time.Second)
}

// steppedAgent is codex-cursor by that clock: what it writes, and the times of its files, are of the stepped day.
type steppedAgent struct {
	*ordeal
	clock stepClock
	runs  map[string]int
}

func (x *ordeal) hireStepped(clock stepClock) {
	a := &steppedAgent{ordeal: x, clock: clock, runs: map[string]int{}}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			a.turn()
			select {
			case <-end:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	x.Cleanup(func() { close(end); <-ended })
}

func (a *steppedAgent) turn() {
	var free float64
	text, _ := os.ReadFile(a.At(ordealProject, "free"))
	_, _ = fmt.Sscan(string(text), &free)
	a.lay(a.At(ordealProject, "tmp/agent_status/codex_status/heartbeat.json"), rig.Doc{"agent_name": "codex-cursor", "status": "idle",
		"last_heartbeat": a.clock.now().UTC().Format(time.RFC3339Nano), "current_capacity": free, "active_tasks": []string{},
		"health": rig.Doc{"cpu_ok": true, "memory_ok": true, "disk_ok": true, "last_error": nil}})
	requests, _ := filepath.Glob(a.Task(ordealProject, "*", ".request.json"))
	for _, file := range requests {
		id := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "task_"), ".request.json")
		if rig.There(a.Task(ordealProject, id, ".result.json")) || !rig.There(file) {
			continue
		}
		a.runs[id]++
		rig.AppendLine(a.At(ordealProject, "runs.log"), fmt.Sprintf("%s run %d %s", id, a.runs[id], a.clock.now().UTC().Format(time.RFC3339Nano)))
		var request struct {
			Payload struct{ Parameters struct{ Outcomes []string } }
		}
		data, _ := os.ReadFile(file)
		_ = json.Unmarshal(data, &request)
		outcome := "completed"
		if list := request.Payload.Parameters.Outcomes; len(list) > 0 {
			outcome = list[min(a.runs[id], len(list))-1]
		}
		d := rig.ResultOf(id, outcome)
		if _, timed := d["completed_at"]; timed {
			d["completed_at"] = a.clock.now().UTC().Format(time.RFC3339)
		}
		a.lay(a.Task(ordealProject, id, ".result.json"), d)
	}
}

// lay writes a document with the clock's own time.
func (a *steppedAgent) lay(file string, d rig.Doc) {
	data, _ := json.MarshalIndent(d, "", "  ")
	now := a.clock.now()
	_ = os.WriteFile(file+".tmp", data, 0o644)
	_ = os.Chtimes(file+".tmp", now, now)
	_ = os.Rename(file+".tmp", file)
}

// TestFaultClock: the clock is set while agents beat, a task is held, and retries wait for their time. Nobody who lives is
// called dead, each death is noticed, the hold is released, and the retries come: not before their time by the clock that
// is in force, and not much later than their delay.
func TestFaultClock(t *testing.T) {
	if testing.Short() {
		t.Skip("short: runs the whole program")
	}
	t.Parallel()
	program := buildStepping(t)
	for name, step := range map[string]time.Duration{
		"2 h forward": 2 * time.Hour, "2 h back": -2 * time.Hour, "40 days forward": 960 * time.Hour, "40 days back": -960 * time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newOrdeal(t, faultRules("[heartbeat]\nlate = \"4s\"\ndead = \"8s\"\nresume_grace = \"2s\"\n"))
			clock := x.stepClock()
			x.Env = append(x.Env, "STEPPED_CLOCK="+clock.file.Name())
			x.hireStepped(clock)
			doomed := x.Spawn(exec.Command("sleep", "600"))
			x.enlist("planning", doomed)
			x.deaths = append(x.deaths, "planning")
			x.roominess(0.1)
			p := x.Spawn(x.Command(program, "run", "--project", ordealProject))
			x.Until("the daemon answers", func() bool { return !p.Alive() || x.Answers() })
			x.order(2) // what fell due meanwhile comes one by one, five seconds apart
			late := x.later()
			x.Until("a retry waits", func() bool { return x.filed(late) })
			clock.set(step)
			stepped := time.Now()
			x.Pause(time.Second)
			doomed.Kill()
			x.Shows(`"planning"[^}]*"state": *"dead"`, `"codex-cursor"[^}]*"state": *"alive"`)
			x.roominess(0.95)
			slowly(x.torture.Rig, "all is through", func() bool { return x.open() == 0 })
			t.Logf("all was through %v after the step", time.Since(stepped))
			x.forgive("untaken")
			x.laws()
			x.notEarly(late, stepped, step)
		})
	}
}

// forgive takes away the incidents of a kind. That no agent took a task for long is true by the file system's clock, which
// cannot be stepped here: an agent that has just taken it is hours late by that one.
func (x *ordeal) forgive(kind string) {
	for _, i := range x.incidents() {
		if i.Kind == kind {
			_ = os.Remove(filepath.Join(x.State, "incidents", i.Key+".json"))
		}
	}
}

// notEarly: the second attempt came when its time had come by the clock in force; after a step back, after the
// grace of a resume, because the daemon cannot tell any more how much of the delay was over.
func (x *ordeal) notEarly(id string, stepped time.Time, step time.Duration) {
	x.Helper()
	var plan struct {
		Due time.Time `json:"due"`
	}
	data, err := os.ReadFile(x.Attempts(ordealProject, id+".1.sched.json"))
	if err == nil {
		err = json.Unmarshal(data, &plan)
	}
	if err != nil || plan.Due.IsZero() {
		x.Fatalf("when was it due? %v: %s", err, data)
	}
	fields := linesOf(x.torture.Rig, ordealProject, "runs.log") // of four words each: id, "run", which, when
	for i := 0; i+3 < len(fields); i += 4 {
		at, err := time.Parse(time.RFC3339Nano, fields[i+3])
		if fields[i] != id || fields[i+2] != "2" {
			continue
		}
		if step > 0 && at.Before(plan.Due) || step < 0 && at.Before(stepped.Add(step+1900*time.Millisecond)) {
			x.Errorf("issued again at %v, due at %v, the clock was set by %v (%v)", at, plan.Due, step, err)
		}
	}
}
