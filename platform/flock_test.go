package platform

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain lets the test binary act as another process: it holds the lock in HOLD_LOCK until its input ends.
func TestMain(m *testing.M) {
	if path := os.Getenv("HOLD_LOCK"); path != "" {
		l, err := Lock(path, 0o600)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		l.Write([]byte("the other one"))
		fmt.Println("held")
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// holder starts a process that holds the lock; end kills it with SIGKILL.
func holder(t *testing.T, path string) (end func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "HOLD_LOCK="+path)
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end = func() {
		cmd.Process.Kill()
		cmd.Wait()
		in.Close()
	}
	t.Cleanup(end)
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("other process says %q", line)
	}
	return end
}

func TestLockBetweenProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.lock")
	end := holder(t, path)
	if _, err := Lock(path, 0o600); !errors.Is(err, ErrLocked) {
		t.Fatalf("while another process holds it: %v, want ErrLocked", err)
	}
	if text, err := ReadLock(path); err != nil || string(text) != "the other one" {
		t.Fatalf("text of the holder: %q, %v", text, err)
	}
	end()
	l, err := Lock(path, 0o600)
	if err != nil {
		t.Fatalf("after the holder's death: %v", err)
	}
	if err := l.Unlock(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("the lock file must stay: %v", err)
	}
}

func TestLockTextShrinks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.lock")
	l, err := Lock(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Unlock()
	for _, text := range []string{"a long text", "short", ""} {
		if err := l.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadLock(path); err != nil || string(got) != text {
			t.Fatalf("got %q, %v; want %q", got, err, text)
		}
	}
}

func openRW(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestLockOpenWaitGetsItLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.lock")
	first, err := Lock(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	f := openRW(t, path)
	got := make(chan error)
	go func() {
		l, err := LockOpenWait(t.Context(), f)
		if err == nil {
			err = l.Unlock()
		}
		got <- err
	}()
	select {
	case err := <-got:
		t.Fatalf("got the lock while it was held: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	first.Unlock()
	if err := <-got; err != nil {
		t.Fatal(err)
	}
}

func TestLockOpenWaitCalledOff(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.lock")
	first, err := Lock(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := LockOpenWait(ctx, openRW(t, path)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, want the context's error", err)
	}
}

func TestUnlockTwice(t *testing.T) {
	l, err := Lock(filepath.Join(t.TempDir(), "a.lock"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := l.Unlock(); !errors.Is(err, os.ErrClosed) {
		t.Fatalf("second Unlock: %v", err)
	}
}

func TestLockRefusesFolder(t *testing.T) {
	dir := t.TempDir()
	if _, err := Lock(dir, 0o600); err == nil || !strings.Contains(err.Error(), dir) {
		t.Fatalf("got %v", err)
	}
}

func TestLockRefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	if err := os.WriteFile(target, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	link, pipe := filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, pipe, "/dev/null"} {
		if l, err := Lock(path, 0o600); err == nil {
			l.Unlock()
			t.Errorf("locked %s", path)
		}
		if _, err := ReadLock(path); err == nil {
			t.Errorf("read %s", path)
		}
	}
}

func TestReplacedLockFileIsNotTheLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.lock")
	f, err := openLock(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if !named(f, path) {
		t.Fatal("the file is in place")
	}
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	if named(f, path) {
		t.Fatal("the file is gone from its name")
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if named(f, path) {
		t.Fatal("another file has its name")
	}
}
