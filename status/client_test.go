package status

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/livhana/steward/platform"
)

func TestNoDaemon(t *testing.T) {
	w := newWorld(t, scene())
	dir := filepath.Dir(w.socket)
	stale := filepath.Join(dir, "stale.sock")
	l, err := net.Listen("unix", stale)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	w.stop()
	for name, socket := range map[string]string{"gone": w.socket, "stale": stale, "never there": filepath.Join(dir, "none", "s.sock")} {
		c := NewClient(socket)
		for verb, err := range map[string]error{"get": c.Get(t.Context(), "/v1/status", nil), "post": c.Post(t.Context(), "/v1/release", nil, nil),
			"stream": c.Stream(t.Context(), "/v1/log", nil)} {
			if !errors.Is(err, ErrNoDaemon) || !strings.Contains(err.Error(), socket) || !strings.Contains(err.Error(), "steward run") {
				t.Errorf("%s, %s: got %v", name, verb, err)
			}
		}
	}
}

func TestOddSockets(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := NewClient(file).Get(t.Context(), "/v1/status", nil); err == nil || errors.Is(err, ErrNoDaemon) {
		t.Errorf("a plain file: %v", err)
	}
	if err := NewClient("/"+strings.Repeat("x", 200)).Get(t.Context(), "/v1/status", nil); !errors.Is(err, platform.ErrSocketPath) {
		t.Errorf("a path that is too long: %v", err)
	}
}

// planted is a socket with a server that reports how many bytes it received.
func planted(t *testing.T) (socket string, sent func() int64) {
	t.Helper()
	dir, err := os.MkdirTemp("", "st")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket = filepath.Join(dir, "s.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan int64, 1)
	go func() {
		var n int64
		defer func() { got <- n }()
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			m, _ := c.Read(make([]byte, 1))
			n += int64(m)
			c.Close()
		}
	}()
	return socket, sync.OnceValue(func() int64 { l.Close(); return <-got })
}

func TestForeignSocketGetsNotOneByte(t *testing.T) {
	for name, trusts := range map[string]func(asked int) bool{
		"by its owner":                         func(int) bool { return false },
		"by who listens, whoever the owner is": func(asked int) bool { return asked == 1 },
	} {
		socket, sent := planted(t)
		c, asked := NewClient(socket), 0
		c.trusts = func(uid int) bool {
			if uid != os.Geteuid() {
				t.Errorf("%s: asked about uid %d", name, uid)
			}
			asked++
			return trusts(asked)
		}
		err := c.Post(t.Context(), "/v1/release", nil, nil)
		if !errors.Is(err, ErrForeign) || errors.Is(err, ErrNoDaemon) || !strings.Contains(err.Error(), socket) {
			t.Errorf("%s: got %v", name, err)
		}
		if n := sent(); n != 0 {
			t.Errorf("%s: %d bytes were sent", name, n)
		}
	}
}

// Only root can give a socket to another user; the test above covers other users.
func TestSocketOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	socket, sent := planted(t)
	defer sent()
	if err := os.Chown(socket, 4242, -1); err != nil {
		t.Fatal(err)
	}
	if err := NewClient(socket).Get(t.Context(), "/v1/status", nil); !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), "4242") {
		t.Errorf("got %v", err)
	}
}

func TestClientHeedsItsContext(t *testing.T) {
	w := newWorld(t, scene())
	entered, leave := make(chan struct{}), make(chan struct{})
	w.server.Reload = func(ctx context.Context) ([]string, error) {
		close(entered)
		select {
		case <-ctx.Done():
		case <-leave:
		}
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-entered; cancel() }()
	if err := w.client.Post(ctx, "/v1/reload", nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(leave)
}

func TestAnswersThatAreNoErrorDocument(t *testing.T) {
	for _, body := range []string{"", "busy", "{}", `{"error":{}}`, `{"error":"text"}`, "[1]"} {
		rec := httptest.NewRecorder()
		rec.WriteHeader(http.StatusBadGateway)
		rec.WriteString(body)
		var e *Error
		if err := refusal(rec.Result()); !errors.As(err, &e) || e.Status != 502 || e.Code != CodeInternal || !strings.Contains(e.Error(), "502") {
			t.Errorf("%q: got %v", body, err)
		}
	}
}

func FuzzRefusal(f *testing.F) {
	for _, body := range []string{"", "busy", `{"error":{"code":"refused","message":"no","hint":"wait"}}`, `{"error":null}`} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		rec := httptest.NewRecorder()
		rec.WriteHeader(http.StatusConflict)
		rec.WriteString(body)
		var e *Error
		if err := refusal(rec.Result()); !errors.As(err, &e) || e.Code == "" || e.Status != 409 {
			t.Errorf("%q: got %+v", body, e)
		}
	})
}

func FuzzOrder(f *testing.F) {
	for _, body := range []string{"", "{}", `{"why":"because"}`, `{"why":"a"}{"why":"b"}`, `{"why":1}`, "null", `{"WHY":"x"}`} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		o, err := order(httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/release", strings.NewReader(body)))
		if err != nil && answerFor(err).Status != http.StatusBadRequest {
			t.Errorf("%q: %v is not the client's fault", body, err)
		}
		if err == nil && o.Why != "" && !strings.Contains(body, "{") {
			t.Errorf("%q became %+v", body, o)
		}
	})
}

func TestSnapshot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "status.json")
	var got Document
	if _, err := ReadSnapshot(path, &got); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("none yet: %v", err)
	}
	for _, version := range []string{"1.2.3", "1.2.4"} {
		if err := WriteSnapshot(path, Compose(scene(), nil, nil, Self{Version: version})); err != nil {
			t.Fatal(err)
		}
		written, err := ReadSnapshot(path, &got)
		if err != nil || written.IsZero() || got.Version != version || len(got.Agents) != 3 {
			t.Errorf("got %+v of %s, %v", got, written, err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := WriteSnapshot(path, func() {}); err == nil {
		t.Error("a document that is none was written")
	}
	if err := os.WriteFile(path, []byte(`{"version":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSnapshot(path, &got); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a torn file: %v", err)
	}
	if err := WriteSnapshot(filepath.Join(path, "not-a-folder", "status.json"), 1); err == nil {
		t.Error("it was written nowhere")
	}
	folder := filepath.Join(filepath.Dir(path), "folder")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := WriteSnapshot(folder, 1); err == nil {
		t.Error("it was written over a folder")
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 2 {
		t.Errorf("left over: %v, %v", left, err)
	}
}
