package measure

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A failing bell is reported, whatever rejects it, and Run goes on waiting: the alarms are optional and no reason to
// stop.
func TestBellFails(t *testing.T) {
	for name, ring := range map[string]func() (*os.File, error){
		"the poller refuses": func() (*os.File, error) {
			ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC) // blocking, so that Go's poller does not use it
			return os.NewFile(uintptr(ep), "bell"), err
		},
		"the kernel refuses": func() (*os.File, error) {
			r, w, err := os.Pipe() // the poller would wait for it
			t.Cleanup(func() { _ = w.Close() })
			return r, err
		},
		"it is closed": func() (*os.File, error) {
			f, err := os.Open(os.DevNull)
			return f, errors.Join(err, f.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			bell, err := ring()
			if err != nil {
				t.Fatal(err)
			}
			defer bell.Close()
			g := New()
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			g.attend(ctx, bell, errors.New("one trigger is missing"))
			if said := g.Problems()["pressure"]; ctx.Err() != nil || !strings.Contains(said, "wait for pressure: ") || !strings.Contains(said, "one trigger is missing") {
				t.Errorf("said %q, after the context: %v", said, ctx.Err())
			}
			if len(g.Alarms()) > 0 {
				t.Error("it rang")
			}
		})
	}
}

// While the bell works there is no problem, and the end of the context is not a failure.
func TestBellIsWell(t *testing.T) {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.SetNonblock(ep, true)
	bell := os.NewFile(uintptr(ep), "bell")
	defer bell.Close()
	g := New()
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { g.attend(ctx, bell, nil); close(over) }()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if _, err := w.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET}
	if err := unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, int(r.Fd()), &event); err != nil {
		t.Fatal(err)
	}
	select {
	case <-g.Alarms():
	case <-time.After(time.Minute):
		t.Error("it does not ring")
	}
	stop()
	<-over
	if said := g.Problems()["pressure"]; said != "" {
		t.Errorf("said %q", said)
	}
}

// A receiver that does not listen gets one token, and the kernel is not polled until it takes the token; then it is
// polled again.
func TestAlarmsDoNotQueue(t *testing.T) {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.SetNonblock(ep, true)
	bell := os.NewFile(uintptr(ep), "bell")
	defer bell.Close()
	need := urgent(t)
	if err := unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, need, &unix.EpollEvent{Events: once, Fd: int32(need)}); err != nil {
		t.Fatal(err)
	}
	g := New()
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { g.attend(ctx, bell, nil); close(over) }()
	for range 3 {
		calm := []unix.PollFd{{Fd: int32(ep), Events: unix.POLLIN}}
		for end := time.Now().Add(time.Minute); ; {
			if n, _ := unix.Poll(calm, 0); n == 0 {
				break
			}
			if time.Now().After(end) {
				t.Fatal("the kernel tells again what nobody has taken yet")
			}
			runtime.Gosched()
		}
		select {
		case <-g.Alarms():
		case <-time.After(time.Minute):
			t.Fatal("it does not ring")
		}
	}
	stop()
	<-over
}

// urgent is a descriptor with a permanent "urgent" event.
func urgent(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	from, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	to, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = from.Close(), to.Close() })
	raw, err := from.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Write(func(fd uintptr) bool { err = unix.Sendto(int(fd), []byte("!"), unix.MSG_OOB, nil); return true })
	if err != nil {
		t.Fatal(err)
	}
	f, err := to.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return int(f.Fd())
}
