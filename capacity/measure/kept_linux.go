package measure

import (
	"errors"
	"io"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// roomy holds the longest of the texts that are read whole: memory.stat of a large machine.
const roomy = 16 << 10

// kept is a file of the kernel that stays open: reading it again costs half, and it can still be read when the
// descriptors of the process or of the machine are used up, which is when it matters. Only these few files of Linux are
// read by hand, twice a second and more; gopsutil would read several more files for each answer, and gives the rest.
type kept struct {
	path string
	file *os.File // closes itself when nobody holds it any more
}

// read gives the text as it is now, in buf. It is one call of the kernel, so no text is half old.
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
	// A cgroup that was removed and made anew is another file. What cannot be read was not worth keeping.
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

// open goes past os.Open, which would put files of cgroups into the poller: they can be polled.
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

// opened are the kept files of the procfs by name.
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
