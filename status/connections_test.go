package status

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"
)

// Idle connections never keep others out, and their number is bounded.
func TestIdleConnectionsAreBounded(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Skip(err) // the folder's path is too long
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- Serve(ctx, l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }))
	}()
	var idle []net.Conn
	for range 3 * maxConnections {
		c, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		idle = append(idle, c)
	}
	if err := NewClient(socket).Get(t.Context(), "/v1/status", nil); err != nil {
		t.Errorf("beside idle connections: %v", err)
	}
	closed := 0
	for _, c := range idle {
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		_, err := c.Read(make([]byte, 1))
		if timeout, ok := err.(net.Error); err != nil && !(ok && timeout.Timeout()) {
			closed++
		}
	}
	if left := len(idle) - closed; left > maxConnections || left == 0 {
		t.Errorf("%d of %d idle connections stay, at most %d may", left, len(idle), maxConnections)
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
