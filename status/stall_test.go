package status

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/livhana/steward/supervisor"
)

// wire is what a client reads from, in a synctest bubble: while stalled it takes nothing, until its deadline is set
// into the past.
type wire struct {
	header http.Header
	mu     sync.Mutex
	text   bytes.Buffer
	read   []time.Time
	write  []time.Time
	stalls bool
	cut    chan struct{}
}

func (w *wire) Header() http.Header { return w.header }
func (w *wire) WriteHeader(int)     {}
func (w *wire) Flush()              {}

func (w *wire) SetReadDeadline(at time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.read = append(w.read, at)
	return nil
}

func (w *wire) SetWriteDeadline(at time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.write = append(w.write, at)
	if !at.IsZero() {
		close(w.cut)
	}
	return nil
}

func (w *wire) Write(b []byte) (int, error) {
	if w.stalls {
		<-w.cut
		return 0, os.ErrDeadlineExceeded
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(b)
}

// followOn runs a stream of the log on the wire until the test ends it.
func followOn(ctx context.Context, t *testing.T, w *wire) (over <-chan struct{}) {
	t.Helper()
	j, err := supervisor.OpenJournal(filepath.Join(t.TempDir(), "journal.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	if err := j.Write(line("T-1", 1)); err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/log", nil)
	r.Header.Set("Accept", "text/event-stream")
	done := make(chan struct{})
	go func() {
		defer close(done)
		(&Server{Journal: j}).log(w, r)
	}()
	return done
}

func TestStreamsOutlastTheLimitsOfOrdinaryAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := &wire{header: http.Header{}, cut: make(chan struct{})}
		over := followOn(ctx, t, w)
		time.Sleep(10 * time.Minute) // of the bubble's time
		synctest.Wait()
		w.mu.Lock()
		if len(w.read) != 1 || !w.read[0].IsZero() || len(w.write) != 1 || !w.write[0].IsZero() {
			t.Errorf("the deadlines are %v and %v", w.read, w.write)
		}
		if n := strings.Count(w.text.String(), ": still here\n\n"); n != 40 {
			t.Errorf("it gave %d signs of life, want 40", n)
		}
		w.mu.Unlock()
		cancel()
		<-over
	})
}

func TestStalledStreamIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{header: http.Header{}, cut: make(chan struct{}), stalls: true}
		start := time.Now()
		<-followOn(t.Context(), t, w)
		if took := time.Since(start); took != stallTime {
			t.Errorf("it took %s, want %s", took, stallTime)
		}
	})
}
