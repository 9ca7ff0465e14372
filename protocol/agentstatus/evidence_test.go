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

func (s *site) log(line string, args ...any) {
	s.T.Helper()
	s.Do(os.MkdirAll(filepath.Dir(s.Path(logPath)), 0o755))
	f, err := os.OpenFile(s.Path(logPath), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	s.Do(err)
	defer f.Close()
	_, err = fmt.Fprintf(f, line+"\n", args...)
	s.Do(err)
}

func started(at time.Time, layout string) string {
	return fmt.Sprintf(`{"timestamp":%q,"event_type":"task_started","task_id":%q,"source_agent":"codex-cursor","message":"m"}`, at.UTC().Format(layout), taskID)
}

const nanos = "2006-01-02T15:04:05.000000000Z"

// Evidence that an agent works on a task counts only if it is newer than the moment when the request appeared.
func TestEvidenceOfTheLog(t *testing.T) {
	whole := "2006-01-02T15:04:05Z"
	appeared := time.Date(2026, 5, 1, 10, 0, 5, 700e6, time.UTC)
	for _, c := range []struct {
		name   string
		line   string
		again  bool      // an earlier attempt is on record
		before time.Time // steward's reading before the line
		want   bool
	}{
		{"newer", started(appeared.Add(time.Millisecond), nanos), true, time.Time{}, true},
		{"older", started(appeared.Add(-time.Millisecond), nanos), false, time.Time{}, false},
		{"a second later", started(appeared.Add(time.Second), whole), true, time.Time{}, true},
		{"a second before", started(appeared.Add(-time.Second), whole), false, time.Time{}, false},
		{"the same second, first attempt", started(appeared, whole), false, time.Time{}, true},
		{"the same second, after another attempt", started(appeared, whole), true, time.Time{}, false},
		{"the same second, read after a reading before", started(appeared, whole), true, appeared.Add(-time.Millisecond), false},
		{"the same second, but written after an own reading", started(appeared, whole), true, appeared, true},
	} {
		l := newLog()
		l.at = c.before
		l.take([]byte(c.line), appeared.Add(time.Second))
		if got := l.tasks[taskID].startedIn(appeared, c.again); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestEvidence(t *testing.T) {
	busy := strings.Replace(beatText("codex-cursor"), `"active_tasks": []`, `"active_tasks": ["`+taskID+`"]`, 1)
	s := newSite(t, file(Base+"/codex_status/heartbeat.json", busy)+file(progressPath(), `{"task_id":"`+taskID+`","progress_percent":40,"current_step":"x"}`+"\n")+
		file(Base+"/codex_status/current_task.json", `{"task_id":"`+taskID+`"}`+"\n"))
	s.log(started(s.Now.Add(-time.Hour), nanos))
	past := time.Now().Add(-time.Minute)
	for _, f := range []string{progressPath(), Base + "/codex_status/heartbeat.json", Base + "/codex_status/current_task.json"} {
		s.Do(os.Chtimes(s.Path(f), past, past))
	}
	s.Write(requestPath, requestText)
	k := only(t, s.look())
	if k.Named != "" || !k.Started.IsZero() || !k.Progress.At.IsZero() || k.Progress.Percent != 0 {
		t.Fatalf("what an earlier attempt left counts: %+v", k)
	}
	if k.Progress.Every != 30*time.Second {
		t.Errorf("every %v", k.Progress.Every)
	}
	s.log(started(time.Now(), nanos))
	if k = only(t, s.look()); k.Named != "task_started" || k.Started.IsZero() {
		t.Errorf("log: %q", k.Named)
	}
	s.Do(os.Chtimes(s.Path(progressPath()), time.Now(), time.Now()))
	if k = only(t, s.look()); k.Named != "progress" || k.Progress.Percent != 40 {
		t.Errorf("progress: %q %+v", k.Named, k.Progress)
	}
	s.Do(os.Chtimes(s.Path(Base+"/codex_status/current_task.json"), time.Now(), time.Now()))
	if k = only(t, s.look()); k.Named != "active_tasks" {
		t.Errorf("current task: %q", k.Named)
	}
	s.Do(os.Chtimes(s.Path(Base+"/codex_status/current_task.json"), past, past))
	if k = only(t, s.look()); k.Named != "progress" {
		t.Errorf("old current task: %q", k.Named)
	}
	s.Write(Base+"/other_status/heartbeat.json", strings.ReplaceAll(busy, "codex-cursor", "another"))
	if k = only(t, s.look()); k.Named != "progress" {
		t.Errorf("another agent's heartbeat counts: %q", k.Named)
	}
	s.Write(Base+"/codex_status/heartbeat.json", strings.Replace(busy, "idle", "busy", 1))
	if k = only(t, s.look()); k.Named != "active_tasks" {
		t.Errorf("heartbeat: %q", k.Named)
	}
}

// A line that steward wrote in an agent's name is no evidence, but is not written again.
func TestOwnLinesAreNoEvidence(t *testing.T) {
	s := newSite(t, around+file(requestPath, requestText))
	k := only(t, s.look())
	c := about(k, protocol.VerbLog)
	c.Event, c.Until = "task_started", s.Now.Add(time.Second)
	signs := s.look().Agents[0].Signs
	for range 2 {
		s.Do(s.apply(c))
	}
	snap := s.look()
	if k = only(t, snap); k.Named != "" || !k.HasLogged("task_started") {
		t.Errorf("named %q, logged %v", k.Named, k.Logged)
	}
	if got := strings.Count(s.Read(logPath), "\n"); got != 1 {
		t.Errorf("%d lines", got)
	}
	if snap.Agents[0].Signs != signs {
		t.Error("steward's line is a sign of the agent's life")
	}
}

// The fingerprint of the signs of life changes when a sign is new, not when a file is archived.
func TestSigns(t *testing.T) {
	s := newSite(t, around+file(requestPath, requestText))
	signs := func() string {
		t.Helper()
		a, _ := s.look().Agent("codex-cursor")
		return a.Signs
	}
	none := signs()
	s.Write(progressPath(), `{"task_id":"`+taskID+`","progress_percent":10}`)
	one := signs()
	if none != "" || one == "" || one != signs() {
		t.Fatalf("signs %q, %q", none, one)
	}
	s.log(`{"timestamp":"2026-01-01T00:00:00Z","event_type":"note","source_agent":"codex","message":"alive"}`)
	two := signs()
	if two == one {
		t.Error("a log line of the agent under its short name is no sign")
	}
	s.Do(os.Remove(s.Path(progressPath())))
	if signs() != two {
		t.Error("what vanished is a sign")
	}
	text := s.Read(logPath)
	s.Do(os.Remove(s.Path(logPath)))
	s.Write(logPath, text) // rotated: the same lines in a new file
	if signs() != two {
		t.Error("old lines in a new file are a sign")
	}
	s.log(`{"timestamp":"2026-01-01T00:00:09Z","event_type":"note","source_agent":"codex-cursor","message":"alive"}`)
	if signs() == two {
		t.Error("a new line in a rotated log is no sign")
	}
}

func TestNamesOfAgents(t *testing.T) {
	d := directory{"codex-cursor": true, "livhana-layer1.1": true, "worker-1": true, "Build_Bot": true, "a-b": true, "a_b": true, "api-tests": true}
	for spelling, want := range map[string]string{
		"codex-cursor": "codex-cursor", "Codex_Cursor": "codex-cursor", "codex": "codex-cursor", "CODEX": "codex-cursor",
		"livhana": "livhana-layer1.1", "liv hana": "livhana-layer1.1", "build-bot": "Build_Bot",
		"worker": "worker", "worker-2": "worker-2", "worker-": "worker-", "api": "api",
		"a-b": "a-b", "a_b": "a_b", "A b": "A b", "": "", "-": "-",
	} {
		if got := d.canonical(spelling); got != want {
			t.Errorf("%q is taken for %q, want %q", spelling, got, want)
		}
	}
	if got := (directory{"worker": true}).canonical("codex"); got != "codex" {
		t.Errorf("codex without codex-cursor is %q", got)
	}
}

// Two agents with heartbeats stay two agents, however similar their names. An agent whose heartbeat spells its name
// differently is still one agent.
func TestAgentsAreNeverMerged(t *testing.T) {
	s := newSite(t, around+file(Base+"/worker_status/heartbeat.json", beatText("worker"))+file(Base+"/w1_status/heartbeat.json", beatText("worker-1"))+
		file(Base+"/w2_status/heartbeat.json", beatText("Worker_1"))+file(Base+"/livhana_status/heartbeat.json", beatText("Livhana_Layer1.1"))+
		file(Base+"/codex.status.json", `{"agent":"codex","status":"busy","updated_at":"{{now-1h}}"}`+"\n")+file(Base+"/empty_status/notes.txt", "x\n"))
	snap := s.look()
	if got, want := agentNames(snap), "Worker_1 codex-cursor livhana-layer1.1 worker worker-1"; got != want {
		t.Errorf("agents %s\nwant   %s", got, want)
	}
	if a, _ := snap.Agent("livhana-layer1.1"); a == nil || a.Beat.Mark == "" {
		t.Error("the heartbeat of livhana-layer1.1 is nobody's")
	}
}

func TestAttemptsRunFromTheirOwnFiles(t *testing.T) {
	s := newSite(t, around+file(requestPath, requestText)+file(resultPath, resultText))
	c := retryChange(only(t, s.look()), s.Now, 0)
	c.NoHold, c.Until = true, s.Now.Add(time.Hour)
	s.Do(s.apply(c)) // steward run --once: only the schedule is written
	c.NoHold, c.Until, c.Timeout = false, s.Now.Add(2*time.Hour), 1200*time.Second
	s.Do(s.apply(c)) // a recomputed schedule does not override it
	k := only(t, s.look())
	if k.Timeout != 600*time.Second || k.Hold == nil || k.Hold.NotBefore.After(s.Now.Add(time.Hour)) {
		t.Errorf("timeout %v, hold %+v", k.Timeout, k.Hold)
	}
	k0 := k.Attempts[0]
	if k0.N != 1 || k0.Action != protocol.ActionRetry || k0.Rule != c.Rule || k0.Code != c.Code || k0.Agent != "codex-cursor" || !k0.Committed {
		t.Errorf("taking %+v", k0)
	}
	// A damaged ledger grants no extra attempts.
	s.Write(attempt(1, "sched"), "{")
	s.reopen()
	if k = only(t, s.look()); k.Attempt() != 2 {
		t.Errorf("attempt %d with a damaged schedule", k.Attempt())
	}
}
