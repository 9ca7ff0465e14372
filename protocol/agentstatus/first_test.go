package agentstatus

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
)

func (s *site) record() {
	s.T.Helper()
	s.Do(s.apply(resultRecord(s.look(), s.Now)))
}

// wantFirst files the late result and expects the completed result in its place.
func (s *site) wantFirst(late string) {
	s.T.Helper()
	k := only(s.T, s.look())
	if k.Late == nil || k.Outcome == nil || !k.Outcome.Succeeded() {
		s.T.Fatalf("late %v, outcome %+v", k.Late, k.Outcome)
	}
	c := about(k, protocol.VerbFile)
	c.Ref = *k.Late
	s.Do(s.apply(c))
	if k = only(s.T, s.look()); k.Late != nil || k.Outcome == nil || !k.Outcome.Succeeded() || k.Outcome.Unrecorded {
		s.T.Fatalf("put back: late %v, outcome %+v", k.Late, k.Outcome)
	}
	if s.Read(resultPath) != completedText || s.Read(attempt(1, "late")) != late {
		s.T.Fatalf("result:\n%s\nlate:\n%s", s.Read(resultPath), s.Read(attempt(1, "late")))
	}
}

// A second result does not replace the first result, even if it came while steward was not running.
func TestTheFirstResultStands(t *testing.T) {
	for name, restart := range map[string]bool{"running": false, "restarted": true} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, around+file(requestPath, requestText)+file(resultPath, completedText))
			if k := only(t, s.look()); !k.Outcome.Unrecorded {
				t.Fatal("it is recorded already")
			}
			s.record()
			if restart {
				s.p.Close()
			}
			s.Write(resultPath, resultText)
			if restart {
				s.reopen()
			}
			s.wantFirst(resultText)
		})
	}
}

// The next request under the same id comes before the first result is on record; its own result follows.
func TestARequestBeforeTheRecord(t *testing.T) {
	for name, seen := range map[string]bool{"unseen": false, "seen": true} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, around+file(requestPath, requestText)+file(resultPath, completedText))
			judged := resultRecord(s.look(), s.Now)
			time.Sleep(20 * time.Millisecond) // file stamps move in steps
			s.Write(requestPath, strings.Replace(requestText, "\"priority\"", "\"again\": 2, \"priority\"", 1))
			if seen {
				s.look(requestPath)
			}
			_ = s.apply(judged)
			s.Write(resultPath, resultText)
			if k := only(t, s.look()); k.Late != nil || k.Outcome == nil || k.Outcome.Succeeded() {
				t.Errorf("late %v, outcome %+v", k.Late, k.Outcome)
			}
		})
	}
}

// The next request under the same id is written over a finished request, and is scanned while the old result still
// lies there.
func TestARequestOverAFinishedOne(t *testing.T) {
	s := newSite(t, around+file(requestPath, requestText)+file(resultPath, completedText))
	s.record()
	time.Sleep(20 * time.Millisecond) // file stamps move in steps
	s.Write(requestPath, strings.Replace(requestText, "created_at\": \"2026-01-02T03:04:05Z", "created_at\": \"2026-01-02T04:04:05Z", 1))
	if k := only(t, s.look()); k.Outcome == nil || k.Outcome.Unrecorded {
		t.Fatalf("the old result would be recorded as the answer to the new request: %+v", k.Outcome)
	}
	s.Write(resultPath, resultText)
	if k := only(t, s.look()); k.Late != nil || k.Outcome == nil || k.Outcome.Succeeded() || !k.Outcome.Unrecorded {
		t.Errorf("late %v, outcome %+v", k.Late, k.Outcome)
	}
}

// The first agent of a retried task wakes up after attempt 2 has completed.
func TestALateFailureAfterARetry(t *testing.T) {
	s := newSite(t, around+file(requestPath, requestText)+file(resultPath, resultText))
	s.Do(s.apply(retryChange(only(t, s.look()), s.Now, 0)))
	s.Write(resultPath, completedText)
	s.record()
	again := strings.Replace(resultText, "03:09:05", "03:10:05", 1)
	s.Write(resultPath, again)
	s.wantFirst(again)
}

// A client that adds a key to the result has not written another result.
func TestAMarkOnTheResult(t *testing.T) {
	s := newSite(t, around+file(requestPath, requestText)+file(resultPath, completedText))
	s.record()
	s.Write(resultPath, strings.Replace(completedText, `"x": 1`, `"read": true`, 1))
	if k := only(t, s.look()); k.Late != nil || k.Outcome.Unrecorded {
		t.Errorf("late %v, %+v", k.Late, k.Outcome)
	}
}

// A client that removes the result wants another run, and the result of that run counts.
func TestTheResultIsRemoved(t *testing.T) {
	s := newSite(t, around+file(requestPath, requestText)+file(resultPath, completedText))
	s.record()
	s.Do(os.Remove(s.Path(resultPath)))
	k := only(t, s.look())
	if !k.Reopened || !k.Visible {
		t.Fatalf("%+v", k)
	}
	s.Do(s.apply(about(k, protocol.VerbRecord)))
	s.Write(resultPath, resultText)
	if k = only(t, s.look()); k.Reopened || k.Late != nil || k.Outcome == nil || k.Outcome.Status != "failed" || !k.Outcome.Unrecorded {
		t.Errorf("%+v, %+v", k, k.Outcome)
	}
}

// An unreadable record grants no extra attempts.
func TestTheRecordIsDamaged(t *testing.T) {
	s := newSite(t, around+file(requestPath, requestText)+file(resultPath, completedText))
	s.record()
	s.Write(Base+"/"+finalFile(taskID), "{}")
	s.Write(resultPath, resultText)
	if k := only(t, s.look()); k.Late != nil || k.Outcome == nil || !k.Outcome.Sealed || k.Outcome.Unrecorded {
		t.Errorf("%+v, %+v", k, k.Outcome)
	}
}

// A record that cannot be opened for the moment is not taken for the record of an older request, and stays in place.
func TestTheRecordCannotBeOpened(t *testing.T) {
	s := newSite(t, around+file(requestPath, requestText)+file(resultPath, completedText))
	s.record()
	record := s.Path(Base + "/" + finalFile(taskID))
	s.Do(os.Rename(record, record+".aside"))
	s.Do(os.Mkdir(record, 0o755))
	if k := only(t, s.look()); k.Outcome == nil || !k.Outcome.Sealed || k.Outcome.Unrecorded {
		t.Errorf("%+v", k.Outcome)
	}
}

// A record that is being written, or cannot be read for the moment, is waited for.
func TestTheRecordIsTorn(t *testing.T) {
	s := newSite(t, around+file(requestPath, requestText)+file(resultPath, completedText))
	s.record()
	record := s.Read(Base + "/" + finalFile(taskID))
	s.Write(Base+"/"+finalFile(taskID), record[:40])
	if k := only(t, s.look()); k.Outcome == nil || !k.Outcome.Unread || k.Outcome.Sealed || k.Outcome.Unrecorded {
		t.Errorf("torn: %+v", k.Outcome)
	}
	s.Write(Base+"/"+finalFile(taskID), record)
	if k := only(t, s.look()); k.Outcome == nil || k.Outcome.Unread || k.Outcome.Sealed || k.Outcome.Unrecorded {
		t.Errorf("whole: %+v", k.Outcome)
	}
}

// Attempt 1 was taken for lost, and its agent wakes up while attempt 2 runs. A completed result of attempt 1 counts.
// A failed result is filed if its run began before attempt 2, and only once, because only one attempt was lost.
func TestAResultOfALostAttempt(t *testing.T) {
	lost := func(t *testing.T) *site {
		s := newSite(t, around+file(requestPath, requestText))
		c := about(only(t, s.look()), protocol.VerbConclude)
		c.Code = "AGENT_LOST"
		s.Do(s.apply(c))
		s.Do(s.apply(retryChange(only(t, s.look()), s.Now, 0)))
		if k := only(t, s.look()); !k.Visible || k.Attempt() != 2 {
			t.Fatalf("attempt 2: %+v", k)
		}
		return s
	}
	t.Run("completed", func(t *testing.T) {
		s := lost(t)
		s.Write(resultPath, completedText)
		if k := only(t, s.look()); k.Outcome == nil || !k.Outcome.Succeeded() || k.Late != nil {
			t.Errorf("%+v", k)
		}
	})
	t.Run("failed", func(t *testing.T) {
		s := lost(t)
		for i := range 2 {
			s.Write(resultPath, resultText) // its execution time is 12 s
			k := only(t, s.look())
			if (i == 0) != (k.Late != nil && k.Outcome == nil) {
				t.Fatalf("time %d: late %v, outcome %+v", i+1, k.Late, k.Outcome)
			}
			if i > 0 {
				break
			}
			c := about(k, protocol.VerbFile)
			c.Ref = *k.Late
			s.Do(s.apply(c))
			if k = only(t, s.look()); !k.Visible || k.Attempt() != 2 {
				t.Fatalf("attempt 2 goes on: %+v", k)
			}
		}
	})
	t.Run("failed at once", func(t *testing.T) {
		s := lost(t)
		s.Write(resultPath, strings.Replace(resultText, `"execution_time_seconds": 12`, `"execution_time_seconds": 0.1`, 1))
		if k := only(t, s.look()); k.Outcome == nil || k.Late != nil {
			t.Errorf("attempt 2 failed: %+v", k)
		}
	})
	t.Run("in hand", func(t *testing.T) {
		s := lost(t)
		claim := file(Base+"/"+claimPath(taskID), `{"task_id": "`+taskID+`", "agent": "codex-cursor", "mark": "m", "attempt": 2, "claimed_at": "`+
			s.Now.Add(-time.Minute).UTC().Format(time.RFC3339)+`", "worker": {"pid": 7, "start": "1", "boot": "b", "uid": 1}}`)
		name, text, _ := strings.Cut(strings.TrimPrefix(claim, "-- "), " --\n")
		s.Write(name, text)
		s.Write(resultPath, strings.Replace(resultText, `"execution_time_seconds": 12`, `"execution_time_seconds": 0.1`, 1))
		if k := only(t, s.look()); k.Outcome != nil {
			t.Errorf("at once: %+v", k.Outcome)
		}
		if k := only(t, s.at(time.Now().Add(5*time.Second))); k.Outcome != nil || k.Late == nil {
			t.Errorf("after a while: late %v, outcome %+v", k.Late, k.Outcome)
		}
	})
}
