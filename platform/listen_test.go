package platform

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// socketIn returns a short path: a path in t.TempDir may exceed the length limit of a socket.
func socketIn(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "st")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "run", "s.sock")
}

func listen(t *testing.T, path string) net.Listener {
	t.Helper()
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// stale leaves a socket behind that no process serves.
func stale(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
}

func TestListenIsPrivate(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	path := socketIn(t)
	l := listen(t, path)
	for name, want := range map[string]fs.FileMode{
		filepath.Dir(path): fs.ModeDir | 0o700,
		path:               fs.ModeSocket | 0o600,
		path + ".lock":     0o600,
	} {
		if info, err := os.Lstat(name); err != nil || info.Mode() != want {
			t.Errorf("%s: %v %v, want %v", name, info.Mode(), err, want)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("socket after Close: %v", err)
	}
	if _, err := os.Lstat(path + ".lock"); err != nil {
		t.Errorf("the lock file must stay: %v", err)
	}
}

func TestSecondListenHarmsNothing(t *testing.T) {
	path := socketIn(t)
	l := listen(t, path)
	_, err := Listen(path)
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), "another steward is running (pid ") {
		t.Fatalf("second Listen: %v", err)
	}
	go func() {
		if c, err := l.Accept(); err == nil {
			io.WriteString(c, "first")
			c.Close()
		}
	}()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatalf("the first one must still serve: %v", err)
	}
	defer c.Close()
	if got, err := io.ReadAll(c); err != nil || string(got) != "first" {
		t.Fatalf("got %q, %v", got, err)
	}
}

func TestListenAgainAfterClose(t *testing.T) {
	path := socketIn(t)
	for range 3 {
		if err := listen(t, path).Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestListenRemovesStaleSocket(t *testing.T) {
	path := socketIn(t)
	stale(t, path)
	l := listen(t, path)
	go l.Accept()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

func TestListenLeavesStrangersAlone(t *testing.T) {
	t.Run("a live socket of another program", func(t *testing.T) {
		path := socketIn(t)
		os.MkdirAll(filepath.Dir(path), 0o700)
		other, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		if _, err := Listen(path); err == nil || !strings.Contains(err.Error(), "another program answers") {
			t.Fatalf("got %v", err)
		}
		if _, err := os.Lstat(path); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("a file that is no socket", func(t *testing.T) {
		path := socketIn(t)
		os.MkdirAll(filepath.Dir(path), 0o700)
		os.WriteFile(path, []byte("mine"), 0o600)
		if _, err := Listen(path); err == nil {
			t.Fatal("no error")
		}
		if b, _ := os.ReadFile(path); string(b) != "mine" {
			t.Fatalf("file now holds %q", b)
		}
	})
	t.Run("the lock is free again after a refusal", func(t *testing.T) {
		path := socketIn(t)
		os.MkdirAll(path, 0o700)
		if _, err := Listen(path); err == nil {
			t.Fatal("no error")
		}
		os.Remove(path)
		listen(t, path)
	})
}

func TestCloseRemovesOnlyItsOwnSocket(t *testing.T) {
	path := socketIn(t)
	l := listen(t, path)
	os.Remove(path)
	stale(t, path)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Fatalf("another's socket was removed: %v", err)
	}
}

func TestListenChecksItsFolder(t *testing.T) {
	tests := []struct {
		name string
		mode fs.FileMode
		ok   bool
	}{
		{"private", 0o700, true},
		{"readable", 0o755, true},
		{"group may write", 0o770, false},
		{"all may write", 0o777, false},
		{"sticky like /tmp", 0o777 | fs.ModeSticky, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := socketIn(t)
			os.MkdirAll(filepath.Dir(path), 0o700)
			if err := os.Chmod(filepath.Dir(path), tt.mode); err != nil {
				t.Fatal(err)
			}
			l, err := Listen(path)
			if (err == nil) != tt.ok {
				t.Fatalf("error %v, want ok %v", err, tt.ok)
			}
			if err == nil {
				l.Close()
			}
		})
	}
}

func TestListenRefusesForeignFolder(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a folder away")
	}
	path := socketIn(t)
	os.MkdirAll(filepath.Dir(path), 0o700)
	os.Chown(filepath.Dir(path), 4711, 4711)
	if _, err := Listen(path); err == nil || !strings.Contains(err.Error(), "belongs to uid 4711") {
		t.Fatalf("got %v", err)
	}
	sticky := socketIn(t)
	os.MkdirAll(filepath.Dir(sticky), 0o700)
	os.Chmod(filepath.Dir(sticky), 0o777|fs.ModeSticky)
	os.WriteFile(sticky+".lock", nil, 0o666)
	os.Chown(sticky+".lock", 4711, 4711)
	if l, err := Listen(sticky); err == nil {
		l.Close()
		t.Fatal("took a lock file that belongs to somebody else")
	}
}

func TestListenLongPath(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("x", 120), "s.sock")
	if _, err := Listen(path); !errors.Is(err, ErrSocketPath) {
		t.Fatalf("got %v", err)
	}
	if _, err := os.Stat(filepath.Dir(path)); err == nil {
		t.Fatal("a folder was made for a path that cannot work")
	}
}

func TestPeerUID(t *testing.T) {
	path := socketIn(t)
	l := listen(t, path)
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for side, conn := range map[string]net.Conn{"client seen by server": s, "server seen by client": c} {
		if uid, err := PeerUID(conn.(*net.UnixConn)); err != nil || uid != os.Getuid() {
			t.Errorf("%s: uid %d, %v", side, uid, err)
		}
	}
}

func TestPeerListenerDropsAndGoesOn(t *testing.T) {
	path := socketIn(t)
	seen := 0
	l := PeerListener(listen(t, path), func(uid int) bool {
		seen++
		return uid == os.Getuid() && seen > 2
	})
	accepted := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			c.Close()
		}
		accepted <- err
	}()
	for range 3 {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(c); len(b) != 0 {
			t.Fatalf("read %q, %v", b, err)
		}
		c.Close()
	}
	if err := <-accepted; err != nil || seen != 3 {
		t.Fatalf("third peer: %v, asked %d times", err, seen)
	}
	if _, err := PeerUID(&net.UnixConn{}); err == nil {
		t.Fatal("no error for an unconnected socket")
	}
}

func TestPeerListenerDropsWhatIsNoUnixSocket(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Skip(err)
	}
	l := PeerListener(tcp, func(int) bool { return true })
	ended := make(chan error, 1)
	go func() {
		_, err := l.Accept()
		ended <- err
	}()
	c, err := net.Dial("tcp", tcp.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	io.ReadAll(c)
	l.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Fatalf("got %v", err)
	}
}

// TestRebind: a removed socket is bound again, even if its lock file or its folder was removed with it.
func TestRebind(t *testing.T) {
	for name, remove := range map[string]func(path string) error{
		"the socket": os.Remove,
		"both files": func(path string) error { return errors.Join(os.Remove(path), os.Remove(path+".lock")) },
		"the folder": func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
	} {
		path := socketIn(t)
		l := listen(t, path)
		accepted := make(chan error, 1)
		go func() {
			c, err := l.Accept()
			if err == nil {
				c.Close()
			}
			accepted <- err
		}()
		if done, err := Rebind(l); done || err != nil {
			t.Errorf("%s: while it is there: %v %v", name, done, err)
		}
		if err := remove(path); err != nil {
			t.Fatal(err)
		}
		if done, err := Rebind(l); !done || err != nil {
			t.Fatalf("%s: %v %v", name, done, err)
		}
		if _, err := Listen(path); !errors.Is(err, ErrLocked) {
			t.Errorf("%s: a second Listen: %v", name, err)
		}
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		c.Close()
		if err := <-accepted; err != nil {
			t.Errorf("%s: accept: %v", name, err)
		}
		if err := l.Close(); err != nil {
			t.Errorf("%s: close: %v", name, err)
		}
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: after Close: %v", name, err)
		}
	}
}
