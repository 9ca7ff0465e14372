package platform

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestListenLeavesABusySocketAlone: the socket of a server that is too busy to answer is not stale.
func TestListenLeavesABusySocketAlone(t *testing.T) {
	path := socketIn(t)
	os.MkdirAll(filepath.Dir(path), 0o700)
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	for {
		c, err := net.Dial("unix", path)
		if err != nil {
			break
		}
		defer c.Close()
	}
	if l, err := Listen(path); err == nil {
		l.Close()
		t.Fatal("took the path of a living server")
	}
	if _, err := os.Lstat(path); err != nil {
		t.Fatalf("its socket: %v", err)
	}
}
