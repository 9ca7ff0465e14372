package agentstatus

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/protocol/protocoltest"
)

// A torn file keeps its last good value, requests another scan, and becomes a fault only after two seconds.
func TestTornBecomesAFault(t *testing.T) {
	s := newSite(t, around+file(requestPath, requestText))
	sum := only(t, s.look()).Ref.Sum
	half := requestText[:100]
	s.Write(requestPath, half)
	begin := s.Now.Add(time.Second)
	for _, step := range []struct {
		after time.Duration
		fault bool
	}{{0, false}, {60 * time.Millisecond, false}, {time.Second, false}, {1900 * time.Millisecond, false}, {2100 * time.Millisecond, true}, {10 * time.Second, true}} {
		now := begin.Add(step.after)
		snap := s.at(now, requestPath)
		k := only(t, snap)
		if k.Ref.Sum != sum || !k.Visible {
			t.Fatalf("after %v the last good value is gone: %+v", step.after, k)
		}
		if snap.Again.IsZero() || snap.Again.After(now.Add(5*time.Second)) {
			t.Errorf("after %v: next look asked for at %v", step.after, snap.Again)
		}
		f := protocoltest.FaultAt(snap, requestPath)
		if (f != nil) != step.fault {
			t.Errorf("after %v: fault %+v", step.after, f)
		}
		if f != nil && (!f.Since.Equal(begin) || f.Problem == "" || f.Hint == "") {
			t.Errorf("after %v: %+v", step.after, f)
		}
	}
	s.Now = begin.Add(20 * time.Second)
	s.Write(requestPath, requestText)
	if snap := s.look(); len(snap.Faults) > 0 || !snap.Again.IsZero() {
		t.Errorf("repaired: %+v, again %v", snap.Faults, snap.Again)
	}
	s.Write(requestPath, half)
	_ = s.look()
	s.Now = s.Now.Add(3 * time.Second)
	if protocoltest.FaultAt(s.look(), requestPath) == nil {
		t.Fatal("no fault")
	}
	s.Do(os.Remove(s.Path(requestPath)))
	if snap := s.look(); len(snap.Faults) > 0 || len(snap.Tasks) > 0 {
		t.Errorf("removed: %+v", snap)
	}
}

func TestIDsThatDiffer(t *testing.T) {
	s := newSite(t, around+file(requestPath, strings.Replace(requestText, "c001", "c002", 1)))
	first := s.look()
	f := protocoltest.FaultAt(first, requestPath)
	if f == nil || len(first.Tasks) > 0 || f.Hint == "" || !strings.Contains(f.Problem, "c002") {
		t.Fatalf("%+v %+v", first.Tasks, first.Faults)
	}
	s.Write(requestPath, strings.Replace(requestText, "c001", "c002", 1)) // rewritten, still wrong
	s.Now = s.Now.Add(time.Minute)
	if g := protocoltest.FaultAt(s.look(), requestPath); g == nil || !g.Since.Equal(f.Since) {
		t.Errorf("since %v, was %v", g, f.Since)
	}
	s.Write(requestPath, requestText)
	if snap := s.look(); len(snap.Faults) > 0 || len(snap.Tasks) != 1 {
		t.Errorf("corrected: %+v", snap.Faults)
	}
}

func TestNamesThatCannotBeUsed(t *testing.T) {
	s := newSite(t, around)
	tasks := s.Path(Base + "/" + tasksDir)
	long := strings.Repeat("x", 220)
	for _, id := range []string{"", "..", ".hidden", "a\nb", "a\x01b", long} {
		s.Do(os.WriteFile(filepath.Join(tasks, "task_"+id+requestExt), []byte(requestText), 0o644))
	}
	s.Do(os.WriteFile(s.Path(Base+"/x.status.json"), []byte(`{"agent_name":"../../etc","status":"idle"}`), 0o644))
	snap := s.look()
	if len(snap.Tasks) > 0 || len(snap.Faults) != 7 {
		t.Fatalf("%d tasks, faults %+v", len(snap.Tasks), snap.Faults)
	}
	for _, f := range snap.Faults {
		if f.Problem == "" || f.Hint == "" || f.Since.IsZero() || strings.ContainsAny(f.Path+f.Problem, "\n\x01") {
			t.Errorf("%+q", f)
		}
	}
	since := snap.Faults[0].Since
	if again := s.look(); len(again.Faults) != 7 || !again.Faults[0].Since.Equal(since) {
		t.Errorf("later: %+v", again.Faults)
	}
	for _, id := range []string{"..", "../../x", "", "a/b"} {
		if err := s.apply(protocol.Change{Verb: protocol.VerbHold, Subject: protocol.Subject{Kind: protocol.KindTask, ID: id}}); err == nil {
			t.Errorf("a change to task %q", id)
		}
	}
	s.Do(os.RemoveAll(tasks))
	s.Do(os.Remove(s.Path(Base + "/x.status.json")))
	if snap := s.look(); len(snap.Faults) > 0 {
		t.Errorf("removed: %+v", snap.Faults)
	}
}

func TestTheLogCannotBeWritten(t *testing.T) {
	s := newSite(t, around+file(requestPath, requestText))
	s.Do(os.MkdirAll(s.Path(logPath), 0o755))
	s.Do(s.apply(holdChange(only(t, s.look()), s.Now)))
	f := protocoltest.FaultAt(s.look(), logFile)
	if f == nil || only(t, s.look()).Hold == nil {
		t.Fatal("the change must stand, and the log be a fault")
	}
	s.Do(os.Remove(s.Path(logPath)))
	if snap := s.look(requestPath); len(snap.Faults) > 0 || !snap.Again.IsZero() {
		t.Errorf("later: %+v, again %v", snap.Faults, snap.Again)
	}
	if text := s.Read(logPath); strings.Count(text, `"task_deferred"`) != 1 {
		t.Errorf("what could not be told was told as %q", text)
	}
	s.Do(s.apply(about(only(t, s.look()), protocol.VerbRelease)))
	if text := s.Read(logPath); strings.Count(text, `"task_deferred"`) != 1 || strings.Count(text, `"task_released"`) != 1 {
		t.Errorf("told later: %q", text)
	}
}

// An unreadable part of a task's ledger counts as a retry and is read again until it is readable, even if another
// file has taken its name.
func TestTheLedgerCannotBeRead(t *testing.T) {
	s := newSite(t, around+file(requestPath, requestText)+file(resultPath, resultText))
	s.Do(s.apply(retryChange(only(t, s.look()), s.Now, time.Hour)))
	sched := filepath.Join(Base, attemptsDir, taskID+".1.sched.json")
	good := s.Read(sched)
	s.reopen() // nothing is cached
	s.Do(os.Remove(s.Path(sched)))
	s.Do(os.Mkdir(s.Path(sched), 0o755))
	snap := s.look()
	if k := only(t, snap); k.Attempt() != 2 || protocoltest.FaultAt(snap, sched[len(Base)+1:]) == nil {
		t.Fatalf("attempt %d, faults %+v", k.Attempt(), snap.Faults)
	}
	s.Do(os.Remove(s.Path(sched)))
	s.Write(sched, good)
	snap = s.look()
	if k := only(t, snap); k.Attempt() != 2 || k.Attempts[0].Rule == "" || len(snap.Faults) > 0 {
		t.Errorf("readable: %+v, faults %+v", k.Attempts, snap.Faults)
	}
	// A file that may still be being written is waited for; a file that stays broken is waited for only so long.
	s.reopen()
	s.Write(sched, good[:20])
	if k := only(t, s.look()); len(k.Attempts) != 1 || !k.Attempts[0].Unread {
		t.Errorf("in the writing: %+v", k.Attempts)
	}
	s.Now = s.Now.Add(jsonfile.BadAfter + time.Second)
	if k := only(t, s.look()); k.Attempt() != 2 || k.Attempts[0].Unread {
		t.Errorf("broken for good: %+v", k.Attempts)
	}
}
