package status

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// listen makes a socket; the path of t.TempDir is too long for one.
func listen(t *testing.T) net.Listener {
	t.Helper()
	dir, err := os.MkdirTemp("", "st")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "s.sock"))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// cut is a socket that accepts one connection: then the listener closes, and how decides what happens to the
// connection.
func cut(t *testing.T, how func(net.Conn)) *Client {
	t.Helper()
	l := listen(t)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		l.Close()
		if err == nil {
			how(c)
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return NewClient(l.Addr().String())
}

// A daemon that is killed between connect and answer yields ErrNoDaemon, whatever error the kernel reports.
func TestDaemonEndsDuringTheExchange(t *testing.T) {
	read := func(c net.Conn) { _, _ = c.Read(make([]byte, 4096)) }
	for name, how := range map[string]func(net.Conn){
		"before it has read": func(c net.Conn) { _, _ = c.Read(make([]byte, 1)) }, // unread data resets the connection
		"before the answer":  read,
		"in its answer": func(c net.Conn) {
			read(c)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
		},
	} {
		if err := cut(t, how).Get(t.Context(), "/v1/status", nil); !errors.Is(err, ErrNoDaemon) || !strings.Contains(err.Error(), "steward run") {
			t.Errorf("%s: get: %v", name, err)
		}
		if err := cut(t, how).Stream(t.Context(), "/v1/log", nil); !errors.Is(err, ErrNoDaemon) {
			t.Errorf("%s: stream: %v", name, err)
		}
		if err := cut(t, how).exchange(t.Context(), http.MethodPost, "/v1/release", nil, nil); !errors.Is(err, ErrNoDaemon) {
			t.Errorf("%s: post: %v", name, err)
		}
	}
}

// A live daemon that cuts an answer short is not ErrNoDaemon.
func TestLivingDaemonCutsAnAnswerShort(t *testing.T) {
	l := listen(t)
	srv := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != healthPath {
			panic(http.ErrAbortHandler)
		}
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(l) }()
	t.Cleanup(func() { srv.Close(); <-done })
	c := NewClient(l.Addr().String())
	for name, err := range map[string]error{"get": c.Get(t.Context(), "/v1/status", nil), "post": c.Post(t.Context(), "/v1/release", nil, nil)} {
		if err == nil || errors.Is(err, ErrNoDaemon) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
