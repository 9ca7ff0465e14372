package service

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// TestLine uses a manager's socket as systemd opens it.
func TestLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "n")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "180000000")
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	l := Connect()
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		if v, ok := os.LookupEnv(name); ok {
			t.Errorf("%s=%s is left for the children", name, v)
		}
	}
	hears := func(want string) {
		t.Helper()
		buf := make([]byte, 1000)
		_ = manager.SetReadDeadline(time.Now().Add(5 * time.Second))
		n, err := manager.Read(buf)
		if err != nil || string(buf[:n]) != want {
			t.Fatalf("heard %q (%v), want %q", buf[:n], err, want)
		}
	}
	l.Waiting("3 starts\ncame to nothing", 2*time.Second)
	hears("STATUS=3 starts came to nothing\nEXTEND_TIMEOUT_USEC=122000000")
	l.Ready("looks after 1 project")
	hears("READY=1\nSTATUS=looks after 1 project")
	now := time.Now()
	l.Pulse(now)
	hears("WATCHDOG=1")
	l.Pulse(now.Add(59 * time.Second)) // too early
	l.Pulse(now.Add(61 * time.Second))
	hears("WATCHDOG=1")
	l.Pulse(now.Add(-time.Hour)) // the clock was set back: an extra notification does no harm
	hears("WATCHDOG=1")
	l.Reloading()
	hears("RELOADING=1")
	l.Stopping()
	hears("STOPPING=1")
}

// TestLineWithoutManager: a missing manager is not an error, and notifications resume when the manager comes back.
func TestLineWithoutManager(t *testing.T) {
	path := filepath.Join(t.TempDir(), "n")
	t.Setenv("NOTIFY_SOCKET", path)
	l := Connect()
	l.Ready("nobody hears this")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	l.Stopping()
	buf := make([]byte, 1000)
	_ = manager.SetReadDeadline(time.Now().Add(5 * time.Second))
	if n, err := manager.Read(buf); err != nil || string(buf[:n]) != "STOPPING=1" {
		t.Errorf("the manager that came back heard %q (%v)", buf[:n], err)
	}
}

// TestLineOfAnotherProcess: a watchdog for another process is ignored.
func TestLineOfAnotherProcess(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "/nowhere")
	t.Setenv("WATCHDOG_USEC", "180000000")
	t.Setenv("WATCHDOG_PID", "1")
	if l := Connect(); l.every != 0 {
		t.Errorf("a sign of life every %v", l.every)
	}
}
