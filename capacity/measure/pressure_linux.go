package measure

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/livhana/steward/capacity"
)

// addPressure reads the stalls on the processor and on memory. A kernel without these files is judged without them.
func (g *Gauge) addPressure(load *capacity.Load, m *memory, now time.Time) {
	if some, _, known := g.waits("pressure/cpu", &g.stalls.cpu, now); known {
		load.Stalled = capacity.Used(some)
	}
	if g.up() < bootCalm {
		return
	}
	if some, full, known := g.waits("pressure/memory", &g.stalls.memory, now); known {
		m.need(need(some, full))
	}
}

func (g *Gauge) waits(name string, past *waiting, now time.Time) (some, full float64, known bool) {
	text, err := g.kept(name).read(g.buf)
	if err != nil {
		return 0, 0, false
	}
	w, err := parsePressure(text)
	if err != nil {
		return 0, 0, false
	}
	return past.add(w, now)
}

// sinceBoot includes suspended time, as the start times of processes do.
func sinceBoot() time.Duration {
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		return 0
	}
	return time.Duration(up.Nano())
}

// triggers are the PSI events to subscribe to. Without privileges the kernel accepts only windows that are multiples of
// two seconds.
func triggers() [][2]string {
	return [][2]string{
		{"pressure/memory", "some 200000 2000000"},
		{"pressure/memory", "full 100000 2000000"},
		{"pressure/cpu", "some 1000000 2000000"},
		{"pressure/io", "some 1000000 2000000"},
	}
}

// Run forwards the kernel's pressure events to Alarms until the context ends. If the kernel provides no events, or
// stops doing so, Run only waits for the end of the context, and Problems states the reason under "pressure".
func (g *Gauge) Run(ctx context.Context) error {
	bell, files, err := listen(g.proc)
	defer func() {
		for _, f := range files {
			_ = f.Close()
		}
	}()
	g.attend(ctx, bell, err)
	<-ctx.Done()
	return nil
}

// attend forwards the events of bell until the context ends or bell fails. A nil bell has no events. refused states
// why, or which triggers bell lacks.
func (g *Gauge) attend(ctx context.Context, bell *os.File, refused error) {
	g.silent(refused)
	if bell == nil {
		return
	}
	defer context.AfterFunc(ctx, func() { _ = bell.SetReadDeadline(time.Unix(1, 0)) })()
	conn, err := bell.SyscallConn()
	for err == nil && ctx.Err() == nil {
		var rung []int32
		var failed error
		err = conn.Read(func(fd uintptr) (over bool) {
			over, rung, failed = heard(fd)
			return over
		})
		if err = errors.Join(err, failed); err != nil {
			break
		}
		select {
		case g.alarms <- struct{}{}:
			err = conn.Control(func(fd uintptr) { arm(fd, rung) })
		case <-ctx.Done():
		}
	}
	if ctx.Err() == nil {
		g.silent(errors.Join(refused, fmt.Errorf("wait for pressure: %w", err)))
	}
}

// silent records why Alarms stays silent; nil: it does not.
func (g *Gauge) silent(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.problems, "pressure")
	if err != nil {
		g.problems["pressure"] = err.Error()
	}
}

// heard reports whether a trigger has fired and which; a trigger that has failed is an error.
func heard(bell uintptr) (over bool, rung []int32, err error) {
	var events [8]unix.EpollEvent
	n, err := unix.EpollWait(int(bell), events[:], 0)
	if errors.Is(err, unix.EINTR) {
		return true, nil, nil // a superfluous sample is harmless; waiting for the next edge may last forever
	}
	if err != nil {
		return true, nil, err
	}
	for _, e := range events[:n] {
		if e.Events&unix.EPOLLERR != 0 {
			return true, nil, errors.New("the kernel has taken a trigger back")
		}
		if e.Events&unix.EPOLLPRI != 0 {
			rung = append(rung, e.Fd)
		}
	}
	return n > 0, rung, nil
}

// arm re-enables triggers. Each fires once and is re-enabled only after the alarm was received. Otherwise they would
// wake steward every two seconds on a machine that is busy for hours, even while nothing needs a sample.
func arm(bell uintptr, triggers []int32) {
	for _, fd := range triggers {
		// A trigger that cannot be re-enabled stays silent; sampling continues.
		_ = unix.EpollCtl(int(bell), unix.EPOLL_CTL_MOD, int(fd), &unix.EpollEvent{Events: once, Fd: fd})
	}
}

// once are the epoll events of a trigger.
const once = unix.EPOLLPRI | unix.EPOLLONESHOT

// listen sets the triggers. Go's own poller does not wait for "urgent" events (EPOLLPRI), by which they are reported.
// They are therefore added to another epoll, whose descriptor Go's poller can wait for without blocking a thread. The
// error states which triggers were rejected.
func listen(proc string) (*os.File, []*os.File, error) {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, nil, fmt.Errorf("wait for pressure: %w", err)
	}
	_ = unix.SetNonblock(ep, true) // otherwise os.NewFile keeps it out of Go's poller
	bell := os.NewFile(uintptr(ep), "pressure")
	files := []*os.File{bell}
	var refused []error
	for _, t := range triggers() {
		f, err := trigger(ep, filepath.Join(proc, t[0]), t[1])
		if err != nil {
			refused = append(refused, err)
			continue
		}
		files = append(files, f)
	}
	if len(files) == 1 {
		_ = bell.Close()
		return nil, nil, errors.Join(refused...)
	}
	return bell, files, errors.Join(refused...)
}

func trigger(ep int, path, text string) (*os.File, error) {
	f, err := open(path, unix.O_RDWR|unix.O_NONBLOCK)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("this kernel does not count who waits: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("set a trigger: %w", err)
	}
	fd := int(f.Fd())
	if _, err := unix.Write(fd, append([]byte(text), 0)); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("the kernel refuses a trigger at %s: %w", path, err)
	}
	event := unix.EpollEvent{Events: once, Fd: int32(fd)}
	if err := unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("wait for pressure: %w", err)
	}
	return f, nil
}
