package measure

import (
	"errors"
	"io"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// roomy is large enough for the longest text that is read whole: memory.stat of a large machine.
const roomy = 16 << 10

// kept is a kernel file that stays open. Reading it again takes half the time, and works even when the descriptors of
// the process or of the machine are used up, which is when it matters. Only these few Linux files are read directly,
// twice a second and more often; gopsutil, which reads several more files per answer, provides the rest.
// See docs/decisions.md, "Own readings beside gopsutil".
type kept struct {
	path string
	file *os.File // closed by its finalizer
}

// read returns the current text, in buf. It is a single system call, so the text is consistent.
func (k *kept) read(buf []byte) ([]byte, error) {
	if k.file == nil {
		f, err := open(k.path, unix.O_RDONLY)
		if err != nil {
			return nil, err
		}
		k.file = f
	}
	n, err := pread(k.file, buf)
	if err == nil {
		return buf[:n], nil
	}
	// A cgroup that was removed and recreated is a different file. Reopen any file that cannot be read.
	_ = k.file.Close()
	k.file = nil
	return nil, &os.PathError{Op: "read", Path: k.path, Err: err}
}

func pread(f *os.File, buf []byte) (int, error) {
	defer runtime.KeepAlive(f)
	for {
		n, err := unix.Pread(int(f.Fd()), buf, 0)
		switch {
		case errors.Is(err, unix.EINTR):
		case err == nil && n <= 0:
			return 0, io.ErrUnexpectedEOF // none of these files is ever empty
		default:
			return n, err
		}
	}
}

// open bypasses os.Open, which would add cgroup files to the poller because they are pollable.
func open(path string, flags int) (*os.File, error) {
	for {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return nil, &os.PathError{Op: "open", Path: path, Err: err}
		default:
			return os.NewFile(uintptr(fd), path), nil
		}
	}
}

// opened holds the kept files of the procfs by name.
type opened map[string]*kept

func (g *Gauge) kept(name string) *kept {
	k := g.open[name]
	if k == nil {
		if g.open == nil {
			g.open = opened{}
		}
		k = &kept{path: g.proc + "/" + name}
		g.open[name] = k
	}
	return k
}
