package ralph

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/protocoltest"
)

func TestPrepareLaysWhatTheDocumentDraws(t *testing.T) {
	dir := t.TempDir()
	if Detect(dir) {
		t.Error("an empty folder speaks the protocol")
	}
	p := open(t, dir)
	boot := protocol.Boot{Agent: "ralph", Now: time.Now()}
	if err := p.Prepare(t.Context(), boot); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{workersDir, logsDir, orchestratorDir} {
		if info, err := os.Stat(filepath.Join(dir, Base, d)); err != nil || !info.IsDir() {
			t.Errorf("%s: %v", d, err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, kanbanPath)); err != nil || string(text) != emptyKanban {
		t.Errorf("%q, %v", text, err)
	}
	if !Detect(dir) || OwnDir(dir) != filepath.Join(dir, Base, "steward") {
		t.Errorf("detected %v, own folder %s", Detect(dir), OwnDir(dir))
	}
	if s := sameByHints(t, p, time.Now()); len(s.Faults)+len(s.Findings)+len(s.Tasks) > 0 {
		t.Errorf("an empty kanban:\n%s", protocoltest.Describe(s))
	}
	theirs := kanban(line("=", "TASK-001", "theirs"))
	write(t, dir, kanbanPath, theirs)
	if err := p.Prepare(t.Context(), boot); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(filepath.Join(dir, kanbanPath)); string(text) != theirs {
		t.Errorf("a kanban that was there is now %q", text)
	}
	for _, name := range []string{"", "../x", "a/b"} {
		if err := p.Prepare(t.Context(), protocol.Boot{Agent: name, Now: time.Now()}); err == nil {
			t.Errorf("%q boots", name)
		}
	}
}

func TestDetect(t *testing.T) {
	for files, want := range map[string]bool{
		file(kanbanPath, "x\n"): true, file(home+"/prd.md", "x\n"): true, file(Base+"/logs/x", "x\n"): false, file(".ralphs/kanban.md", "x\n"): false,
		file(Base, "a file\n"): false, file(kanbanPath+"/x", "a folder\n"): false,
	} {
		if got := Detect(lay(t, files)); got != want {
			t.Errorf("%q: %v", files, got)
		}
	}
}

func TestFolderVanishesAndComesBack(t *testing.T) {
	dir := lay(t, file(kanbanPath, kanban(line(" ", "TASK-001", "x"))))
	p := open(t, dir)
	now := time.Now()
	if s := sameByHints(t, p, now); len(s.Tasks) != 1 {
		t.Fatal("no task")
	}
	if err := os.Rename(filepath.Join(dir, Base), filepath.Join(dir, "aside")); err != nil {
		t.Fatal(err)
	}
	if s := sameByHints(t, p, now); len(s.Tasks)+len(s.Faults) != 0 {
		t.Errorf("gone:\n%s", protocoltest.Describe(s))
	}
	write(t, dir, kanbanPath, kanban(line(" ", "TASK-002", "x"), line("x", "TASK-003", "x")))
	if s := sameByHints(t, p, now); len(s.Tasks) != 2 || s.Tasks[0].ID != "TASK-002" {
		t.Errorf("back:\n%s", protocoltest.Describe(s))
	}
}
