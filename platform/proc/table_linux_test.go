package proc

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func rowOf(t *testing.T, pid int) (Process, bool) {
	t.Helper()
	all, err := Table()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(p Process) bool { return p.PID == pid })
	if i < 0 {
		return Process{}, false
	}
	return all[i], true
}

func TestTableShowsAChildAsInspectDoes(t *testing.T) {
	dir := t.TempDir()
	c := start(t, "plain", func(cmd *exec.Cmd) {
		cmd.Path, _ = filepath.Abs(cmd.Path)
		cmd.Dir = dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	})
	want := inspectChild(t, c)
	got, ok := rowOf(t, c.pid())
	if !ok || got.Identity != want {
		t.Fatalf("table shows %+v (%v), Inspect %+v", got, ok, want)
	}
	if got.Parent != os.Getpid() || got.Group != c.pid() || got.Session != c.pid() || got.Zombie || got.Stopped {
		t.Errorf("a session leader and child of ours shows as %+v", got)
	}
	if name := filepath.Base(os.Args[0]); !strings.HasPrefix(name, got.Name) || got.Name == "" {
		t.Errorf("name %q, want the beginning of %q", got.Name, name)
	}
	if at, err := Cwd(c.pid()); err != nil || at != dir {
		t.Errorf("cwd %q, %v; want %q", at, err, dir)
	}
	if words, err := Environ(c.pid()); err != nil || !slices.Contains(words, "PATH="+os.Getenv("PATH")) || got.Terminal {
		t.Errorf("environment %q, %v, terminal %v", words, err, got.Terminal)
	}
	if argv, err := Command(c.pid()); err != nil || !slices.Equal(argv, os.Args[:1]) {
		t.Errorf("command %q, %v; want %q", argv, err, os.Args[:1])
	}
}

func TestTableMarksZombiesAndStopped(t *testing.T) {
	c := start(t, "plain")
	id := inspectChild(t, c)
	c.cmd.Process.Signal(syscall.SIGSTOP)
	eventually(t, id, Stopped)
	if p, ok := rowOf(t, c.pid()); !ok || !p.Stopped || p.Zombie {
		t.Errorf("a stopped process shows as %+v, %v", p, ok)
	}
	c.kill()
	eventually(t, id, Gone)
	if p, ok := rowOf(t, c.pid()); !ok || !p.Zombie || p.Identity != id {
		t.Errorf("a zombie shows as %+v, %v", p, ok)
	}
	if dir, err := Cwd(c.pid()); !errors.Is(err, ErrGone) {
		t.Errorf("cwd of a zombie: %q, %v; want ErrGone", dir, err)
	}
	if argv, err := Command(c.pid()); err != nil || argv != nil {
		t.Errorf("command of a zombie: %q, %v; want none", argv, err)
	}
	c.reap()
	if p, ok := rowOf(t, c.pid()); ok {
		t.Errorf("a reaped process still shows: %+v", p)
	}
	for name, err := range map[string]error{"cwd": second(Cwd(c.pid())), "command": second(Command(c.pid())), "open files": second(Opened(c.pid()))} {
		if !errors.Is(err, ErrGone) {
			t.Errorf("%s of nobody: %v, want ErrGone", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestTableKeepsAProcessWithoutItsMainThread(t *testing.T) {
	c := start(t, "threads")
	watchZombieLeader(t, c.pid())
	if p, ok := rowOf(t, c.pid()); !ok || p.Zombie {
		t.Errorf("main thread ended, others work: %+v, %v; want no zombie", p, ok)
	}
}

func TestParseRowWithHostileName(t *testing.T) {
	line := "7 (a) Z 1 (b\n) S 1 2 3 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 0"
	p, err := parseRow([]byte(line))
	if err != nil || p.Name != "a) Z 1 (b\n" || p.Parent != 1 || p.Group != 2 || p.Session != 3 || p.Start != 99 || p.Zombie {
		t.Errorf("got %+v, %v", p, err)
	}
	for _, bad := range []string{"", "7", "7 (a", ")(", "7 (a) S x 2 3 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 0"} {
		if p, err := parseRow([]byte(bad)); err == nil {
			t.Errorf("%q is taken as %+v", bad, p)
		}
	}
}

func TestOpenedListsOnlyFilesOpenForWriting(t *testing.T) {
	dir := t.TempDir()
	open := func(name string, flag int) *os.File {
		f, err := os.OpenFile(filepath.Join(dir, name), flag|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	removed := open("removed", os.O_RDWR)
	os.Remove(removed.Name())
	folder, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	c := start(t, "plain", func(cmd *exec.Cmd) {
		cmd.ExtraFiles = []*os.File{open("written", os.O_WRONLY), open("both", os.O_RDWR|os.O_APPEND), open("read", os.O_RDONLY),
			removed, folder, open("both", os.O_WRONLY)}
	})
	files, err := Opened(c.pid())
	var got []string
	for _, f := range files {
		if strings.HasPrefix(f.Path, dir) { // go test passes its own output file
			got = append(got, f.Path)
		}
	}
	slices.Sort(got)
	if want := []string{filepath.Join(dir, "both"), filepath.Join(dir, "both"), filepath.Join(dir, "written")}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

func TestSignalReachesOnlyTheProcessMeant(t *testing.T) {
	c := start(t, "plain")
	id := inspectChild(t, c)
	other := id
	other.Start++
	if err := Signal(other, "SIGKILL"); err != nil {
		t.Errorf("a process that is gone: %v, want nil", err)
	}
	for name, refused := range map[string]error{
		"no proof":   Signal(Identity{PID: id.PID}, "SIGKILL"),
		"ourselves":  Signal(inspectSelf(t), "SIGTERM"),
		"process 1":  Signal(Identity{PID: 1, Start: 1, Boot: id.Boot}, "SIGTERM"),
		"the signal": Signal(id, "SIGHUP"),
	} {
		if !errors.Is(refused, ErrRefused) {
			t.Errorf("%s: %v, want ErrRefused", name, refused)
		}
	}
	if got := Check(id); got != Alive {
		t.Fatalf("after signals to others: %v, want alive", got)
	}
	c.cmd.Process.Signal(syscall.SIGSTOP)
	eventually(t, id, Stopped)
	if err := Signal(id, "SIGTERM"); err != nil {
		t.Fatal(err)
	}
	eventually(t, id, Gone)
	if err := Signal(id, "SIGTERM"); err != nil {
		t.Errorf("a zombie: %v, want nil", err)
	}
}

func TestSignalKillsTheDeaf(t *testing.T) {
	c := start(t, "deaf")
	id := inspectChild(t, c)
	if err := Signal(id, "SIGTERM"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond) // it must survive, so there is no event to wait for
	if got := Check(id); got != Alive {
		t.Fatalf("deaf to SIGTERM, yet %v", got)
	}
	if err := Signal(id, "SIGKILL"); err != nil {
		t.Fatal(err)
	}
	eventually(t, id, Gone)
}

func inspectSelf(t *testing.T) Identity {
	t.Helper()
	id, err := Inspect(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func BenchmarkTable(b *testing.B) {
	for b.Loop() {
		if _, err := Table(); err != nil {
			b.Fatal(err)
		}
	}
}

func TestStartedTellsTheWallClock(t *testing.T) {
	before := time.Now()
	id := inspectChild(t, start(t, "plain"))
	after := time.Now()
	at, err := Started(id)
	if err != nil || at.Before(before.Add(-100*time.Millisecond)) || at.After(after.Add(100*time.Millisecond)) {
		t.Errorf("started %v, %v; want between %v and %v", at, err, before, after)
	}
	id.Boot = "another"
	if at, err := Started(id); err == nil {
		t.Errorf("a process of another boot started at %v", at)
	}
}
