package handoffs

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
)

// benchmarkHinted measures one event among n finished handoffs: an open one is rewritten and scanned with a hint.
func benchmarkHinted(b *testing.B, n int) {
	s := newSite(b, file(statePath, stateDocOf(`"builder": {"status": "active", "last_active": "{{now}}"}`, ""))+file(boxPath(pending, id), task(id, "pending")))
	s.Do(os.MkdirAll(s.Path(Base+"/handoffs/completed"), 0o755))
	for i := range n {
		s.Do(os.WriteFile(s.Path(boxPath(completed, fmt.Sprint("c", i))), []byte(task(fmt.Sprint("c", i), "completed")), 0o640))
	}
	look := func(hints []string) *protocol.Snapshot {
		now := time.Now().Add(time.Hour)
		snap := s.p.Observe(b.Context(), protocol.ScanOrder{Now: now, Hints: hints, Since: now.Add(-time.Minute)})
		return &snap
	}
	for range 3 {
		look(nil)
	}
	text := [2]string{task(id, "pending"), strings.Replace(task(id, "pending"), "do it", "do it now", 1)}
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		i++
		s.Do(os.WriteFile(s.Path(boxPath(pending, id)), []byte(text[i%2]), 0o640))
		b.StartTimer()
		snap := look([]string{boxPath(pending, id)})
		b.StopTimer()
		if k := taskOf(snap, id); k == nil || (k.Title == "do it") != (i%2 == 0) {
			b.Fatal("the event was missed")
		}
		b.StartTimer()
	}
}

func BenchmarkObserveHint100(b *testing.B) { benchmarkHinted(b, 100) }
func BenchmarkObserveHint10k(b *testing.B) { benchmarkHinted(b, 10_000) }

// BenchmarkObserveFull10k measures a full scan when nothing has changed.
func BenchmarkObserveFull10k(b *testing.B) {
	s := newSite(b, file(statePath, stateDocOf("", "")))
	s.Do(os.MkdirAll(s.Path(Base+"/handoffs/completed"), 0o755))
	for i := range 10_000 {
		s.Do(os.WriteFile(s.Path(boxPath(completed, fmt.Sprint("c", i))), []byte(task(fmt.Sprint("c", i), "completed")), 0o640))
	}
	now := time.Now().Add(time.Hour)
	look := func() { s.p.Observe(b.Context(), protocol.ScanOrder{Now: now, Since: now.Add(-time.Minute)}) }
	look()
	look()
	b.ReportAllocs()
	for b.Loop() {
		look()
	}
}
