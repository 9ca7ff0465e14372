package measure

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A failing trigger is reported, and Run goes on waiting: the alarms are optional and no reason to stop.
func TestTriggerFails(t *testing.T) {
	closed, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	closed.Close() // nobody reads, which is an error of the other end
	g := New()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	g.forward(ctx, []*os.File{w}, errors.New("one trigger is missing"))
	if said := g.Problems()["pressure"]; ctx.Err() != nil || !strings.Contains(said, "wait for pressure: ") || !strings.Contains(said, "one trigger is missing") {
		t.Errorf("said %q, after the context: %v", said, ctx.Err())
	}
}

// Each token is received once. The end of the context ends the wait and is not a failure.
func TestAlarmsDoNotQueue(t *testing.T) {
	g, need := New(), urgent(t)
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { g.forward(ctx, []*os.File{need}, nil); close(over) }()
	for range 3 {
		select {
		case <-g.Alarms():
		case <-time.After(time.Minute):
			t.Fatal("no alarm")
		}
	}
	stop()
	<-over
	if said := g.Problems()["pressure"]; said != "" {
		t.Errorf("said %q", said)
	}
}

// The end of the context ends a wait without events.
func TestQuietTriggers(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	g := New()
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { g.forward(ctx, []*os.File{r}, nil); close(over) }()
	time.AfterFunc(50*time.Millisecond, stop)
	<-over
	if said := g.Problems()["pressure"]; said != "" {
		t.Errorf("said %q", said)
	}
}

// urgent is a file with a permanent "urgent" event.
func urgent(t *testing.T) *os.File {
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
	return f
}
