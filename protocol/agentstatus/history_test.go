package agentstatus

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
)

func numbered(n int) string { return fmt.Sprintf("0b2f6a0e-6d2c-4a53-9d0b-%012x", n) }

// finish creates n finished tasks that ended at the given age.
func (s *site) finish(n int, ago time.Duration, status string) {
	s.T.Helper()
	dir := s.Path(Base + "/" + tasksDir)
	s.Do(os.MkdirAll(dir, 0o755))
	at := s.Now.Add(-ago)
	for i := range n {
		id := numbered(i)
		for ext, text := range map[string]string{requestExt: requestText, resultExt: strings.Replace(resultText, "failed", status, 1)} {
			name := filepath.Join(dir, "task_"+id+ext)
			s.Do(os.WriteFile(name, []byte(strings.Replace(text, taskID, id, 1)), 0o644))
			s.Do(os.Chtimes(name, at, at))
		}
	}
}

func (s *site) since(ago time.Duration, hints ...string) *protocol.Snapshot {
	s.T.Helper()
	s.Now = s.Now.Add(time.Second)
	snap := s.p.Observe(s.T.Context(), protocol.ScanOrder{Now: s.Now, Hints: hints, Since: s.Now.Add(-ago)})
	return &snap
}

func TestOldTasksAreNotEvenRead(t *testing.T) {
	s := newSite(t, around+file(requestPath, requestText))
	s.finish(300, 2*time.Hour, "failed")
	s.Do(os.Chmod(s.Path(Base+"/"+tasksDir+"/task_"+numbered(5)+resultExt), 0)) // would be a fault if read by a user other than root
	snap := s.since(time.Hour)
	if len(snap.Tasks) != 1 || len(s.p.tasks.open) != 1 || len(s.p.tasks.settled) != 300 {
		t.Errorf("%d tasks listed, %d kept, %d settled", len(snap.Tasks), len(s.p.tasks.open), len(s.p.tasks.settled))
	}
}

// An old result with a scheduled retry that is not yet due is not history.
func TestAScheduledRetryIsNoHistory(t *testing.T) {
	s := newSite(t, around+file(requestPath, requestText)+file(resultPath, resultText))
	c := retryChange(only(t, s.look()), s.Now, 5*time.Hour)
	c.NoHold = true
	s.Do(s.apply(c))
	old := s.Now.Add(-3 * time.Hour)
	s.Do(os.Chtimes(s.Path(resultPath), old, old))
	s.reopen()
	for range 2 {
		if snap := s.since(time.Hour); len(snap.Tasks) != 1 || snap.Tasks[0].Outcome == nil {
			t.Fatalf("tasks %+v", snap.Tasks)
		}
	}
}

// Every ended task is listed once at least. Then the oldest completed tasks beyond the limit leave the list, and
// clients that archive their files do not bring them back.
func TestCompletedTasksRetire(t *testing.T) {
	s := newSite(t, around)
	s.finish(150, time.Minute, "completed")
	if snap := s.since(time.Hour); len(snap.Tasks) != 150 {
		t.Fatalf("%d tasks at first sight", len(snap.Tasks))
	}
	if snap := s.since(time.Hour); len(snap.Tasks) != keepEnded {
		t.Fatalf("%d tasks later", len(snap.Tasks))
	}
	var gone string
	for id := range s.p.tasks.settled {
		gone = id
		break
	}
	s.Do(os.MkdirAll(s.Path(Base+"/"+archiveDir), 0o755))
	hints := []string{}
	for _, ext := range []string{resultExt, requestExt} {
		from, to := Base+"/"+taskFile(gone, ext), Base+"/"+archivedFile(gone, ext)
		s.Do(os.Rename(s.Path(from), s.Path(to)))
		hints = append(hints, from, to)
	}
	if snap := s.since(time.Hour, hints...); len(snap.Tasks) != keepEnded {
		t.Errorf("%d tasks after one was archived (hinted)", len(snap.Tasks))
	}
	for id := range s.p.tasks.settled {
		if id != gone {
			s.Do(os.Rename(s.Path(Base+"/"+taskFile(id, resultExt)), s.Path(Base+"/"+archivedFile(id, resultExt))))
			s.Do(os.Rename(s.Path(Base+"/"+taskFile(id, requestExt)), s.Path(Base+"/"+archivedFile(id, requestExt))))
		}
	}
	if snap := s.since(time.Hour); len(snap.Tasks) != keepEnded {
		t.Errorf("%d tasks after others were archived", len(snap.Tasks))
	}
	s.Write(Base+"/"+taskFile(gone, requestExt), strings.Replace(requestText, taskID, gone, 1))
	snap := s.since(time.Hour, Base+"/"+taskFile(gone, requestExt))
	if len(snap.Tasks) != keepEnded+1 {
		t.Errorf("%d tasks after one was asked for anew", len(snap.Tasks))
	}
	for i := range snap.Tasks {
		if k := &snap.Tasks[i]; k.ID == gone && (!k.Visible || k.Outcome != nil) {
			t.Errorf("asked for anew: %+v", k)
		}
	}
}

// A hinted scan misses no in-place rewrite of a hinted file or of the registry.
func TestHintsMissNothing(t *testing.T) {
	s := newSite(t, around+file(requestPath, requestText))
	_ = s.look()
	for _, step := range []struct {
		file, old, new string
		hints          []string
		shows          func(*protocol.Snapshot) bool
	}{
		{requestPath, `"priority": "high"`, `"priority": "lows"`, []string{requestPath}, func(s *protocol.Snapshot) bool { return found(s, taskID)["priority"] == protocol.Info }},
		{Base + "/" + registry, `"status": "active"`, `"status": "paused"`, []string{}, func(s *protocol.Snapshot) bool { return s.Agents[0].Recorded == "paused" }},
		{Base + "/codex_status/heartbeat.json", `"idle"`, `"busy"`, []string{Base + "/codex_status/heartbeat.json"}, func(s *protocol.Snapshot) bool { return s.Agents[0].Status == "busy" }},
	} {
		text := s.Read(step.file)
		s.Do(os.WriteFile(s.Path(step.file), []byte(strings.Replace(text, step.old, step.new, 1)), 0o640))
		if snap := s.look(append(step.hints, "some/other/file")...); !step.shows(snap) {
			t.Errorf("%s was rewritten, and not seen: %+v", step.file, snap)
		}
	}
	s.Write(resultPath, resultText)
	if k := only(t, s.look(resultPath)); k.Outcome == nil || k.Visible {
		t.Errorf("result: %+v", k)
	}
	s.Do(os.WriteFile(s.Path(resultPath), []byte(strings.Replace(resultText, "failed", "partly", 1)), 0o640))
	if k := only(t, s.look(resultPath)); k.Outcome == nil || k.Outcome.Status != "partly" {
		t.Errorf("result rewritten: %+v", k.Outcome)
	}
	// For a new folder, the only hint is the folder itself.
	s.Do(os.MkdirAll(s.Path(Base+"/"+archiveDir), 0o755))
	s.Do(os.Rename(s.Path(requestPath), s.Path(archiveReq)))
	s.Do(os.Rename(s.Path(resultPath), s.Path(archiveRes)))
	if k := only(t, s.look(Base+"/"+archiveDir)); k.Outcome == nil || !k.Outcome.Archived {
		t.Errorf("archived: %+v", k)
	}
}

func TestTheFolderIsMadeAnew(t *testing.T) {
	s := newSite(t, around+file(requestPath, requestText))
	_ = s.look()
	s.Do(os.Rename(s.Path(Base), s.Path("tmp/old")))
	if snap := s.look(); len(snap.Tasks)+len(snap.Agents)+len(snap.Faults) > 0 {
		t.Errorf("gone: %+v", snap)
	}
	s.Write(Base+"/codex_status/heartbeat.json", beatText("other"))
	if snap := s.look(); agentNames(snap) != "other" || len(snap.Tasks) > 0 {
		t.Errorf("anew: %+v", snap)
	}
}

// A settled task that is requested anew still has its attempts on record.
func TestAttemptsOutliveTheList(t *testing.T) {
	s := newSite(t, around+file(requestPath, requestText)+file(resultPath, resultText))
	s.Do(s.apply(retryChange(only(t, s.look()), s.Now, 0)))
	s.Do(s.apply(about(only(t, s.look()), protocol.VerbRelease)))
	s.Write(resultPath, strings.Replace(resultText, "failed", "completed", 1))
	for range 3 {
		_ = s.since(-time.Hour) // move the start of the history past the task
	}
	if len(s.p.tasks.settled) != 1 {
		t.Fatalf("settled: %v", s.p.tasks.settled)
	}
	s.Do(os.Remove(s.Path(resultPath)))
	snap := s.since(time.Hour, resultPath)
	if k := only(t, snap); k.Attempt() != 2 || k.Outcome != nil {
		t.Errorf("attempt %d: %+v", k.Attempt(), k)
	}
}

// File timestamps have steps of milliseconds: changes within one step are not missed.
func TestNothingIsMissedWithinATick(t *testing.T) {
	s := newSite(t, around)
	for i := range 200 {
		id := numbered(i)
		name := s.Path(Base + "/" + taskFile(id, requestExt))
		s.Do(os.MkdirAll(filepath.Dir(name), 0o755))
		s.Do(os.WriteFile(name, []byte(strings.Replace(requestText, taskID, id, 1)), 0o644))
		if snap := s.at(time.Now()); len(snap.Tasks) != i+1 {
			t.Fatalf("%d tasks, want %d", len(snap.Tasks), i+1)
		}
	}
}
