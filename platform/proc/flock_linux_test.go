package proc

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func lockFileIn(t testing.TB) (string, *os.File) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kanban.md.lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return path, f
}

func holdersOf(t *testing.T, path string) []int {
	t.Helper()
	held, err := FlockHolders(path)
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, id := range held {
		if again, err := Inspect(id.PID); err != nil || again != id {
			t.Errorf("holder %+v is %+v, %v", id, again, err)
		}
		pids = append(pids, id.PID)
	}
	return pids
}

func TestFlockHoldersNamesWhoHoldsNotWhoHasItOpen(t *testing.T) {
	path, f := lockFileIn(t)
	if got := holdersOf(t, path); got != nil {
		t.Errorf("nobody holds it, got %v", got)
	}
	other, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	start(t, "plain", func(cmd *exec.Cmd) { cmd.ExtraFiles = []*os.File{other} })
	other.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if got, want := holdersOf(t, path), []int{os.Getpid()}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if got := holdersOf(t, link); len(got) != 1 {
		t.Errorf("through a link: %v", got)
	}
	unix.Flock(int(f.Fd()), unix.LOCK_UN)
	if got := holdersOf(t, path); got != nil {
		t.Errorf("after the unlock: %v", got)
	}
	// A record lock (fcntl(2)) is not an flock.
	unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	if got := holdersOf(t, path); got != nil {
		t.Errorf("a record lock counts as flock: %v", got)
	}
}

func TestFlockHoldersFindsShellBehindAFlockCommandThatHasEnded(t *testing.T) {
	for _, tool := range []string{"bash", "flock"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	path, _ := lockFileIn(t)
	cmd := exec.Command("bash", "-c", `exec 9>"$0"; flock 9; echo ready; read`, path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); cmd.Wait() }()
	out.Read(make([]byte, 8))
	if got, want := holdersOf(t, path), []int{cmd.Process.Pid}; !slices.Equal(got, want) {
		t.Errorf("got %v, want the shell %v", got, want)
	}
}

func TestFlockHoldersOfAMissingFile(t *testing.T) {
	if held, err := FlockHolders(filepath.Join(t.TempDir(), "none")); !os.IsNotExist(unwrapped(err)) {
		t.Errorf("got %v, %v", held, err)
	}
}

func unwrapped(err error) error {
	for {
		u, ok := err.(interface{ Unwrap() error })
		if !ok || u.Unwrap() == nil {
			return err
		}
		err = u.Unwrap()
	}
}

func TestFlockTakersReadsTheTable(t *testing.T) {
	text := "1: POSIX  ADVISORY  WRITE 10 08:01:77 0 EOF\n" +
		"2: FLOCK  ADVISORY  WRITE 20 00:2f:77 0 EOF\n" +
		"2: -> FLOCK  ADVISORY  WRITE 30 00:2f:77 0 EOF\n" +
		"3: FLOCK  ADVISORY  READ 40 08:01:177 0 EOF\n" +
		"4: FLOCK  ADVISORY  READ 15 08:01:77 0 EOF\n5: FLOCK\n\n"
	if got, want := flockTakers([]byte(text), 77), []int{15, 20}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func BenchmarkFlockHoldersOfNobody(b *testing.B) {
	path, _ := lockFileIn(b)
	for b.Loop() {
		if _, err := FlockHolders(path); err != nil {
			b.Fatal(err)
		}
	}
}
