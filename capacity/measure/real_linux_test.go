package measure

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/platform/proc"
)

// TestMain makes this program act as the processes that are measured.
func TestMain(m *testing.M) {
	if role, child := os.LookupEnv("MEASURE_ROLE"); child {
		play(role)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// play produces a measurable load, prints "ready", and continues until its standard input ends.
func play(role string) {
	var held []byte
	switch role {
	case "burn":
		go func() {
			for n := uint64(1); n != 0; n = n*3 | 1 { // odd, so never 0
			}
		}()
	case "hold":
		held = make([]byte, 64<<20)
		for i := 0; i < len(held); i += 4096 {
			held[i] = 1
		}
	case "leak":
		// Set before it is seen: limits are not read with every reading.
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1024, Max: 1024})
		go leak(200)
	case "starved":
		playStarved()
		return
	case "nobody":
		playNobody()
		return
	case "idle":
	default:
		return
	}
	fmt.Println("ready")
	_, _ = bufio.NewReader(os.Stdin).ReadByte()
	runtime.KeepAlive(held)
}

// leak opens n files a second up to its limit.
func leak(pace int) {
	for range time.Tick(time.Second / 20) {
		for range pace / 20 {
			_, _ = unix.Open("/dev/null", unix.O_RDONLY, 0)
		}
	}
}

// child starts this program in a role, and waits until it is ready.
func child(t testing.TB, role string) (capacity.Identity, *exec.Cmd) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "MEASURE_ROLE="+role)
	return start(t, c)
}

func start(t testing.TB, c *exec.Cmd) (capacity.Identity, *exec.Cmd) {
	t.Helper()
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = c.Process.Kill(); _ = c.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("%q %v", line, err)
	}
	id, err := proc.Inspect(c.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return capacity.Identity(id), c
}

// until polls every 100 ms, for at most half a minute: this machine may be busy.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

func one(t *testing.T, g *Gauge, id capacity.Identity) capacity.Usage {
	t.Helper()
	u := g.Usage([]capacity.Identity{id}, time.Now())
	if len(u) != 1 {
		t.Fatalf("%v: %v", u, g.Problems())
	}
	return u[0]
}

func TestUsageOfOneThatWorks(t *testing.T) {
	g := New()
	busy, _ := child(t, "burn")
	idle, _ := child(t, "idle")
	until(t, "it works and the other one does not", func() bool {
		all := g.Usage([]capacity.Identity{busy, idle}, time.Now())
		return len(all) == 2 && all[0].Cores > 0.1 && all[0].CPU > 200*time.Millisecond && all[1].Cores >= 0 && all[1].Cores < 0.1
	})
}

func TestUsageOfOneThatHoldsMemory(t *testing.T) {
	g := New()
	big, _ := child(t, "hold")
	small, _ := child(t, "idle")
	if a, b := one(t, g, big), g.Usage([]capacity.Identity{small}, time.Now())[0]; a.Memory < 64<<20 || b.Memory == 0 || b.Memory > 48<<20 {
		t.Errorf("%d and %d MiB", a.Memory>>20, b.Memory>>20)
	}
}

// A leak in an agent's process counts as full before it is full: within three seconds of becoming visible.
func TestDescriptorStorm(t *testing.T) {
	g := New()
	id, c := child(t, "leak")
	var at time.Time // when more than a quarter was used
	var load capacity.Load
	until(t, "the files are used up", func() bool {
		fds, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", c.Process.Pid))
		if at.IsZero() && len(fds) > 256 {
			at = time.Now()
		}
		u := one(t, g, id)
		load = g.Sample(time.Now())
		return u.FileLimit == 1024 && load.Files.Or(0) == 1
	})
	want := fmt.Sprintf("(pid %d) nears its limit of 1024 open files", c.Process.Pid)
	if !strings.HasSuffix(load.Because["files"], want) {
		t.Errorf("because %q", load.Because["files"])
	}
	t.Logf("%v after it became clear, %v left", time.Since(at).Round(time.Millisecond), load.Exhausted)
}

// A process that has lost its parent and left the session counts with the tree in which it was seen.
func TestUsageOfProcessesLeftBehind(t *testing.T) {
	g, dir := New(), t.TempDir()
	// A shell starts another shell, which starts a sleeper in its own session and ends on a signal.
	script := `sh -c 'setsid sleep 1000 & echo $! > "$0/pid"; echo ready; while [ ! -e "$0/go" ]; do sleep 0.05; done' "$0" & wait; touch "$0/left"; read end`
	id, _ := start(t, exec.Command("/bin/sh", "-c", script, dir))
	text, err := os.ReadFile(dir + "/pid")
	if err != nil {
		t.Fatal(err)
	}
	sleeper, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Kill(sleeper, unix.SIGKILL) })
	before := one(t, g, id)
	if err := os.WriteFile(dir+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	until(t, "the shell in between has ended", func() bool { _, err := os.Stat(dir + "/left"); return err == nil })
	after := g.Usage([]capacity.Identity{id}, time.Now().Add(scanEvery))[0]
	if before.Processes < 3 || after.Processes != 2 || before.Tree == after.Tree {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

// playStarved has no free descriptors, as under overload, and prints what the gauge reports then.
func playStarved() {
	me, err := proc.Inspect(os.Getpid())
	if err != nil {
		fmt.Println(err)
		return
	}
	roots := []capacity.Identity{capacity.Identity(me)}
	_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 200, Max: 200})
	g := New(os.TempDir())
	now := time.Now()
	g.Usage(roots, now)
	g.Sample(now)
	useUp()
	for i := range 40 { // meanwhile limits and control groups are read again, and new processes appear
		now = now.Add(2 * time.Second)
		u := g.Usage(roots, now)
		load := g.Sample(now)
		if len(u) != 1 || u[0].Memory == 0 || !u[0].At.Equal(now) || !load.Memory.Known() || !load.Disk.Known() || load.Files.Or(0) != 1 || u[0].Files == 0 {
			fmt.Printf("round %d: %+v %+v %v\n", i, u, load, g.Problems())
			return
		}
	}
	if g.inotify.pending != nil {
		<-g.inotify.pending // it may have held descriptors while none were free
	}
	useUp()
	fresh := New()
	u := fresh.Usage(roots, now)
	fresh.Sample(now)
	if load := fresh.Sample(now.Add(time.Second)); len(u) > 0 || len(load.Unknown()) != 3 || load.Files.Or(0) != 1 || fresh.Problems()["consumers"] == "" || len(fresh.Consumers(3)) > 0 {
		fmt.Printf("a gauge that had opened nothing before: %+v %v\n", u, fresh.Problems())
		return
	}
	runtime.KeepAlive(g) // otherwise its descriptors are freed
	fmt.Println("ready")
}

func useUp() {
	for {
		if _, err := unix.Open("/dev/null", unix.O_RDONLY, 0); errors.Is(err, unix.EMFILE) {
			return
		}
	}
}

func TestWithoutDescriptors(t *testing.T) {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "MEASURE_ROLE=starved")
	if out, err := c.CombinedOutput(); err != nil || string(out) != "ready\n" {
		t.Errorf("%s %v", out, err)
	}
}

// playNobody waits for pressure events without privileges; three busy threads per processor cause them.
func playNobody() {
	runtime.LockOSThread()
	for _, call := range [][4]uintptr{{unix.SYS_SETRESGID, 65534, 65534, 65534}, {unix.SYS_SETRESUID, 65534, 65534, 65534}} {
		_, _, _ = unix.RawSyscall(call[0], call[1], call[2], call[3])
	}
	files, err := setTriggers("/proc")
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EINVAL) || errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.EOPNOTSUPP) {
		fmt.Println("refused:", err)
		return
	}
	fmt.Println(len(files), err)
}

func TestTriggersUnprivileged(t *testing.T) {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "MEASURE_ROLE=nobody")
	out, err := c.CombinedOutput()
	if strings.HasPrefix(string(out), "refused:") {
		t.Skipf("%s", out) // before 6.5 the kernel allows triggers for root only
	}
	if want := fmt.Sprintf("%d <nil>\n", len(triggers)); err != nil || string(out) != want {
		t.Errorf("%s %v, want %s", out, err, want)
	}
}

// With more threads than processors, threads wait at once, and the kernel reports it.
func TestAlarm(t *testing.T) {
	if _, err := os.Stat("/proc/pressure/cpu"); err != nil {
		t.Skip("this kernel does not count who waits")
	}
	g := New()
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- g.Run(ctx) }()
	for range 3 * runtime.NumCPU() {
		child(t, "burn")
	}
	select {
	case <-g.Alarms():
	case <-time.After(30 * time.Second):
		t.Errorf("no alarm: %v", g.Problems())
	}
	stop()
	if err := <-over; err != nil {
		t.Error(err)
	}
}

func sleepers(b *testing.B, n int) []capacity.Identity {
	var all []capacity.Identity
	for range n {
		c := exec.Command("/bin/sleep", "1000")
		if err := c.Start(); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
		id, err := proc.Inspect(c.Process.Pid)
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, capacity.Identity(id))
	}
	return all
}

// processorTime is the processor time used by this program: on a busy machine it is a better measure than the clock.
func processorTime() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkScan measures the scan alone, and BenchmarkSampleCPU a sample.
func BenchmarkScan(b *testing.B) {
	sleepers(b, 200)
	g, now := New(), time.Now()
	begun := processorTime()
	for b.Loop() {
		now = now.Add(scanEvery)
		g.Usage(nil, now)
	}
	b.ReportMetric(float64((processorTime()-begun).Microseconds())/float64(b.N), "cpu-µs/op")
	b.ReportMetric(float64(len(g.scan.alive)), "processes")
}

func BenchmarkSampleCPU(b *testing.B) {
	g := New(b.TempDir())
	now := time.Now()
	begun := processorTime()
	for b.Loop() {
		now = now.Add(time.Second)
		g.Sample(now)
	}
	b.ReportMetric(float64((processorTime()-begun).Nanoseconds())/1000/float64(b.N), "cpu-µs/op")
}

// BenchmarkUsage scans two hundred live processes, each an agent of its own, in addition to all other processes here;
// "at work" means that each of them has done something since the previous scan.
func BenchmarkUsage(b *testing.B) {
	roots := sleepers(b, 200)
	for _, c := range []struct {
		name string
		work bool
	}{{"asleep", false}, {"at work", true}} {
		b.Run(c.name, func(b *testing.B) {
			g, now := New(), time.Now()
			g.Usage(roots, now)
			b.ReportAllocs()
			begun := processorTime()
			for b.Loop() {
				now = now.Add(scanEvery)
				if c.work {
					for _, id := range roots {
						g.scan.rows[id.PID].due, g.scan.rows[id.PID].filesRan = true, -1
					}
				}
				if got := g.Usage(roots, now); len(got) != len(roots) {
					b.Fatalf("%d of %d: %v", len(got), len(roots), g.Problems())
				}
			}
			b.ReportMetric(float64((processorTime()-begun).Microseconds())/float64(b.N), "cpu-µs/op")
			b.ReportMetric(float64(len(g.scan.alive)), "processes")
		})
	}
}

// A large consumer below an agent's process is attributed to the agent.
func TestConsumersOfAnAgent(t *testing.T) {
	g := New()
	big, _ := child(t, "hold")
	all := func() []capacity.Consumer { return g.Consumers(1000) }
	at := func(pid int) capacity.Consumer {
		for _, c := range all() {
			if c.PID == pid {
				return c
			}
		}
		return capacity.Consumer{}
	}
	if c := at(big.PID); c.PID != big.PID || c.Root != 0 {
		t.Errorf("while nobody follows it: %+v", c)
	}
	until(t, "it is told as that of its root", func() bool {
		g.Usage([]capacity.Identity{big}, time.Now())
		return at(big.PID).Root == big.PID && at(os.Getpid()).Root == 0
	})
}
