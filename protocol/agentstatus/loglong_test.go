package agentstatus

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// Of a log that is longer than logTail only the end is read. The snapshot says since when, because the rest may have lines
// about the same tasks.
func TestLogTooLongToRead(t *testing.T) {
	line := func(n int, at time.Time) string {
		return fmt.Sprintf(`{"timestamp": %q, "event_type": "note", "source_agent": "codex-cursor", "task_id": "t-%d", "message": %q}`+"\n",
			at.UTC().Format(time.RFC3339), n, strings.Repeat("x", 1000))
	}
	begin := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	for name, lines := range map[string]int{"short": 100, "long": logTail/1000 + 100} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			for n := range lines {
				log.WriteString(line(n, begin.Add(time.Duration(n^63)*time.Second))) // written in another order than it happened
			}
			s := newSite(t, around+file(requestPath, requestText))
			s.Do(os.WriteFile(s.Path(Base+"/"+logFile), []byte(log.String()), 0o644))
			snap := s.look()
			if name == "short" && !snap.LogSince.IsZero() {
				t.Errorf("the whole log was read, but it counts since %v", snap.LogSince)
			}
			cut := strings.Count(log.String()[:max(0, log.Len()-logTail)], "\n")
			for n := range cut {
				if at := begin.Add(time.Duration(n^63) * time.Second); at.After(snap.LogSince) {
					t.Errorf("the line %d, of %v, was not read, but the log counts since %v", n, at, snap.LogSince)
				}
			}
			if name == "long" && (cut == 0 || snap.LogSince.After(begin.Add(time.Hour))) {
				t.Errorf("%d lines were not read; the log counts since %v", cut, snap.LogSince)
			}
		})
	}
}
