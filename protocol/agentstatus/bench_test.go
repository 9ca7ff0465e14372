package agentstatus

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
)

// hinted measures one event among n finished tasks: one task's request is rewritten and scanned.
func hinted(b *testing.B, n int) {
	s := newSite(b, around+file(requestPath, requestText))
	s.finish(n, 2*time.Minute, "completed")
	look := func(hints []string) *protocol.Snapshot {
		now := time.Now().Add(time.Minute)
		snap := s.p.Observe(b.Context(), protocol.ScanOrder{Now: now, Hints: hints, Since: now.Add(-time.Hour)})
		return &snap
	}
	for range 3 {
		look(nil)
	}
	text := [2]string{requestText, strings.Replace(requestText, "ship it", "ship it now", 1)}
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		i++
		s.Do(os.WriteFile(s.Path(requestPath), []byte(text[i%2]), 0o640))
		b.StartTimer()
		snap := look([]string{requestPath})
		b.StopTimer()
		found := false
		for j := range snap.Tasks {
			found = found || snap.Tasks[j].ID == taskID && (snap.Tasks[j].Directive == "ship it") == (i%2 == 0)
		}
		if !found {
			b.Fatal("the event was missed")
		}
		b.StartTimer()
	}
}

func BenchmarkObserveHint100(b *testing.B)  { hinted(b, 100) }
func BenchmarkObserveHint100k(b *testing.B) { hinted(b, 100_000) }

// BenchmarkObserveFirst100k is the first scan of a project with 100,000 tasks that ended long ago.
func BenchmarkObserveFirst100k(b *testing.B) {
	s := newSite(b, around+file(requestPath, requestText))
	s.finish(100_000, 3*time.Hour, "completed")
	b.ReportAllocs()
	for b.Loop() {
		s.reopen()
		s.p.Observe(b.Context(), protocol.ScanOrder{Now: s.Now, Since: s.Now.Add(-time.Hour)})
	}
}

// BenchmarkObserveFullIdle is a full scan of 20 agents and 10 open tasks when nothing changed.
func BenchmarkObserveFullIdle(b *testing.B) {
	s := newSite(b, around)
	s.finish(2_000, 2*time.Minute, "completed")
	for i := range 10 {
		id := numbered(1<<30 + i)
		s.Write(Base+"/"+taskFile(id, requestExt), strings.Replace(requestText, taskID, id, 1))
	}
	for i := range 20 {
		s.Write(fmt.Sprintf("%s/w%d_status/heartbeat.json", Base, i), beatText(fmt.Sprint("w", i)))
	}
	now := time.Now().Add(time.Minute)
	look := protocol.ScanOrder{Now: now, Since: now.Add(-time.Hour)}
	for range 3 {
		s.p.Observe(b.Context(), look)
	}
	b.ReportAllocs()
	for b.Loop() {
		s.p.Observe(b.Context(), look)
	}
}

// counted measures a full scan after one file was added or removed among n tasks that finished long ago. Only the
// listing of the folder may grow with n.
func counted(b *testing.B, n int) {
	s := newSite(b, around+file(requestPath, requestText))
	s.finish(n, 3*time.Hour, "completed")
	now := time.Now().Add(time.Minute)
	look := func() int {
		snap := s.p.Observe(b.Context(), protocol.ScanOrder{Now: now, Since: now.Add(-time.Hour)})
		return len(snap.Tasks)
	}
	for range 3 {
		look()
	}
	other := strings.Replace(requestPath, taskID, numbered(1<<30), 1)
	there := 0
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		if there = 1 - there; there == 1 {
			s.Write(other, strings.Replace(requestText, taskID, numbered(1<<30), 1))
		} else {
			s.Do(os.Remove(s.Path(other)))
		}
		b.StartTimer()
		if got := look(); got != 1+there {
			b.Fatalf("%d tasks, want %d", got, 1+there)
		}
	}
}

func BenchmarkObserveFullChanged100(b *testing.B)  { counted(b, 100) }
func BenchmarkObserveFullChanged100k(b *testing.B) { counted(b, 100_000) }

// BenchmarkBoot boots both agents in a new project, as two runs of `steward boot` do.
func BenchmarkBoot(b *testing.B) {
	for b.Loop() {
		dir := b.TempDir()
		for i, agent := range KnownAgents() {
			p := New(dir, Options{})
			if err := p.Prepare(b.Context(), boot(agent, 100+i, time.Now())); err != nil {
				b.Fatal(err)
			}
			p.Close()
		}
	}
}

// BenchmarkBootScripts does the same with the two boot scripts of protocol 000.
func BenchmarkBootScripts(b *testing.B) {
	if _, err := exec.LookPath("python3"); err != nil {
		b.Skip("python3 is not installed")
	}
	for b.Loop() {
		dir, err := os.MkdirTemp(b.TempDir(), "")
		if err != nil {
			b.Fatal(err)
		}
		runScripts(b, filepath.Clean(dir))
	}
}
