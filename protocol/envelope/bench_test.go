package envelope

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
)

// finish writes n tasks of two messages each that ended some time ago.
func (s *site) finish(n int, ago time.Duration) {
	s.T.Helper()
	s.Do(os.MkdirAll(s.Path(messagesDir), 0o755))
	at := s.Now.Add(-ago)
	for i := range n {
		id := fmt.Sprintf("done_%05d", i)
		for j, f := range []fields{assign(id, "DEVELOPER"), complete(id, "DEVELOPER", true)} {
			sent := at.Add(time.Duration(j) * time.Second)
			name := s.Path(fmt.Sprintf("%s/%s_%d.json", messagesDir, id, j))
			s.Do(os.WriteFile(name, []byte(f.with(fields{"timestamp": sent.UTC().Format(time.RFC3339)}).String()), 0o644))
			s.Do(os.Chtimes(name, sent, sent))
		}
	}
}

// BenchmarkHinted measures a scan with one hint, beside 10,000 finished tasks (20,000 messages), ten open ones and a
// deployment.
func BenchmarkHinted(b *testing.B) { benchmarkLook(b, false) }

// BenchmarkFullIdle measures a full scan of the same project when nothing has changed.
func BenchmarkFullIdle(b *testing.B) { benchmarkLook(b, true) }

func benchmarkLook(b *testing.B, full bool) {
	s := newSite(b, "")
	s.finish(10_000, time.Hour)
	var last string
	for i := range 10 {
		last = s.send(assign(fmt.Sprint("open_", i), "DEVELOPER").with(fields{"blocked_by": "done_00001"}))
	}
	s.send(assign("deploy", "DEPLOYMENT"))
	now := s.Now.Add(time.Minute)
	look := protocol.ScanOrder{Now: now, Since: now.Add(-time.Minute)}
	for range 2 {
		s.p.Observe(b.Context(), look)
	}
	if !full {
		look.Hints = []string{last}
	}
	b.ReportAllocs()
	for b.Loop() {
		s.p.Observe(b.Context(), look)
	}
}
