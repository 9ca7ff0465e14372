package platform

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Listen binds the daemon's socket. It makes the socket's folder private (PrivateDir) and first acquires the lock
// file <socket>.lock; ErrLocked means that another steward is running. Only under that lock does it remove a stale
// socket, and never a socket that answers. The socket has mode 0600. Close removes the socket if it is still ours,
// and releases the lock; the lock file remains.
func Listen(socketPath string) (net.Listener, error) {
	if err := CheckSocketPath(socketPath); err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if err := PrivateDir(filepath.Dir(socketPath)); err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	guard, err := lockInstance(socketPath)
	if err != nil {
		return nil, err
	}
	l, err := bindUnder(guard, socketPath)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen on %s: %w", socketPath, err), guard.Unlock())
	}
	return l, nil
}

func lockInstance(socketPath string) (*FileLock, error) {
	path := socketPath + ".lock"
	guard, err := Lock(path, 0o600)
	if errors.Is(err, ErrLocked) {
		text, _ := ReadLock(path)
		return nil, fmt.Errorf("another steward is running (%s): %w", strings.TrimSpace(string(text)), err)
	}
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	// In a sticky folder another user may have created the lock file first, and could remove it while we hold the
	// lock.
	if !ours(guard.file) {
		return nil, errors.Join(fmt.Errorf("listen: lock file %s belongs to another user", path), guard.Unlock())
	}
	if err := guard.Write(fmt.Appendf(nil, "pid %d\n", os.Getpid())); err != nil {
		return nil, errors.Join(fmt.Errorf("listen: %w", err), guard.Unlock())
	}
	return guard, nil
}

func bindUnder(guard *FileLock, path string) (*listener, error) {
	if err := removeStale(path); err != nil {
		return nil, err
	}
	// Not through umask: it applies to the whole process, and other goroutines write project files meanwhile.
	conf := net.ListenConfig{Control: closedToOthers}
	l, err := conf.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, bareNet(err)
	}
	ul := l.(*net.UnixListener)
	ul.SetUnlinkOnClose(false)
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, ul.Close())
	}
	info, err := os.Lstat(path)
	if err != nil {
		return nil, errors.Join(err, ul.Close())
	}
	return &listener{path: path, bound: ul, made: info, guard: guard}, nil
}

// removeStale removes a socket that no process serves. It connects first, even under the lock: a misconfigured path
// may lead to another program's live socket, which root could remove.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !isSocket(info) {
		return fmt.Errorf("a file that is no socket is in the way (%s); choose another path", info.Mode())
	}
	c, err := net.Dial("unix", path)
	if err == nil {
		c.Close()
		return errors.New("another program answers on this socket; choose another path")
	}
	if !refused(err) {
		return fmt.Errorf("ask the old socket: %w", bareNet(err))
	}
	return os.Remove(path)
}

// listener removes the socket and releases the lock that Listen acquired.
type listener struct {
	path string

	mu    sync.Mutex // guards the fields below
	bound *net.UnixListener
	made  fs.FileInfo
	guard *FileLock
	ended bool
	err   error
}

// Rebind binds the socket of a Listen again if its file was removed, since clients could no longer connect. It
// reports whether the file was missing. Established connections stay open.
func Rebind(l net.Listener) (bool, error) {
	own, ok := l.(*listener)
	if !ok {
		return false, nil
	}
	own.mu.Lock()
	defer own.mu.Unlock()
	if _, err := os.Lstat(own.path); own.ended || !errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err := own.rebind(); err != nil {
		return false, fmt.Errorf("bind %s again: %w", own.path, err)
	}
	return true, nil
}

// rebind also acquires a new lock if the lock file was removed together with the socket.
func (l *listener) rebind() error {
	if err := PrivateDir(filepath.Dir(l.path)); err != nil {
		return err
	}
	guard := l.guard
	if !named(guard.file, l.path+".lock") {
		var err error
		if guard, err = lockInstance(l.path); err != nil {
			return err
		}
	}
	next, err := bindUnder(guard, l.path)
	if err != nil {
		if guard != l.guard {
			err = errors.Join(err, guard.Unlock())
		}
		return err
	}
	if guard != l.guard {
		_ = l.guard.Unlock()
	}
	old := l.bound
	l.bound, l.made, l.guard = next.bound, next.made, guard
	return old.Close()
}

func (l *listener) current() *net.UnixListener {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bound
}

func (l *listener) Addr() net.Addr { return l.current().Addr() }

// Accept continues on the new socket after a Rebind.
func (l *listener) Accept() (net.Conn, error) {
	for {
		bound := l.current()
		c, err := bound.Accept()
		if err == nil || bound == l.current() {
			return c, err
		}
	}
}

// Close removes the socket before closing it: while the listener is open, no other file can get its inode number.
func (l *listener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return l.err
	}
	l.ended = true
	var gone error
	if now, err := os.Lstat(l.path); err == nil && os.SameFile(now, l.made) {
		gone = os.Remove(l.path)
	}
	l.err = errors.Join(gone, l.bound.Close(), l.guard.Unlock())
	return l.err
}

// bareNet strips the address from an error, for callers that add the address themselves.
func bareNet(err error) error {
	var oe *net.OpError
	if errors.As(err, &oe) {
		return oe.Err
	}
	return err
}

// closedToOthers runs between socket and bind. On Linux the socket file inherits the mode of the unbound socket, so
// it never exists with a wider mode. macOS rejects the fchmod; there the private folder protects the socket until
// chmod.
func closedToOthers(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) { _ = unix.Fchmod(int(fd), 0o600) })
}

func isSocket(info fs.FileInfo) bool { return info.Mode()&fs.ModeSocket != 0 }

// refused reports whether no process listens on the socket. A full queue (EAGAIN) or a missing permission means that
// a process may listen.
func refused(err error) bool {
	return errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.ENOENT)
}

func ours(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && OwnerOf(info) == os.Geteuid()
}
