package agentstatus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

func boot(agent string, pid int, now time.Time) protocol.Boot {
	return protocol.Boot{Agent: agent, PID: pid, Now: now}
}

// runScripts runs the two boot scripts of protocol 000 in a project.
func runScripts(t testing.TB, dir string) {
	t.Helper()
	for _, tool := range []string{"bash", "python3"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed: the document's scripts cannot run", tool)
		}
	}
	scripts := filepath.Join(dir, "scripts")
	if err := os.MkdirAll(scripts, 0o755); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/codex_boot.sh")
	if err == nil {
		err = os.WriteFile(filepath.Join(scripts, "codex_agent_boot.sh"), text, 0o755)
	}
	first, err1 := os.ReadFile("testdata/livhana_boot.sh")
	if err = errors.Join(err, err1); err != nil {
		t.Fatal(err)
	}
	// The first script is a step of a larger script, which defines these.
	prelude := "set -euo pipefail; ROOT=$1; banner() { :; }; success() { :; }; info() { :; }\n"
	for _, args := range [][]string{{"-c", prelude + string(first), "boot", dir}, {filepath.Join(scripts, "codex_agent_boot.sh")}} {
		if out, err := exec.CommandContext(t.Context(), "bash", args...).CombinedOutput(); err != nil {
			t.Fatalf("document's script: %v\n%s", err, out)
		}
	}
}

// shape returns a document with its timestamps and pids blanked.
func shape(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			switch k {
			case "updated_at", "last_seen", "last_heartbeat", "timestamp", "pid":
				if inner != nil {
					v[k] = "*"
				}
			default:
				v[k] = shape(inner)
			}
		}
	}
	return v
}

func shapes(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	base := filepath.Join(dir, Base)
	err := filepath.Walk(base, func(path string, info os.FileInfo, err error) error {
		rel, _ := filepath.Rel(base, path)
		if err != nil || strings.HasPrefix(rel, own) {
			return err
		}
		if info.IsDir() {
			all[rel+"/"] = ""
			return nil
		}
		text, err := os.ReadFile(path)
		for line := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n") {
			if !strings.HasSuffix(rel, ".jsonl") {
				line = string(text)
			}
			var doc any
			if err := json.Unmarshal([]byte(line), &doc); err != nil {
				return fmt.Errorf("%s: %w", rel, err)
			}
			out, _ := json.Marshal(shape(doc))
			if !strings.Contains(all[rel], string(out)) || strings.HasSuffix(rel, ".jsonl") {
				all[rel] += string(out) + "\n"
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Booting leaves what the two boot scripts of protocol 000 leave: folders, keys, values and log events.
func TestBootIsTheDocumentsScripts(t *testing.T) {
	theirs, ours := t.TempDir(), t.TempDir()
	runScripts(t, theirs)
	for i, agent := range KnownAgents() {
		p := New(ours, Options{})
		if err := p.Prepare(t.Context(), boot(agent, 1000+i, time.Now())); err != nil {
			t.Fatal(err)
		}
		p.Close()
	}
	want, got := shapes(t, theirs), shapes(t, ours)
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s is\n%s\nthe scripts leave\n%s", name, got[name], text)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s is not the scripts'", name)
		}
	}
}

func TestBootMerges(t *testing.T) {
	registryFile := Base + "/" + registry
	s := newSite(t, file(registryFile, strings.ReplaceAll(registryText, `"type": "executor", "environment": "cursor-ide", `, `"type": "theirs", `))+
		file(Base+"/codex_status/heartbeat.json", `{"agent_name":"codex-cursor","status":"idle","health":{"gpu_ok":true},"mood":"fine"}`+"\n")+file(logPath, "{\"x\":1}\n"))
	s.Do(s.p.Prepare(t.Context(), boot(codex, 4242, s.Now)))
	stamp := s.Now.UTC().Format("2006-01-02T15:04:05Z")
	want := strings.NewReplacer(`"updated_at": "2026-01-02T03:04:05Z"`, `"updated_at": "`+stamp+`"`,
		`"type": "executor", "environment": "cursor-ide", "pid": null, "status": "active", "last_seen": "2026-01-02T03:04:05Z", "capabilities": ["code_execution"], "x": 1.0`,
		`"type": "theirs", "pid": 4242, "status": "active", "last_seen": "`+stamp+`", "capabilities": ["code_execution"], "x": 1.0, "environment": "cursor-ide"`).Replace(registryText)
	if got := s.Read(registryFile); got != want {
		t.Errorf("registry\n%s\nwant\n%s", got, want)
	}
	beat := s.Read(Base + "/codex_status/heartbeat.json")
	for _, kept := range []string{`"gpu_ok":true`, `"mood":"fine"`, `"cpu_ok":true`, `"current_capacity":0.8`, `"status":"active"`} {
		if !strings.Contains(beat, kept) {
			t.Errorf("heartbeat lacks %s:\n%s", kept, beat)
		}
	}
	if lines := strings.Split(s.Read(logPath), "\n"); lines[0] != `{"x":1}` || !strings.Contains(lines[1], "agent_ready") {
		t.Errorf("log %q", lines)
	}
}

func TestBootTwice(t *testing.T) {
	s := newSite(t, file("README", "x\n"))
	for _, again := range []struct {
		b     protocol.Boot
		lines int
	}{
		{boot(livhana, 77, s.Now), 1},
		{boot(livhana, 77, s.Now.Add(time.Minute)), 1}, // same process
		{boot(livhana, 77, s.Now.Add(time.Hour)), 1},
		{boot(livhana, 78, s.Now.Add(2*time.Hour)), 2}, // another process
		{boot(codex, 79, s.Now.Add(3*time.Hour)), 3},
		{boot(livhana, 78, s.Now.Add(4*time.Hour)), 3},
	} {
		s.Do(s.p.Prepare(t.Context(), again.b))
		if got := strings.Count(s.Read(logPath), "\n"); got != again.lines {
			t.Errorf("%s, pid %d: %d log lines, want %d:\n%s", again.b.Agent, again.b.PID, got, again.lines, s.Read(logPath))
		}
	}
}

// A boot that was interrupted between log and registry does not log twice.
func TestBootAfterACrash(t *testing.T) {
	s := newSite(t, file("README", "x\n"))
	s.Do(s.p.Prepare(t.Context(), boot(livhana, 77, s.Now)))
	s.Do(os.Remove(s.Path(Base + "/" + registry)))
	s.Do(s.p.Prepare(t.Context(), boot(livhana, 77, s.Now.Add(3*time.Second))))
	if got := strings.Count(s.Read(logPath), "\n"); got != 1 {
		t.Errorf("%d log lines", got)
	}
	s.Do(os.Remove(s.Path(Base + "/" + registry)))
	s.Do(s.p.Prepare(t.Context(), boot(livhana, 77, s.Now.Add(time.Hour))))
	if got := strings.Count(s.Read(logPath), "\n"); got != 2 {
		t.Errorf("%d log lines after an hour", got)
	}
}

func TestBootOfCodexFirst(t *testing.T) {
	s := newSite(t, file("README", "x\n"))
	if err := s.p.Prepare(t.Context(), boot(codex, 1, s.Now)); !errors.Is(err, ErrNotInitialized) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(s.Path("tmp")); !os.IsNotExist(err) {
		t.Error("something was made")
	}
}

func TestBootRecordsOnlyWhatWasVouchedFor(t *testing.T) {
	s := newSite(t, file("README", "x\n"))
	b := boot(livhana, 50, s.Now)
	b.Process = protocol.Identity{PID: 50, Start: 1<<63 + 7, Boot: "b", UID: 0}
	s.Do(s.p.Prepare(t.Context(), b))
	a, _ := s.look().Agent(livhana)
	if a.Process != b.Process {
		t.Errorf("process %+v", a.Process)
	}
	s.Do(s.p.Prepare(t.Context(), boot(livhana, 51, s.Now))) // no caller vouches for the new process
	if a, _ = s.look().Agent(livhana); a.Process.Proves() || a.PID != 51 {
		t.Errorf("the old process speaks for the new one: %+v", a)
	}
}

func TestBootUnderAHalfWrittenRegistry(t *testing.T) {
	half := registryText[:len(registryText)/2]
	s := newSite(t, file("README", "x\n"))
	s.Write(Base+"/"+registry, half)
	done := make(chan struct{})
	go func() { // the writer finishes while the boot waits
		defer close(done)
		<-time.After(200 * time.Millisecond)
		_ = os.WriteFile(s.Path(Base+"/"+registry), []byte(registryText), 0o640)
	}()
	s.Do(s.p.Prepare(t.Context(), boot(livhana, 9, s.Now)))
	<-done
	if got := s.Read(Base + "/" + registry); !strings.Contains(got, "keep me") || !strings.Contains(got, `"pid": 9`) {
		t.Errorf("registry\n%s", got)
	}

	s.Write(Base+"/"+registry, half) // the writer never finishes
	s.Do(s.p.Prepare(t.Context(), boot(livhana, 10, s.Now.Add(time.Hour))))
	aside, _ := filepath.Glob(s.Path(Base + "/" + own + "/broken_registry.*"))
	if len(aside) != 1 {
		t.Fatalf("put aside: %v", aside)
	}
	if text, _ := os.ReadFile(aside[0]); string(text) != half {
		t.Errorf("put aside: %q", text)
	}
	if a, ok := s.look().Agent(livhana); !ok || a.PID != 10 {
		t.Errorf("agent %+v", a)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Write(Base+"/"+registry, half)
	if err := s.p.Prepare(ctx, boot(livhana, 11, s.Now)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// Twenty concurrent boots, each with its own adapter and the real lock, lose no entry.
func TestBootAtOnce(t *testing.T) {
	dir := t.TempDir()
	guard := func(ctx context.Context, _ *jsonfile.Root) (func(), error) {
		lock, err := platform.LockQueue(ctx, filepath.Join(OwnDir(dir), "guard.lock"), 0o600)
		if err != nil {
			return nil, err
		}
		return func() { _ = lock.Unlock() }, nil
	}
	var names []string
	var all sync.WaitGroup
	for i := range 20 {
		name := fmt.Sprintf("worker-%d", i)
		names = append(names, name)
		all.Go(func() {
			p := New(dir, Options{Guard: guard})
			defer p.Close()
			if err := p.Prepare(t.Context(), boot(name, 100+i, time.Now())); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	all.Wait()
	p := New(dir, Options{})
	defer p.Close()
	snap := p.Observe(t.Context(), protocol.ScanOrder{Now: time.Now()})
	for _, name := range names {
		a, ok := snap.Agent(name)
		if !ok || a.Recorded != "active" || a.Beat.Mark == "" {
			t.Errorf("%s: %+v", name, a)
		}
	}
	text, _ := os.ReadFile(filepath.Join(dir, logPath))
	if got := strings.Count(string(text), "agent_ready"); got != 20 {
		t.Errorf("%d log lines", got)
	}
	if len(snap.Agents) != len(names) { // codex-cursor, which was never booted, is not listed
		t.Errorf("agents %s", agentNames(&snap))
	}
}

// An agent named codex does not get the folder of codex-cursor.
func TestBootTakesNobodysFolder(t *testing.T) {
	s := newSite(t, around)
	before := s.Read(Base + "/codex_status/heartbeat.json")
	s.Do(s.p.Prepare(t.Context(), boot("codex", 5, s.Now)))
	if s.Read(Base+"/codex_status/heartbeat.json") != before {
		t.Error("the heartbeat of codex-cursor was overwritten")
	}
	if a, ok := s.look().Agent("codex"); !ok || a.Beat.Mark == "" {
		t.Errorf("agents %s", agentNames(s.look()))
	}
	for _, bad := range []string{"", "..", "../x", "a/b", ".hidden", "a\nb", strings.Repeat("x", 300)} {
		if err := s.p.Prepare(t.Context(), boot(bad, 5, s.Now)); err == nil {
			t.Errorf("agent %q was booted", bad)
		}
	}
}
