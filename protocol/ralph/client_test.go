//go:build linux

package ralph

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/protocol/protocoltest"
)

func connect(t testing.TB, dir string) *Client {
	t.Helper()
	c := Connect(dir, Options{Flock: flock})
	t.Cleanup(c.Close)
	return c
}

func text(t testing.TB, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Protocol 002, Kanban State Communication: a new task is an entry to do, with its fields, below the others; the id is the
// next one after all that are in use, a finished and archived task's included.
func TestSubmit(t *testing.T) {
	before := "# Kanban\n\n## TASKS\n\n<!-- done: TASK-040, TASK-041 -->\n- [x] **[TASK-002]** Old\n  - Priority: LOW\n- [ ] **[GH-77]** From an issue\n- [ ] **[GH-78]** Another"
	dir := lay(t, file(kanbanPath, before))
	c := connect(t, dir)
	r, err := c.Submit(t.Context(), protocol.Order{Title: "Ship  it", Text: "Build it.\nThen ship it.", Priority: "high", After: []string{"TASK-002", "TASK-041"},
		Fields: map[string]any{"Scope": []any{"the server", "the page"}, "Complexity": "LOW"}}, time.Now())
	if err != nil || r.ID != "TASK-042" || r.State != protocol.TaskPending || r.Path != filepath.Join(dir, kanbanPath) {
		t.Fatalf("%+v, %v", r, err)
	}
	want := before + "\n\n- [ ] **[TASK-042]** Ship it\n  - Description: Build it. Then ship it.\n  - Priority: HIGH\n  - Dependencies: TASK-002, TASK-041\n" +
		"  - Complexity: LOW\n  - Scope:\n    - the server\n    - the page\n"
	if got := text(t, dir, kanbanPath); got != want {
		t.Errorf("kanban\n%s\nwant\n%s", got, want)
	}
	if _, err := os.Stat(filepath.Join(dir, kanbanPath+".lock")); err != nil {
		t.Error("the lock file must stay:", err)
	}
	if r, err := c.Submit(t.Context(), protocol.Order{ID: "fix-7", Title: "x"}, time.Now()); err != nil || r.ID != "fix-7" {
		t.Errorf("with an id: %+v, %v", r, err)
	}
}

func TestNextID(t *testing.T) {
	for _, c := range []struct{ kanban, folder, want string }{
		{"", "", "TASK-001"},
		{line(" ", "GH-12", "x"), "", "TASK-001"},
		{line(" ", "AB-1", "x") + "\n" + line(" ", "AB-3", "x") + "\n" + line(" ", "TASK-9", "x"), "", "AB-004"},
		{line(" ", "TASK-0009", "x"), "", "TASK-0010"},
		{line(" ", "TASK-001", "x"), "worker-TASK-017-1705312000", "TASK-018"},
		{line(" ", "TASK-9999", "x"), "", ""},
	} {
		if got, _ := nextID([]byte(c.kanban), []string{c.folder}); got != c.want {
			t.Errorf("after %q and %q: %q, want %q", c.kanban, c.folder, got, c.want)
		}
	}
}

// Nothing is written when a check fails, and the error lists every problem.
func TestSubmitRefuses(t *testing.T) {
	dir := lay(t, file(kanbanPath, kanban(line(" ", "TASK-001", "x"), "<!-- done: TASK-000 -->"))+file(Base+"/workers/worker-TASK-009-1/prd.md", "x\n"))
	c, before := connect(t, dir), text(t, dir, kanbanPath)
	invalid := &protocol.InvalidError{}
	for _, o := range []protocol.Order{
		{}, {Title: "x\x00y"}, {Title: "\xff"}, {Title: strings.Repeat("x", maxTitle+1)}, {Title: "x", Text: strings.Repeat("x", maxField+1)},
		{Title: "- [ ] **[TASK-001]** again"}, {Title: "x", Text: "see\n- [x] **[TASK-001]** done"}, {Title: "see **[TASK-001]**"},
		{Title: "x", Priority: "urgent"}, {Title: "x", After: []string{"TASK-1, TASK 2"}}, {Title: "x", To: "developer"}, {Title: "x", From: "me"},
		{Title: "x", Type: "bug"}, {Title: "x", Document: []byte(`{}`)}, {ID: "../x", Title: "x"}, {Title: "x", Fields: map[string]any{"a:\nb": "x"}},
		{Title: "x", Fields: map[string]any{"Scope": []any{}}}, {Title: "x", Fields: map[string]any{"Scope": map[string]any{}}}, {Title: "x", Fields: map[string]any{"priority": []any{"HIGH"}}},
	} {
		if _, err := c.Submit(t.Context(), o, time.Now()); !errors.As(err, &invalid) || len(invalid.Problems) == 0 {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for id, want := range map[string]error{"TASK-001": jsonfile.ErrExist, "TASK-000": jsonfile.ErrExist, "TASK-009": jsonfile.ErrExist} {
		if _, err := c.Submit(t.Context(), protocol.Order{ID: id, Title: "x"}, time.Now()); !errors.Is(err, want) {
			t.Errorf("%s: %v", id, err)
		}
	}
	if _, err := c.Submit(t.Context(), protocol.Order{Title: "x", After: []string{"TASK-500"}}, time.Now()); !errors.Is(err, protocol.ErrNoTask) {
		t.Errorf("an unknown dependency: %v", err)
	}
	if got := text(t, dir, kanbanPath); got != before {
		t.Errorf("the kanban changed:\n%s", got)
	}
	if _, err := connect(t, t.TempDir()).Submit(t.Context(), protocol.Order{Title: "x"}, time.Now()); !errors.Is(err, protocol.ErrAbsent) {
		t.Errorf("no folder: %v", err)
	}
	dir = lay(t, file(home+"/prd.md", "x\n"))
	if _, err := connect(t, dir).Submit(t.Context(), protocol.Order{Title: "x"}, time.Now()); !errors.Is(err, protocol.ErrAbsent) {
		t.Errorf("no kanban: %v", err)
	}
}

// Protocol 002, Agent communication: a task is shown with its line, its worker, the latest result of each step and the
// checkpoint.
func TestShowAndPending(t *testing.T) {
	dir := lay(t, file(kanbanPath, kanban(line("*", "TASK-001", "First")+"\n  - Priority: LOW", line(" ", "TASK-002", "Second")+"\n  - Dependencies: TASK-001", line(" ", "TASK-003", "Third")+"\n  - Priority: CRITICAL"))+
		file(home+"/results/1705312200-audit-result.json", failResult)+file(home+"/checkpoints/checkpoint-1.json", `{"iteration": 1, "status": "in_progress", "next_steps": ["test"]}`+"\n"))
	c := connect(t, dir)
	a, err := c.Show(t.Context(), "TASK-001", time.Now())
	if err != nil || a.State != protocol.TaskFailed || a.Title != "First" || a.Agent != workerOne || a.Attempt != 1 {
		t.Fatalf("%+v, %v", a, err)
	}
	for _, part := range []string{`- [*] **[TASK-001]** First\n  - Priority: LOW\n"`, `"gate":"FAIL"`, `"next_steps":["test"]`, workerOne} {
		if !strings.Contains(string(a.Message), part) {
			t.Errorf("no %s in %s", part, a.Message)
		}
	}
	list, err := c.Pending(t.Context(), "", time.Now())
	if err != nil || len(list) != 2 || list[0].ID != "TASK-003" || list[1].Waits != "TASK-001 is [*]" {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := c.Show(t.Context(), "TASK-404", time.Now()); !errors.Is(err, protocol.ErrNoTask) {
		t.Error(err)
	}
	if _, err := c.Pending(t.Context(), "developer", time.Now()); !errors.Is(err, protocol.ErrUnsupported) || !strings.Contains(err.Error(), "wiggum worker start") {
		t.Error(err)
	}
	if _, err := c.Accept(t.Context(), "TASK-002", protocol.Acceptance{Agent: "developer"}, time.Now()); !errors.Is(err, protocol.ErrUnsupported) {
		t.Error(err)
	}
}

// Protocol 002, Status Updates: each report sets one marker, of a task that no worker runs, and no other byte.
func TestReport(t *testing.T) {
	for _, try := range []struct {
		from string
		kind protocol.ReportKind
		to   string
		want error
	}{
		{" ", protocol.ReportDone, "x", nil}, {"*", protocol.ReportDone, "x", nil}, {"x", protocol.ReportDone, "x", nil},
		{" ", protocol.ReportFailed, "*", nil}, {"x", protocol.ReportFailed, "", protocol.ErrEnded}, {"*", protocol.ReportReturned, " ", nil},
		{"*", protocol.ReportRejected, "N", nil}, {"P", protocol.ReportCancel, "N", nil}, {" ", protocol.ReportCancel, "N", nil},
		{"N", protocol.ReportReturned, "", protocol.ErrEnded}, {" ", protocol.ReportProgress, "", protocol.ErrUnsupported}, {" ", protocol.ReportBlocked, "", protocol.ErrUnsupported},
	} {
		dir := lay(t, file(kanbanPath, fmt.Sprintf(kanbanText, try.from)))
		c := connect(t, dir)
		r, err := c.Report(t.Context(), "TASK-001", protocol.Report{Kind: try.kind, Agent: "Ann", Summary: "said so", Issues: []string{"and this"}}, time.Now())
		if want := fmt.Sprintf(kanbanText, max(try.to, map[bool]string{true: "", false: try.from}[try.want == nil])); !errors.Is(err, try.want) || text(t, dir, kanbanPath) != want {
			t.Errorf("[%s] %s: %+v, %v\n%s", try.from, try.kind, r, err, text(t, dir, kanbanPath))
		}
		if try.want == nil && try.from != try.to && !strings.Contains(text(t, dir, Base+"/"+answersFile("TASK-001")), "said so; and this") {
			t.Errorf("[%s] %s: the words are lost", try.from, try.kind)
		}
	}
	c := connect(t, lay(t, file(kanbanPath, kanban(line("P", "TASK-001", "x"), line(" ", "TASK-002", "x"), line(" ", "TASK-002", "x")))))
	if _, err := c.Report(t.Context(), "TASK-001", protocol.Report{Kind: protocol.ReportDone}, time.Now()); err == nil || !strings.Contains(err.Error(), "wiggum worker merge TASK-001") {
		t.Error(err)
	}
	if _, err := c.Report(t.Context(), "TASK-002", protocol.Report{Kind: protocol.ReportDone}, time.Now()); !errors.Is(err, errAmbiguous) {
		t.Error(err)
	}
	invalid := &protocol.InvalidError{}
	if _, err := c.Report(t.Context(), "TASK-001", protocol.Report{Kind: protocol.ReportDone, Created: []string{"x"}, Options: []string{"y"}}, time.Now()); !errors.As(err, &invalid) || len(invalid.Problems) != 2 {
		t.Error(err)
	}
	if s := look(t, open(t, c.p.dir), time.Now()); len(s.Faults) > 0 {
		t.Errorf("%+v", s.Faults)
	}
}

// command is an adapter whose changes are commands of a Client, for the suite's crashes between any two steps.
type command struct {
	*Project
	c *Client
}

var commandVerbs = []protocol.Verb{protocol.VerbFile, protocol.VerbConclude}

func (a command) Apply(ctx context.Context, c protocol.Change, now time.Time) (err error) {
	switch c.Verb {
	case protocol.VerbFile:
		_, err = a.c.Submit(ctx, protocol.Order{ID: "TASK-004", Title: "One more"}, now)
		if errors.Is(err, jsonfile.ErrExist) {
			err = nil // in place already
		}
	case protocol.VerbConclude:
		_, err = a.c.Report(ctx, "TASK-001", protocol.Report{Kind: protocol.ReportFailed, Agent: "Ann", Summary: "no way"}, now)
	default:
		return protocol.ErrUnsupported
	}
	return err
}

func TestCommandSuite(t *testing.T) {
	protocoltest.Run(t, protocoltest.Suite{
		Open: func(t testing.TB, dir string) protocol.Adapter { return command{open(t, dir), connect(t, dir)} },
		Now:  time.Now,
		Unsupported: slices.DeleteFunc([]protocol.Verb{protocol.VerbRecord, protocol.VerbHold, protocol.VerbRelease, protocol.VerbRenew, protocol.VerbRetry, protocol.VerbBury,
			protocol.VerbConclude, protocol.VerbCancel, protocol.VerbFile, protocol.VerbMark, protocol.VerbLog, protocol.VerbUnlock, protocol.VerbRequeue, protocol.VerbReap,
			protocol.VerbPause, protocol.VerbResume, protocol.VerbAnswer}, func(v protocol.Verb) bool { return slices.Contains(commandVerbs, v) }),
		Cases: []protocoltest.Case{{
			Name: "submit", Verb: protocol.VerbFile, Files: around(" "), Change: change(protocol.VerbFile), Careless: "it adds a task",
			Shows: shows("the new task", func(s *protocol.Snapshot) bool { return find(s, "TASK-004").Visible }),
			Want:  file(kanbanPath, fmt.Sprintf(kanbanText, " ")+"\n\n- [ ] **[TASK-004]** One more\n  - Description: One more\n  - Priority: MEDIUM\n  - Dependencies: none\n"),
			Free:  []string{kanbanPath + ".lock"},
		}, {
			Name: "fail", Verb: protocol.VerbConclude, Files: around(" "), Change: change(protocol.VerbConclude),
			Shows: shows("the reason", func(s *protocol.Snapshot) bool {
				o := find(s, "TASK-001").Outcome
				return o != nil && strings.Contains(o.Failures[0].Message, "Ann says: no way")
			}),
			Want: file(kanbanPath, fmt.Sprintf(kanbanText, "*")) + "\n", Free: []string{kanbanPath + ".lock", Base + "/" + failuresFile, Base + "/" + answersDir + "/*"},
			Careless: "a person marks the task as it is",
		}},
	})
}
