package agentstatus

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
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

// A task whose task_created line lies before the part of the log that is read gets no second line, although its request
// appeared again later: steward renamed it for a hold or a retry, which changes its change time.
func TestTaskOlderThanTheReadLog(t *testing.T) {
	line := func(event, id string, at time.Time, text string) string {
		return fmt.Sprintf(`{"timestamp": %q, "event_type": %q, "source_agent": "codex-cursor", "task_id": %q, "message": %q}`+"\n",
			at.UTC().Format(time.RFC3339), event, id, text)
	}
	young := "00000009-1111-4111-8111-111111111111"
	s := newSite(t, around+file(requestPath, requestText)+
		file(strings.Replace(requestPath, taskID, young, 1), strings.NewReplacer(taskID, young, "2026-01-02T03:04:05Z", time.Now().UTC().Format(time.RFC3339)).Replace(requestText)))
	request, old := s.Path(requestPath), s.Now.Add(-time.Hour)
	s.Do(os.Chtimes(request, old, old)) // its change time is now
	var log strings.Builder
	log.WriteString(line("task_created", taskID, old, "m"))
	for n := range logTail/1000 + 100 {
		log.WriteString(line("note", "", old.Add(time.Duration(n/1000)*time.Minute), strings.Repeat("x", 1000)))
	}
	s.Do(os.WriteFile(s.Path(Base+"/"+logFile), []byte(log.String()), 0o644))
	snap := s.look()
	if !snap.LogSince.After(old) {
		t.Fatalf("the log counts since %v", snap.LogSince)
	}
	for _, task := range snap.Tasks {
		if got := task.HasLogged("task_created"); got != (task.ID == taskID) {
			t.Errorf("task %s: logged: %t", task.ID, got)
		}
	}
	s.Do(s.apply(protocol.Change{Verb: protocol.VerbLog, Reason: protocol.ReasonSeen, Entry: protocol.Entry{Event: "task_created"}, Agent: "codex-cursor", Why: "Task created",
		Subject: protocol.Subject{Kind: protocol.KindTask, ID: taskID}}))
	if n := strings.Count(s.Read(Base+"/"+logFile), `"task_created"`); n != 1 {
		t.Errorf("the log has %d lines about the creation", n)
	}
}
