package lock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/livhana/steward/join/run"
)

// The test binary also plays other processes. LOCK_ROLE selects the role.
const (
	envRole  = "LOCK_ROLE"
	envDir   = "LOCK_DIR"
	envUntil = "LOCK_UNTIL" // the number of grants to reach
	envStep  = "LOCK_STEP"
)

func TestMain(m *testing.M) {
	role, dir := os.Getenv(envRole), os.Getenv(envDir)
	until, _ := strconv.Atoi(os.Getenv(envUntil))
	act := map[string]func() error{
		"api":      func() error { return acquireAgain(locksOf(dir, false), dir, until) },
		"mirror":   func() error { return acquireAgain(locksOf(dir, true), dir, until) },
		"run":      func() error { return runAgain(locksOf(dir, false), dir, until) },
		"critical": func() error { return critical(dir, os.Getenv("STEWARD_LOCK_FENCE"), true) },
		"step":     func() error { return dieAt(dir, os.Getenv(envStep)) },
		"hold":     func() error { return holdUntilEOF(dir) },
		"runhold":  func() error { return runHold(dir) },
	}[role]
	if act == nil {
		os.Exit(m.Run())
	}
	if err := act(); err != nil {
		fmt.Fprintln(os.Stderr, role+":", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// role starts this binary in another role.
func role(t testing.TB, name, dir string, env ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), envRole+"="+name, envDir+"="+dir, "GORACE=atexit_sleep_ms=0"), env...)
	out := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = out, out
	t.Cleanup(func() {
		if t.Failed() && out.Len() > 0 {
			t.Logf("%s: %s", name, out)
		}
	})
	return cmd
}

// TestTorture: processes repeatedly take one lock through the API, with a mirror, and for a command. They and their
// commands are killed at random. No two are ever in the critical section at once, and the fencing tokens strictly grow.
func TestTorture(t *testing.T) {
	holdings, mixture := 400, []string{"api", "run", "mirror", "api"}
	if os.Getenv("STEWARD_LONG") != "" {
		holdings, mixture = 100_000, []string{"api", "api", "api", "api", "api", "run", "run", "mirror"}
	}
	dir := t.TempDir()
	seed(t, dir)
	write(t, filepath.Join(dir, "counter"), fmt.Sprintf("%020d\n", 0))
	write(t, filepath.Join(dir, "owner"), "")
	write(t, filepath.Join(dir, "log"), "")
	type ended struct {
		i   int
		cmd *exec.Cmd
		err error
	}
	ends := make(chan ended)
	crew := make([]*exec.Cmd, len(mixture))
	start := func(i int) {
		cmd := role(t, mixture[i], dir, envUntil+"="+strconv.Itoa(holdings))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		crew[i] = cmd
		go func() { ends <- ended{i, cmd, cmd.Wait()} }()
	}
	for i := range mixture {
		start(i)
	}
	begin, kills, alive := time.Now(), 0, len(mixture)
	killer := time.NewTicker(60 * time.Millisecond)
	defer killer.Stop()
	for alive > 0 {
		select {
		case <-killer.C:
			if i := rand.IntN(len(crew)); crew[i] != nil && countOf(dir) < holdings {
				_ = crew[i].Process.Kill()
				kills++
			}
		case e := <-ends:
			crew[e.i] = nil
			alive--
			var exit *exec.ExitError
			if errors.As(e.err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
				start(e.i)
				alive++
			} else if e.err != nil {
				t.Errorf("%s: %v", mixture[e.i], e.err)
			}
		}
	}
	settleCritical(t, dir)
	fences := fencesOf(t, dir)
	for i := 1; i < len(fences); i++ {
		if fences[i] <= fences[i-1] {
			t.Fatalf("holding %d has the number %d, after %d", i, fences[i], fences[i-1])
		}
	}
	took := time.Since(begin)
	t.Logf("%d processes, %d holdings, %d processes killed, 0 overlaps, numbers strictly growing, over %d, %v (%v each)",
		len(mixture), len(fences), kills, fences[len(fences)-1]-fences[0], took.Round(time.Millisecond), (took / time.Duration(len(fences))).Round(time.Microsecond))
	if len(fences) < holdings || kills < 3 {
		t.Errorf("%d holdings, %d kills: too few to prove anything", len(fences), kills)
	}
}

// settleCritical waits for commands that outlived their steward.
func settleCritical(t *testing.T, dir string) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	p := locksOf(dir, false)
	defer p.Close()
	h, err := p.Acquire(ctx, Request{Name: "it", Agent: "test", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Release(ctx); err != nil {
		t.Error(err)
	}
	if text, _ := os.ReadFile(filepath.Join(dir, "broken")); len(text) > 0 {
		t.Errorf("in the section: %s", text)
	}
}

func acquireAgain(p *Locks, dir string, until int) error {
	for countOf(dir) < until {
		h, err := p.Acquire(context.Background(), Request{Name: "it", Agent: "api", TTL: time.Minute})
		if err != nil {
			return err
		}
		err = errors.Join(critical(dir, strconv.FormatUint(h.Fence(), 10), false), h.Release(context.Background()))
		if err != nil {
			return err
		}
	}
	p.Close()
	return nil
}

func runAgain(p *Locks, dir string, until int) error {
	for countOf(dir) < until {
		code, err := p.Run(context.Background(), Request{Name: "it", Agent: "run", TTL: time.Minute}, Program{Argv: []string{os.Args[0]},
			Env: append(os.Environ(), envRole+"=critical"), Stderr: os.Stderr, Tell: func(string) {}, Foreground: func() bool { return false }})
		if err != nil || code != 0 && code != run.CodeSignal+9 {
			return fmt.Errorf("code %d, %w", code, err)
		}
	}
	return nil
}

// critical is the critical section. The process in it logs its token, writes the token as owner, and increments a
// counter with a pause between reading and writing. If the owner or the counter has changed, another process was in the
// section too. Some processes die in it.
func critical(dir, fence string, mayDie bool) error {
	err := inside(dir, fence, mayDie)
	if err != nil {
		f, e := os.OpenFile(filepath.Join(dir, "broken"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if e == nil {
			_, e = f.WriteString(err.Error() + "\n")
			f.Close()
		}
		return errors.Join(err, e)
	}
	return nil
}

func inside(dir, fence string, mayDie bool) error {
	n, err := strconv.ParseUint(fence, 10, 64)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer log.Close()
	door, err := os.OpenFile(filepath.Join(dir, "owner"), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer door.Close()
	counter, err := os.OpenFile(filepath.Join(dir, "counter"), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer counter.Close()
	me := fmt.Appendf(nil, "%020d\n", n)
	if _, err := door.WriteAt(me, 0); err != nil {
		return err
	}
	if _, err := log.Write(me); err != nil {
		return err
	}
	before, after, owner := make([]byte, 21), make([]byte, 21), make([]byte, 21)
	if _, err := counter.ReadAt(before, 0); err != nil {
		return err
	}
	if mayDie && rand.IntN(5) == 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
	if _, err := counter.ReadAt(after, 0); err != nil {
		return err
	}
	if _, err := door.ReadAt(owner, 0); err != nil {
		return err
	}
	if !bytes.Equal(before, after) || !bytes.Equal(owner, me) {
		return fmt.Errorf("number %d was not alone: the count went from %s to %s, the door says %s", n, before, after, owner)
	}
	v, err := strconv.ParseUint(strings.TrimSpace(string(before)), 10, 64)
	if err != nil {
		return err
	}
	_, err = counter.WriteAt(fmt.Appendf(nil, "%020d\n", v+1), 0)
	return err
}

func countOf(dir string) int {
	st, err := os.Stat(filepath.Join(dir, "log"))
	if err != nil {
		return 0
	}
	return int(st.Size() / 21)
}

func fencesOf(t *testing.T, dir string) (list []uint64) {
	for _, line := range strings.Fields(readText(t, filepath.Join(dir, "log"))) {
		n, err := strconv.ParseUint(line, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, n)
	}
	return list
}
