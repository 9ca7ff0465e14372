package agentstatus

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
)

// A client that had the registry open while steward marked an agent writes into the replaced inode. Its write is
// merged, the mark stays in effect, and other writers' entries stay.
func TestLateWritesToTheRegistry(t *testing.T) {
	for _, meanwhile := range []bool{false, true} {
		s := newSite(t, around)
		old, err := os.OpenFile(s.Path(Base+"/"+registry), os.O_RDWR, 0)
		s.Do(err)
		a, _ := s.look().Agent(codex)
		s.Do(s.apply(protocol.Change{Verb: protocol.VerbMark, Subject: protocol.Subject{Kind: protocol.KindAgent, ID: codex}, Judged: protocol.Judged{Ref: a.Ref}, Status: "error", Reason: protocol.ReasonSilent}))
		if meanwhile {
			s.Do(s.p.Prepare(t.Context(), boot("third", 3, s.Now)))
		}
		s.Do(old.Truncate(0))
		text := strings.Replace(registryText, `"status": "idle"`, `"status": "busy"`, 1)
		_, err = old.WriteAt([]byte(text[:80]), 0)
		s.Do(err)
		if snap := s.at(s.Now.Add(100 * time.Millisecond)); snap.Again.IsZero() || len(snap.Faults) > 0 {
			t.Errorf("half of it is written: again %v, %+v", snap.Again, snap.Faults)
		}
		_, err = old.WriteAt([]byte(text), 0)
		s.Do(errors.Join(err, old.Close()))
		snap := s.at(s.Now.Add(200 * time.Millisecond))
		a, _ = snap.Agent(codex)
		l, _ := snap.Agent(livhana)
		x, there := snap.Agent("third")
		third := there && x.Recorded == "active"
		if a.Recorded != "error" || l.Recorded != "busy" || third != meanwhile {
			t.Errorf("meanwhile %v: codex %q, livhana %q, third %v\n%s", meanwhile, a.Recorded, l.Recorded, third, s.Read(Base+"/"+registry))
		}
		if snap := s.at(s.Now.Add(10 * time.Second)); !snap.Again.IsZero() || s.p.Watched() > 0 {
			t.Errorf("still watched: %v, %d", snap.Again, s.p.Watched())
		}
	}
}

// After the folder was recreated, late writes to the old folder's files are ignored.
func TestLateWritesToAnotherFolder(t *testing.T) {
	s := newSite(t, around)
	a, _ := s.look().Agent(codex)
	old, err := os.OpenFile(s.Path(Base+"/"+registry), os.O_RDWR, 0)
	s.Do(err)
	defer old.Close()
	s.Do(s.apply(protocol.Change{Verb: protocol.VerbMark, Subject: protocol.Subject{Kind: protocol.KindAgent, ID: codex}, Judged: protocol.Judged{Ref: a.Ref}, Status: "error"}))
	s.Do(os.Rename(s.Path(Base), s.Path("tmp/old")))
	s.Write(Base+"/"+registry, `{"updated_at":"2026-01-02T03:04:05Z","agents":{}}`)
	_, err = old.WriteAt([]byte(strings.Replace(registryText, "idle", "busy", 1)), 0)
	s.Do(err)
	if snap := s.look(); len(snap.Agents) > 0 {
		t.Errorf("agents %s", agentNames(snap))
	}
}

// If the orchestrator rewrites a request while a hold hides the old one, the new request runs and the old request
// stays on record.
func TestRetryBesideARequestWrittenAnew(t *testing.T) {
	s := newSite(t, around+file(requestPath, requestText))
	holdFirst(t, s.p, s.Dir, s.Now)
	s.Write(requestPath, grown(77))
	s.Write(resultPath, resultText)
	k := only(t, s.look())
	s.Do(s.apply(retryChange(k, s.Now, time.Hour)))
	if k = only(t, s.look()); k.Hold == nil || k.Hold.Half || k.Timeout != 154*time.Second || s.Read(attempt(1, "held")) != requestText {
		t.Errorf("%+v, hold %+v", k, k.Hold)
	}
}

// One id used twice: the archived result belongs to the archived request, not to the new request.
func TestAnIDIsUsedAgain(t *testing.T) {
	s := newSite(t, around+file(archiveReq, requestText)+file(archiveRes, strings.Replace(resultText, "failed", "completed", 1)))
	if k := only(t, s.look()); k.Outcome == nil || !k.Outcome.Archived || k.Visible {
		t.Fatalf("archived: %+v", k)
	}
	s.Write(requestPath, requestText)
	if k := only(t, s.look()); k.Outcome != nil || !k.Visible {
		t.Errorf("asked for again: %+v", k)
	}
	s.Do(s.apply(holdChange(only(t, s.look()), s.Now)))
	if k := only(t, s.look()); k.Outcome != nil || k.Hold == nil || k.Hold.Half {
		t.Errorf("held: %+v", k)
	}
	s.Do(s.apply(about(only(t, s.look()), protocol.VerbRelease)))
	s.Write(resultPath, resultText)
	if k := only(t, s.look()); k.Outcome == nil || k.Outcome.Status != "failed" || k.Late != nil {
		t.Errorf("ended again: %+v", k)
	}
}

func TestAResultWithoutARequest(t *testing.T) {
	s := newSite(t, around+file(resultPath, resultText))
	k := only(t, s.look())
	if k.Ref.Path != "" || k.Outcome == nil || k.Agent != codex || k.Visible {
		t.Errorf("%+v", k)
	}
	c := retryChange(k, s.Now, 0)
	if err := s.apply(c); err == nil || errors.Is(err, protocol.ErrConflict) {
		t.Errorf("retry without a request: %v", err)
	}
	if s.Read(resultPath) != resultText {
		t.Error("the result is gone")
	}
}

// A running task is never held, even if its agent started it just before the hold.
func TestHoldOfOneInFlight(t *testing.T) {
	s := newSite(t, around+file(requestPath, requestText))
	k := only(t, s.look())
	s.Write(progressPath(), progressText)
	if err := s.apply(holdChange(k, s.Now)); !errors.Is(err, protocol.ErrConflict) {
		t.Errorf("with progress: %v", err)
	}
	past := time.Now().Add(-time.Hour)
	s.Do(os.Chtimes(s.Path(progressPath()), past, past)) // left by an earlier attempt
	s.Do(s.apply(holdChange(k, s.Now)))
	if k = only(t, s.look()); k.Hold == nil || k.Hold.Half {
		t.Errorf("hold %+v", k.Hold)
	}
	n := s.Read(noticePath)
	for _, want := range []string{`"status": "deferred"`, `"reason": "capacity_exceeded"`, `"retry_after_seconds": 60`, `"dimension": "memory"`, `"load": 0.93`, `"threshold": 0.8`, `"not_before": "`, `"release_by": "`, `"release_command": "steward release ` + taskID} {
		if !strings.Contains(n, want) {
			t.Errorf("the notice lacks %s:\n%s", want, n)
		}
	}
}

// A crash between the steps of a cancellation is shown as a half hold, so that the next scan completes it.
func TestHalfACancellation(t *testing.T) {
	for _, held := range []bool{false, true} {
		s := newSite(t, around+file(requestPath, requestText))
		if held {
			holdFirst(t, s.p, s.Dir, s.Now)
		}
		_ = s.look()
		s.Write(Base+"/"+cancelledFile(taskID), "{}\n")
		k := only(t, s.look())
		if k.Hold == nil || !k.Hold.Half || !k.Cancelled {
			t.Fatalf("held %v: %+v", held, k.Hold)
		}
		s.Do(s.apply(about(k, protocol.VerbRelease)))
		if k = only(t, s.look()); k.Hold != nil || k.Outcome == nil || k.Outcome.Failures[0].Code != "CANCELLED" || k.Visible {
			t.Errorf("held %v: %+v", held, k)
		}
		s.Do(os.Remove(s.Path(resultPath)))
		s.Do(os.Remove(s.Path(requestPath)))
		_ = s.look()
		s.Write(requestPath, requestText)
		if k = only(t, s.look()); k.Hold != nil || !k.Visible {
			t.Errorf("held %v: asked for anew after the cancellation: %+v", held, k)
		}
	}
}

func TestOurOwnResultKeepsTheSchema(t *testing.T) {
	s := newSite(t, around+file(requestPath, requestText))
	c := about(only(t, s.look()), protocol.VerbConclude)
	c.Code = "AGENT_LOST"
	s.Do(s.apply(c))
	if got := issuesOf(t, "result", s.Read(resultPath)); len(got) > 0 {
		t.Errorf("%+v", got)
	}
	// The client's real result, written over steward's result, counts from then on.
	s.Write(resultPath, strings.Replace(resultText, "failed", "completed", 1))
	if k := only(t, s.look()); k.Outcome.Ours || !k.Outcome.Succeeded() {
		t.Errorf("%+v", k.Outcome)
	}
}

func TestDraftsOfACrashAreSwept(t *testing.T) {
	s := newSite(t, around+file(requestPath, requestText))
	draft := filepath.Join(s.Path(Base+"/"+tasksDir), ".steward-XYZ.tmp")
	s.Do(os.WriteFile(draft, nil, 0o600))
	s.Now = s.Now.Add(2 * time.Minute)
	s.Do(s.apply(holdChange(only(t, s.look()), s.Now)))
	if _, err := os.Stat(draft); !os.IsNotExist(err) {
		t.Errorf("the draft is still there: %v", err)
	}
}

func TestPublish(t *testing.T) {
	s := newSite(t, file("README", "x\n"))
	if err := s.p.Publish([]byte("{}\n")); err == nil {
		t.Error("published without a folder")
	}
	s.Write(Base+"/"+registry, registryText)
	s.Do(s.p.Publish([]byte(`{"a":1}`)))
	s.Do(s.p.Publish([]byte(`{"a":2}`)))
	if got := s.Read(Base + "/" + capacityDoc); got != `{"a":2}` {
		t.Errorf("%q", got)
	}
}

func TestConcludeOfARequestThatChanged(t *testing.T) {
	s := newSite(t, around+file(requestPath, requestText))
	c := about(only(t, s.look()), protocol.VerbConclude)
	s.Write(requestPath, grown(77))
	if err := s.apply(c); !errors.Is(err, protocol.ErrConflict) {
		t.Errorf("got %v", err)
	}
}

// A client that archives only the result leaves a request that no agent must take.
func TestOnlyTheResultIsArchived(t *testing.T) {
	s := newSite(t, around+file(requestPath, requestText)+file(archiveRes, resultText))
	if k := only(t, s.look()); k.Visible || k.Outcome == nil || !k.Outcome.Archived {
		t.Errorf("%+v", k)
	}
}

// A retry that was interrupted after its commit is completed when it is applied again once it is due.
func TestRetryGoesOnAfterItsCommit(t *testing.T) {
	s := newSite(t, around+file(requestPath, requestText)+file(resultPath, resultText))
	c := retryChange(only(t, s.look()), s.Now, time.Hour)
	s.Do(s.apply(c))
	s.Do(s.apply(c))
	if k := only(t, s.look()); k.Hold == nil {
		t.Errorf("shown too early: %+v", k)
	}
	s.Now = s.Now.Add(2 * time.Hour)
	s.Do(s.apply(c))
	if k := only(t, s.look()); k.Hold != nil || !k.Visible {
		t.Errorf("%+v", k)
	}
}
