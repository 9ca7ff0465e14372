package envelope

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/protocoltest"
)

// A task's life, message by message, seen by hinted scans only (protocol 004, Agent Workflow Sequence).
func TestLife(t *testing.T) {
	s := newSite(t, "")
	_ = s.look()
	step := func(f fields, want string) {
		t.Helper()
		snap := s.look(s.send(f))
		k := taskOf(snap, "t")
		got := fmt.Sprintf("%q visible=%v ended=%v [%s] pleas=%d", k.Named, k.Visible, k.Outcome != nil, protocoltest.Codes(snap, "t"), len(snap.Questions))
		if got != want {
			t.Errorf("after %s:\n%s\nwant\n%s", f["message_type"], got, want)
		}
		full := s.at(s.Now)
		if !reflect.DeepEqual(snap, full) {
			t.Errorf("by hints\n%+v\na full look\n%+v", snap, full)
		}
	}
	step(assign("t", "DEVELOPER"), `"" visible=true ended=false [] pleas=0`)
	step(ack("t", "DEVELOPER").with(fields{"understood": false}), `"acknowledged" visible=false ended=false [] pleas=1`)
	step(ack("t", "DEVELOPER"), `"acknowledged" visible=false ended=false [] pleas=0`)
	step(escalate("t", "DEVELOPER", "ORCHESTRATOR"), `"blocked" visible=false ended=false [] pleas=1`)
	step(resolve("t"), `"acknowledged" visible=false ended=false [] pleas=0`)
	step(complete("t", "DEVELOPER", false), `"awaiting review" visible=false ended=false [criteria medium] pleas=0`)
	step(reject("t"), `"" visible=false ended=false [rejected medium] pleas=0`)
	step(complete("t", "DEVELOPER", true), `"" visible=false ended=true [] pleas=0`)
	step(reject("t"), `"" visible=false ended=false [rejected high] pleas=0`)
	step(escalate("t", "DEVELOPER", "human"), `"blocked" visible=false ended=false [rejected high] pleas=1`)
	step(complete("t", "DEVELOPER", true), `"" visible=false ended=true [] pleas=0`)
	step(ack("t", "DEVELOPER").with(fields{"understood": false}), `"" visible=false ended=true [] pleas=0`) // a late acknowledgement
	step(assign("t", "DEVELOPER"), `"" visible=true ended=false [] pleas=0`)
	step(complete("t", "DEVELOPER", false), `"awaiting review" visible=false ended=false [criteria medium] pleas=0`)
	step(reject("t"), `"" visible=false ended=false [rejected medium] pleas=0`)
}

// A change caused by time alone is announced by Again, and visible at that time.
func TestMoments(t *testing.T) {
	s := newSite(t, "")
	s.send(assign("t", "DEVELOPER").with(fields{"deadline": "1 hour"}))
	sent := s.Now.UTC().Truncate(time.Second)
	if snap := s.look(); !snap.Again.Equal(sent.Add(10*time.Minute)) || protocoltest.Codes(snap, "t") != "" {
		t.Errorf("again %v, %s", snap.Again, protocoltest.Codes(snap, "t"))
	}
	if snap := s.at(sent.Add(10*time.Minute), "x"); !snap.Again.Equal(sent.Add(time.Hour)) || protocoltest.Codes(snap, "t") != "unacknowledged medium" {
		t.Errorf("again %v, %s", snap.Again, protocoltest.Codes(snap, "t"))
	}
	if snap := s.at(sent.Add(time.Hour), "x"); !snap.Again.IsZero() || protocoltest.Codes(snap, "t") != "unacknowledged medium, deadline high" {
		t.Errorf("again %v, %s", snap.Again, protocoltest.Codes(snap, "t"))
	}
	s.send(escalate("t", "DEVELOPER", "human"))
	if snap := s.at(sent.Add(2 * time.Hour)); !snap.Again.Equal(s.Now.UTC().Truncate(time.Second).Add(day)) {
		t.Errorf("again %v", snap.Again)
	}
	if snap := s.at(sent.Add(26 * time.Hour)); snap.Measures[0].Value != 0 || !snap.Again.IsZero() {
		t.Errorf("a day later: %+v", snap)
	}
}

// The security gate over time (protocol 004, Security Gate Protocol): it holds, an approval releases, new code holds
// again.
func TestGateOverTime(t *testing.T) {
	s := newSite(t, "")
	deploy := s.send(assign("dep", "DEPLOYMENT"))
	k := taskOf(s.look(), "dep")
	s.Do(s.apply(holdOf(k, s.Now)))
	snap := s.look("x")
	if k = taskOf(snap, "dep"); k.Hold == nil || k.Hold.Half || k.Visible || k.Block == "" || protocoltest.Codes(snap, "dep") != "security_gate critical" || s.has(deploy) {
		t.Fatalf("held: %+v, %s", k, protocoltest.Codes(snap, "dep"))
	}
	if again := s.apply(holdOf(k, s.Now)); again != nil {
		t.Errorf("held twice: %v", again)
	}
	s.send(assign("sec", "SECURITY_AUDITOR"))
	ok := s.send(verdict("sec", "APPROVED", false))
	if k = taskOf(s.look(ok, messagesDir+"/002.json"), "dep"); k.Block != "" || k.Hold == nil {
		t.Errorf("approved: %+v", k)
	}
	s.send(assign("dev", "DEVELOPER"))
	s.send(complete("dev", "DEVELOPER", true))
	if k = taskOf(s.look(), "dep"); !strings.Contains(k.Block, "older") {
		t.Errorf("new code: %+v", k)
	}
	s.send(verdict("sec", "APPROVED", false))
	if k = taskOf(s.look(), "dep"); k.Block != "" {
		t.Errorf("reviewed again: %+v", k)
	}
	s.Now = s.Now.Add(time.Hour)
	s.Do(s.apply(releaseOf("dep")))
	if k = taskOf(s.look("x"), "dep"); k.Hold != nil || !k.Visible || !s.has(deploy) || s.has(noticeFile("dep")) {
		t.Errorf("released: %+v", k)
	}
	late := s.Now.Add(9 * time.Minute) // the time limit starts when the agent can see the assignment
	if snap = s.at(late, "x"); protocoltest.Codes(snap, "dep") != "" {
		t.Errorf("%s", protocoltest.Codes(snap, "dep"))
	}
	snap = s.look(s.send(ack("dep", "DEPLOYMENT")), s.send(complete("dev", "INTEGRATIONS", true)))
	if protocoltest.Codes(snap, "dep") != "" || taskOf(snap, "dep").Block != "" {
		t.Errorf("in hand before the approval grew old: %s", protocoltest.Codes(snap, "dep"))
	}
}

// An agent that answers before the hold keeps its task.
func TestAgentWasQuicker(t *testing.T) {
	s := newSite(t, "")
	deploy := s.send(assign("dep", "DEPLOYMENT"))
	c := holdOf(taskOf(s.look(), "dep"), s.Now)
	s.send(ack("dep", "DEPLOYMENT"))
	if err := s.apply(c); !errors.Is(err, protocol.ErrConflict) || !s.has(deploy) || s.has(noticeFile("dep")) {
		t.Errorf("hold: %v", err)
	}
	if snap := s.look("x"); protocoltest.Codes(snap, "dep") != "security_bypassed critical" {
		t.Errorf("%s", protocoltest.Codes(snap, "dep"))
	}
	if err := s.apply(holdOf(&protocol.Task{Request: protocol.Request{ID: "nobody"}}, s.Now)); !errors.Is(err, protocol.ErrConflict) {
		t.Errorf("hold of nothing: %v", err)
	}
}

// A review after the deployment is too late, even if the deployment names it.
func TestReviewTooLate(t *testing.T) {
	s := newSite(t, "")
	s.send(assign("sec", "SECURITY_AUDITOR"))
	s.send(assign("dep", "DEPLOYMENT").with(fields{"related_tasks": []string{"sec"}}))
	s.send(ack("dep", "DEPLOYMENT"))
	s.send(complete("dep", "DEPLOYMENT", true))
	s.send(verdict("sec", "APPROVED", false))
	if snap := s.look(); protocoltest.Codes(snap, "dep") != "security_bypassed critical" {
		t.Errorf("%s", protocoltest.Codes(snap, "dep"))
	}
	s.send(assign("dep", "DEPLOYMENT").with(fields{"related_tasks": []string{"sec"}}))
	if snap := s.look(); protocoltest.Codes(snap, "dep") != "" || taskOf(snap, "dep").Block != "" {
		t.Errorf("assigned again: %s", protocoltest.Codes(snap, "dep"))
	}
}

// A file truncated in place keeps its last good content, and is reread without a hint once it is complete.
func TestTornWithoutHints(t *testing.T) {
	s := newSite(t, "")
	name := s.send(assign("t", "DEVELOPER"))
	s.Now = s.Now.Add(time.Minute)
	_ = s.look()
	whole := s.Read(name)
	s.Do(os.WriteFile(s.Path(name), []byte(whole[:30]), 0o644))
	s.Now = s.Now.Add(time.Minute)
	for range 2 {
		if snap := s.look(name); len(snap.Tasks) != 1 || snap.Again.IsZero() {
			t.Errorf("torn: %+v", snap)
		}
	}
	s.Do(os.WriteFile(s.Path(name), []byte(strings.Replace(whole, "Do t", "Did", 1)), 0o644))
	s.Now = s.Now.Add(time.Minute)
	if snap := s.look("x"); len(snap.Tasks) != 1 || snap.Tasks[0].Title != "Did" {
		t.Errorf("whole: %+v", snap.Tasks)
	}
}

// Every valid message is copied once, across restarts, in batches, from a file or from the log.
func TestAudit(t *testing.T) {
	s := newSite(t, file(logFile, strings.Repeat("\n", 2)+ack("t7", "<DEVELOPER>").String()+"\n"+assign("t8", "X").String()+"\n"))
	for i := range 120 {
		s.send(assign(fmt.Sprint("t", i), "DEVELOPER"))
	}
	s.Write(messagesDir+"/bad.json", `{"message_type": "TASK_COMPLETION"}`)
	rounds := 0
	for {
		snap := s.look("x")
		if len(snap.Events) == 0 {
			break
		}
		if rounds++; len(snap.Events) > 50 || rounds > 3 {
			t.Fatalf("round %d: %d events", rounds, len(snap.Events))
		}
		if rounds < 3 && !snap.Again.Equal(s.Now.Add(100*time.Millisecond)) {
			t.Errorf("again %v after %v", snap.Again, s.Now)
		}
		for _, e := range snap.Events {
			s.Do(s.apply(logOf(e)))
			s.Do(s.apply(logOf(e)))
		}
		s.reopen()
	}
	log := s.Read(auditFile)
	if n := strings.Count(log, "\n"); n != 122 || !strings.Contains(log, `"from_agent":"<DEVELOPER>"`) && !strings.Contains(log, `u003cDEVELOPER`) {
		t.Errorf("%d lines", n)
	}
	if _, err := os.Stat(s.Path(holdsDir)); err == nil {
		t.Error("a folder was made without need")
	}
	if err := s.apply(protocol.Change{Verb: protocol.VerbLog, Entry: protocol.Entry{Event: "task_created"}}); !errors.Is(err, protocol.ErrUnsupported) {
		t.Errorf("another event: %v", err)
	}
}

// Messages from before the observed period are not copied.
func TestAuditSince(t *testing.T) {
	s := newSite(t, "")
	old := s.send(assign("old", "DEVELOPER"))
	at := s.Now.Add(-time.Hour)
	s.Do(os.Chtimes(s.Path(old), at, at))
	s.send(assign("new", "DEVELOPER"))
	snap := s.p.Observe(t.Context(), protocol.ScanOrder{Now: s.Now, Since: s.Now.Add(-time.Minute)})
	if len(snap.Events) != 1 || snap.Events[0].Subject.ID != "new" {
		t.Errorf("%+v", snap.Events)
	}
}

// The log grows, is truncated and rewritten. Its last line is read once it is complete.
func TestLog(t *testing.T) {
	s := newSite(t, "")
	line := func(f fields) string { return f.String() + "\n" }
	ids := func(snap *protocol.Snapshot) string {
		var list []string
		for _, k := range snap.Tasks {
			list = append(list, k.ID)
		}
		return strings.Join(list, " ")
	}
	one, two, three := line(assign("t1", "X")), line(assign("t2", "X")), line(assign("t3", "X"))
	for _, c := range []struct{ text, want string }{
		{one, "t1"},
		{one + two[:20], "t1"},
		{one + two, "t1 t2"},
		{one + two + strings.TrimSuffix(three, "\n"), "t1 t2"},
		{one + two + three, "t1 t2 t3"},
		{two, "t2"},
		{one + three + strings.Repeat(" ", 300) + "\n", "t1 t3"}, // longer than before, but not its continuation
		{"", ""},
		{"nonsense\n" + strings.Repeat("x", maxFile+9) + "\n" + one, "t1"},
	} {
		s.Write(logFile, c.text)
		if got := ids(s.look(logFile)); got != c.want {
			t.Errorf("%.80q shows %q, want %q", c.text, got, c.want)
		}
	}
	if snap := s.look(); len(snap.Faults) < 2 {
		t.Errorf("%+v", snap.Faults)
	}
	s.Write(logFile, strings.Repeat("nonsense\n", 30))
	if snap := s.look(); len(snap.Faults) != maxBadLines+1 || !strings.Contains(snap.Faults[maxBadLines].Problem, "20 more") {
		t.Errorf("%+v", snap.Faults)
	}
	s.Do(os.Remove(s.Path(logFile)))
	if snap := s.look("x"); len(snap.Faults)+len(snap.Tasks) > 0 {
		t.Errorf("%+v", snap)
	}
}

// The folders disappear and come back; steward remembers nothing stale.
func TestFoldersVanish(t *testing.T) {
	s := newSite(t, "")
	s.send(assign("t", "DEVELOPER"))
	_ = s.look()
	for _, dir := range []string{messagesDir, ".agents", "."} {
		s.Do(os.RemoveAll(s.Path(dir)))
		if snap := s.look(".agents"); len(snap.Tasks)+len(snap.Faults)+len(snap.Events)+len(snap.Measures) > 0 {
			t.Errorf("without %s: %+v", dir, snap)
		}
		s.send(assign("again", "DEVELOPER"))
		if snap := s.look(".agents"); len(snap.Tasks) != 1 || snap.Tasks[0].ID != "again" || snap.Measures[1].Value != 0 {
			t.Errorf("%s came back: %+v", dir, snap)
		}
	}
}

// When a message is rewritten, renamed or removed, its task follows.
func TestFilesChange(t *testing.T) {
	s := newSite(t, "")
	first := s.send(assign("t", "DEVELOPER"))
	done := s.send(complete("t", "DEVELOPER", true))
	if k := taskOf(s.look(), "t"); k.Outcome == nil {
		t.Fatalf("%+v", k)
	}
	s.Do(os.Remove(s.Path(done)))
	if k := taskOf(s.look(done), "t"); k.Outcome != nil || !k.Visible {
		t.Errorf("completion removed: %+v", k)
	}
	s.Do(protocoltest.Rewrite(s.Path(first), `"t"`, `"u"`))
	if snap := s.look(first); len(snap.Tasks) != 1 || snap.Tasks[0].ID != "u" {
		t.Errorf("another id: %+v", snap.Tasks)
	}
	s.Do(os.Rename(s.Path(first), s.Path(messagesDir+"/z.json")))
	if snap := s.look(first, messagesDir+"/z.json"); len(snap.Tasks) != 1 || snap.Tasks[0].Ref.Path != messagesDir+"/z.json" {
		t.Errorf("renamed: %+v", snap.Tasks)
	}
}

// Only recently ended tasks are listed, and their number is bounded.
func TestEnded(t *testing.T) {
	s := newSite(t, "")
	s.finish(300, time.Hour)
	if snap := s.look(); len(snap.Tasks) != maxEnded {
		t.Errorf("%d tasks", len(snap.Tasks))
	}
	snap := s.p.Observe(t.Context(), protocol.ScanOrder{Now: s.Now, Since: s.Now.Add(-time.Minute)})
	if len(snap.Tasks) != 0 || len(snap.Measures) != 4 {
		t.Errorf("%d tasks, measures %+v", len(snap.Tasks), snap.Measures)
	}
}

func TestBoot(t *testing.T) {
	s := newSite(t, "")
	if Detect(s.Dir, messagesDir, logFile) {
		t.Error("detected in an empty project")
	}
	for range 2 {
		s.Do(s.p.Prepare(t.Context(), protocol.Boot{Agent: "DEVELOPER", Now: s.Now}))
	}
	if !Detect(s.Dir, messagesDir, logFile) || !s.has(own) || OwnDir(s.Dir) != s.Path(own) {
		t.Error("not prepared")
	}
	if snap := s.look(); len(snap.Tasks)+len(snap.Faults)+len(snap.Agents) > 0 {
		t.Errorf("%+v", snap)
	}
	if err := s.p.Prepare(t.Context(), protocol.Boot{Agent: "../x", Now: s.Now}); err == nil {
		t.Error("a hostile name was booted")
	}
	s = newSite(t, file(logFile, ""))
	if !Detect(s.Dir, messagesDir, logFile) {
		t.Error("the log alone is not detected")
	}
	p := New(s.Dir, Options{Messages: "a/b/", Log: "log.jsonl"})
	if got := strings.Join(p.Dirs(), " "); got != ". .agents/steward/holds .agents/steward/work a/b" {
		t.Error(got)
	}
}
