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

func read(t *testing.T, dir, file string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, Base, file))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(b)
}

// booted is a project with both agents booted.
func booted(t *testing.T, b protocol.Boot) (*Project, string) {
	t.Helper()
	dir := t.TempDir()
	p := New(dir, Options{})
	t.Cleanup(p.Close)
	b.Now = time.Now()
	for _, name := range []string{livhana, codex} {
		b.Agent = name
		if err := p.Prepare(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	return p, dir
}

func agentIn(t *testing.T, snap *protocol.Snapshot, name string) protocol.Agent {
	t.Helper()
	for _, a := range snap.Agents {
		if a.Name == name {
			return a
		}
	}
	t.Fatalf("%s is not listed: %s", name, agentNames(snap))
	return protocol.Agent{}
}

// TestBootIsNoBeat: the heartbeat that boot writes is no sign of life of the agent; the heartbeat that the agent
// writes over it is.
func TestBootIsNoBeat(t *testing.T) {
	p, dir := booted(t, protocol.Boot{})
	snap := p.Observe(t.Context(), protocol.ScanOrder{Now: time.Now()})
	if a := agentIn(t, &snap, codex); !a.Beat.Booted || a.Kept {
		t.Errorf("booted: %+v", a)
	}
	file := filepath.Join(dir, Base, "codex_status/heartbeat.json")
	b, _ := os.ReadFile(file)
	if err := os.WriteFile(file, []byte(strings.Replace(string(b), `"uptime_seconds": 0`, `"uptime_seconds": 7`, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	snap = p.Observe(t.Context(), protocol.ScanOrder{Now: time.Now().Add(3 * time.Second)})
	if a := agentIn(t, &snap, codex); a.Beat.Booted {
		t.Errorf("it beats: %+v", a.Beat)
	}
}

// TestNoLookTakesABootForABeat: no scan between a boot's writes takes the boot for a heartbeat. The record is written
// before the heartbeat, and a scan hinted at the heartbeat alone reads the record after it.
func TestNoLookTakesABootForABeat(t *testing.T) {
	p, dir := booted(t, protocol.Boot{})
	p.Observe(t.Context(), protocol.ScanOrder{Now: time.Now()})
	daemon := New(dir, Options{})
	defer daemon.Close()
	now := time.Now().Add(time.Minute)
	daemon.Observe(t.Context(), protocol.ScanOrder{Now: now})
	again := func() error { return p.Prepare(t.Context(), protocol.Boot{Agent: codex, PID: 78, Now: now}) }

	beat, record := read(t, dir, "codex_status/heartbeat.json"), filepath.Join(dir, Base, recordPath(codex))
	text, err := os.ReadFile(record)
	if err != nil || os.Remove(record) != nil || os.Mkdir(record, 0o755) != nil {
		t.Fatal("the record cannot be put out of the way")
	}
	if err := again(); err == nil || read(t, dir, "codex_status/heartbeat.json") != beat {
		t.Errorf("without a record: %v, %s", err, read(t, dir, "codex_status/heartbeat.json"))
	}
	if os.Remove(record) != nil || os.WriteFile(record, text, 0o644) != nil || again() != nil {
		t.Fatal("the second boot")
	}
	daemon.agents.read()
	_, found := daemon.agents.all()
	if a := found[codex].agent; !a.Beat.Booted || !a.Beat.Fresh {
		t.Errorf("a look at the heartbeat alone: %+v", a.Beat)
	}
}

// TestBootKeepsTheBeat: boot has steward write the heartbeat of a recorded process, until another boot names no
// process.
func TestBootKeepsTheBeat(t *testing.T) {
	p, dir := booted(t, protocol.Boot{PID: 77, Process: protocol.Identity{PID: 77, Start: 5, Boot: "b"}})
	snap := p.Observe(t.Context(), protocol.ScanOrder{Now: time.Now()})
	if a := agentIn(t, &snap, codex); !a.Kept || !a.Beat.Kept || a.Beat.Booted {
		t.Errorf("booted with a process: %+v", a)
	}
	if err := p.Prepare(t.Context(), protocol.Boot{Agent: codex, PID: 78, Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if text := read(t, dir, "codex_status/heartbeat.json"); strings.Contains(text, keptBy) {
		t.Errorf("booted anew without a process: %s", text)
	}
}

// TestLastSeen: death, error and recovery record when the agent last gave a sign of life, and never an older time
// than the registry has.
func TestLastSeen(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Second)
	for _, tc := range []struct {
		name   string
		reason protocol.Reason
		seen   time.Time
		want   time.Time
	}{
		{"dead", protocol.ReasonSilent, now.Add(30 * time.Second), now.Add(30 * time.Second)},
		{"dead, never heard of", protocol.ReasonGone, time.Time{}, now},
		{"dead, an older time", protocol.ReasonGone, now.Add(-time.Hour), now},
		{"in error", protocol.ReasonError, now.Add(30 * time.Second), now.Add(time.Minute)},
		{"recovered", protocol.ReasonBeats, now.Add(30 * time.Second), now.Add(time.Minute)},
	} {
		p, dir := booted(t, protocol.Boot{})
		if err := p.Prepare(t.Context(), protocol.Boot{Agent: codex, Now: now}); err != nil {
			t.Fatal(err)
		}
		at := now.Add(time.Minute)
		p.Observe(t.Context(), protocol.ScanOrder{Now: at})
		c := protocol.Change{Verb: protocol.VerbMark, Subject: protocol.Subject{Kind: protocol.KindAgent, ID: codex}, Judged: protocol.Judged{Ref: protocol.Ref{Sum: "active"}, Seen: tc.seen},
			Status: "error", Reason: tc.reason}
		if err := p.Apply(t.Context(), c, at); err != nil {
			t.Fatal(err)
		}
		snap := p.Observe(t.Context(), protocol.ScanOrder{Now: at.Add(3 * time.Second)})
		if got := p.agents.registry.Value.agents[codex].seen; !got.Equal(tc.want) {
			t.Errorf("%s: last_seen %v, want %v\n%s", tc.name, got, tc.want, read(t, dir, registry))
		}
		if a := agentIn(t, &snap, codex); a.Recorded == "error" && !a.Registered.IsZero() {
			t.Errorf("%s: the mark counts as a registration: %v", tc.name, a.Registered)
		}
	}
}

// TestNewestBeat: a new task is judged by the heartbeat that its agent wrote within the same half second.
func TestNewestBeat(t *testing.T) {
	p, dir := booted(t, protocol.Boot{})
	now := time.Now().Add(10 * time.Second)
	p.Observe(t.Context(), protocol.ScanOrder{Now: now})
	write := func(file, text string) {
		if err := os.WriteFile(filepath.Join(dir, Base, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("codex_status/heartbeat.json", `{"agent_name":"codex-cursor","status":"busy","last_heartbeat":"2026-01-02T03:04:05Z","uptime_seconds":9,"current_capacity":0.15,"active_tasks":[],"health":{"cpu_ok":true,"memory_ok":true,"disk_ok":true,"last_error":null}}`)
	const task = "codex_tasks/task_t1.request.json"
	write(task, `{"task_id":"t1","request_type":"execute","priority":"medium","source_agent":"livhana-layer1.1","target_agent":"codex-cursor","created_at":"2026-01-02T03:04:05Z","timeout_seconds":60,"payload":{"task_type":"execute"}}`)
	snap := p.Observe(t.Context(), protocol.ScanOrder{Now: now.Add(200 * time.Millisecond), Hints: []string{Base + "/" + task}})
	if used, known := agentIn(t, &snap, codex).Used.Value(); !known || used < 0.8 {
		t.Errorf("judged at %v of its capacity, want 85 %%", used)
	}
}

// TestForgetAgent: an agent that is not alive leaves the list and its heartbeat is archived; a living agent is not
// removed.
func TestForgetAgent(t *testing.T) {
	p, dir := booted(t, protocol.Boot{})
	c := Connect(dir, ClientOptions{})
	defer c.Close()
	if err := c.ForgetAgent(t.Context(), "nobody", time.Minute, time.Now()); !errors.Is(err, ErrNoAgent) {
		t.Errorf("forgot nobody: %v", err)
	}
	if err := p.Prepare(t.Context(), protocol.Boot{Agent: livhana, PID: 77, Process: protocol.Identity{PID: 77, Start: 5, Boot: "b"}, Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if err := c.ForgetAgent(t.Context(), livhana, time.Minute, time.Now()); !errors.Is(err, ErrTaken) {
		t.Errorf("forgot an agent whose process lives: %v", err)
	}
	if err := c.ForgetAgent(t.Context(), codex, time.Minute, time.Now()); err != nil {
		t.Fatal(err)
	}
	snap := p.Observe(t.Context(), protocol.ScanOrder{Now: time.Now().Add(3 * time.Second)})
	if names := agentNames(&snap); strings.Contains(names, codex) {
		t.Errorf("still listed: %s", names)
	}
	aside, _ := filepath.Glob(filepath.Join(dir, Base, forgotten, "codex_status.heartbeat.json.*"))
	if len(aside) != 1 || strings.Contains(read(t, dir, registry), codex) {
		t.Errorf("put aside: %v, registry %s", aside, read(t, dir, registry))
	}
}
