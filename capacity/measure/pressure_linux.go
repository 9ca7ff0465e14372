package measure

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
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
var triggers = [...][2]string{
	{"pressure/memory", "some 200000 2000000"},
	{"pressure/memory", "full 100000 2000000"},
	{"pressure/cpu", "some 1000000 2000000"},
	{"pressure/io", "some 1000000 2000000"},
}

// Run forwards the kernel's pressure events to Alarms until the context ends. If the kernel provides no events, or
// stops doing so, Run only waits for the end of the context, and Problems states the reason under "pressure".
func (g *Gauge) Run(ctx context.Context) error {
	files, refused := setTriggers(g.proc)
	defer func() {
		for _, f := range files {
			_ = f.Close()
		}
	}()
	g.forward(ctx, files, refused)
	<-ctx.Done()
	return nil
}

// forward passes on events until the context ends or a trigger fails. refused states which triggers could not be set.
func (g *Gauge) forward(ctx context.Context, files []*os.File, refused error) {
	g.silent(refused)
	if len(files) == 0 {
		return
	}
	if err := poll(ctx, files, g.alarms); err != nil && ctx.Err() == nil {
		g.silent(errors.Join(refused, fmt.Errorf("wait for pressure: %w", err)))
	}
}

// poll blocks a thread, because Go's poller does not wait for "urgent" events (POLLPRI), by which triggers are reported.
// The kernel is not polled while no receiver takes the token. Otherwise it would wake steward every two seconds on a
// machine that is busy for hours, even while nothing needs a sample.
func poll(ctx context.Context, files []*os.File, alarms chan<- struct{}) error {
	over, end, err := os.Pipe() // the end of the context ends the wait
	if err != nil {
		return err
	}
	defer over.Close()
	defer end.Close()
	defer context.AfterFunc(ctx, func() { _ = end.Close() })()
	fds := []unix.PollFd{{Fd: int32(over.Fd()), Events: unix.POLLIN}}
	for _, f := range files {
		fds = append(fds, unix.PollFd{Fd: int32(f.Fd()), Events: unix.POLLPRI})
	}
	defer runtime.KeepAlive(files)
	for ctx.Err() == nil {
		_, err := unix.Poll(fds, -1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		for _, trigger := range fds[1:] {
			if trigger.Revents&(unix.POLLERR|unix.POLLNVAL) != 0 {
				return errors.New("the kernel has taken a trigger back")
			}
		}
		select {
		case alarms <- struct{}{}:
		case <-ctx.Done():
		}
	}
	return nil
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

// setTriggers opens a file for each trigger. The error states which triggers were rejected.
func setTriggers(proc string) (files []*os.File, refused error) {
	for _, t := range triggers {
		path := filepath.Join(proc, t[0])
		f, err := open(path, unix.O_RDWR|unix.O_NONBLOCK)
		if err == nil {
			if _, err = unix.Write(int(f.Fd()), append([]byte(t[1]), 0)); err == nil {
				files = append(files, f)
				continue
			}
			_ = f.Close()
			err = fmt.Errorf("the kernel refuses a trigger at %s: %w", path, err)
		} else if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("this kernel does not count who waits: %w", err)
		}
		refused = errors.Join(refused, err)
	}
	return files, refused
}
