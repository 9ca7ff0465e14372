package ralph

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/protocol/protocoltest"
)

// nobody is a pid above the highest that Linux assigns.
const nobody = "4999999\n"

const (
	kanbanPath = Base + "/" + kanbanFile
	workerOne  = "worker-TASK-001-1705312000"
	home       = Base + "/" + workersDir + "/" + workerOne
)

func open(t testing.TB, dir string) *Project {
	t.Helper()
	p := New(dir, Options{Flock: flock, Guard: func(context.Context, *jsonfile.Root) (func(), error) { return func() {}, nil }})
	t.Cleanup(p.Close)
	return p
}

func adapter(t testing.TB, dir string) protocol.Adapter { return open(t, dir) }

func file(name, text string) string { return "-- " + name + " --\n" + text }

// lay writes a project of files.
func lay(t testing.TB, files string) string {
	t.Helper()
	dir := t.TempDir()
	protocoltest.Write(t, dir, files, time.Now())
	return dir
}

func write(t testing.TB, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
}

func age(t testing.TB, dir, name string, at time.Time) {
	t.Helper()
	if err := os.Chtimes(filepath.Join(dir, filepath.FromSlash(name)), at, at); err != nil {
		t.Fatal(err)
	}
}

func look(t testing.TB, p *Project, now time.Time) *protocol.Snapshot {
	t.Helper()
	s := p.Observe(t.Context(), protocol.ScanOrder{Now: now})
	return &s
}

// sameByHints checks that a scan without hints shows the same as a full scan.
func sameByHints(t *testing.T, p *Project, now time.Time) *protocol.Snapshot {
	t.Helper()
	full := look(t, p, now)
	quick := p.Observe(t.Context(), protocol.ScanOrder{Now: now, Hints: []string{}})
	if got, want := protocoltest.Describe(&quick), protocoltest.Describe(full); got != want {
		t.Errorf("without hints:\n%s\nfull:\n%s", got, want)
	}
	return full
}

func taskOf(t testing.TB, s *protocol.Snapshot, id string) *protocol.Task {
	t.Helper()
	for i := range s.Tasks {
		if s.Tasks[i].ID == id {
			return &s.Tasks[i]
		}
	}
	t.Fatalf("no task %s in\n%s", id, protocoltest.Describe(s))
	return nil
}

func findingOf(s *protocol.Snapshot, code string) *protocol.Finding {
	for i := range s.Findings {
		if s.Findings[i].Code == code {
			return &s.Findings[i]
		}
	}
	return nil
}

func about(v protocol.Verb, k *protocol.Task) protocol.Change {
	return protocol.Change{Verb: v, Subject: task(k.ID), Why: "because", Judged: protocol.Judged{Ref: k.Ref}, Agent: k.Agent}
}

func kanban(lines ...string) string {
	text := "# Kanban\n\n## TASKS\n"
	for _, l := range lines {
		text += "\n" + l + "\n"
	}
	return text
}

func line(marker, id, title string) string {
	return fmt.Sprintf("- [%s] **[%s]** %s", marker, id, title)
}

func shown(s *protocol.Snapshot, id string) bool {
	for i := range s.Tasks {
		if s.Tasks[i].ID == id {
			return true
		}
	}
	return false
}

const failResult = `{"agent_type": "engineering.code-review", "status": "failure", "exit_code": 10, "started_at": "2024-01-15T10:30:00Z",
 "completed_at": "2024-01-15T10:45:00Z", "task_id": "TASK-001", "outputs": {"gate_result": "FAIL"}, "errors": ["no tests"], "metadata": {}}
`
