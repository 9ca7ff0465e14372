package ralph

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/protocoltest"
)

// A mark by steward keeps its time and its reason over a restart. A later change of the task makes the mark someone
// else's.
func TestOwnMarksAreRemembered(t *testing.T) {
	now := time.Now().Truncate(time.Millisecond)
	dir := lay(t, file(kanbanPath, kanban(line("=", "TASK-001", "x"), line("*", "TASK-002", "y")))+file(home+"/agent.pid", nobody))
	age(t, dir, kanbanPath, now.Add(-time.Hour))
	p := open(t, dir)
	c := about(protocol.VerbConclude, taskOf(t, look(t, p, now), "TASK-001"))
	c.Why = "nobody lives"
	at := now.Add(time.Second)
	if err := p.Apply(t.Context(), c, at); err != nil {
		t.Skip(err) // no process table here
	}
	check := func(what string, p *Project) {
		s := p.Observe(t.Context(), protocol.ScanOrder{Now: now.Add(time.Hour), Since: now})
		o := taskOf(t, &s, "TASK-001").Outcome
		if o == nil || !o.At.Equal(at) || !o.Appeared.Equal(at) || o.Failures[0].Message != "steward marked it: nobody lives" {
			t.Errorf("%s: %+v", what, o)
		}
		if o := taskOf(t, &s, "TASK-002").Outcome; o == nil || !o.Appeared.IsZero() || strings.Contains(o.Failures[0].Message, "steward") {
			t.Errorf("%s: somebody else's: %+v", what, o)
		}
	}
	check("at once", p)
	age(t, dir, kanbanPath, now.Add(50*time.Minute)) // another task has changed since
	check("later", p)
	check("after a restart", open(t, dir))
	if err := protocoltest.Rewrite(filepath.Join(dir, kanbanPath), "TASK-001]** x", "TASK-001]** x, by hand"); err != nil {
		t.Fatal(err)
	}
	s := look(t, open(t, dir), now.Add(time.Hour))
	if o := taskOf(t, s, "TASK-001").Outcome; strings.Contains(o.Failures[0].Message, "steward") {
		t.Errorf("written anew by somebody: %+v", o)
	}
}

// A failed task without a known end time stays available to commands; if there are too many, the first ones do.
func TestFailedTasksStayInReachOfCommands(t *testing.T) {
	var lines []string
	for i := range maxEnded + 20 {
		lines = append(lines, line("*", fmt.Sprintf("OLD-%04d", i), "x"))
	}
	now := time.Now()
	dir := lay(t, file(kanbanPath, kanban(append(lines, line(" ", "TASK-001", "x"))...)))
	p := open(t, dir)
	s := p.Observe(t.Context(), protocol.ScanOrder{Now: now, Since: now.Add(-time.Hour)})
	if len(s.Tasks) != maxEnded+1 || s.Tasks[0].ID != "OLD-0000" || shown(&s, fmt.Sprintf("OLD-%04d", maxEnded)) {
		t.Fatalf("%d tasks, the first %s", len(s.Tasks), s.Tasks[0].ID)
	}
	for _, v := range []protocol.Verb{protocol.VerbRequeue, protocol.VerbCancel} {
		k := taskOf(t, &s, map[protocol.Verb]string{protocol.VerbRequeue: "OLD-0007", protocol.VerbCancel: "OLD-0008"}[v])
		if err := p.Apply(t.Context(), about(v, k), now); err != nil {
			t.Errorf("%s: %v", v, err)
		}
	}
	text, _ := os.ReadFile(filepath.Join(dir, kanbanPath))
	if !strings.Contains(string(text), line(" ", "OLD-0007", "x")) || !strings.Contains(string(text), line("N", "OLD-0008", "x")) {
		t.Error("the kanban is not what was asked for")
	}
}

// The record stays small and keeps the newest lines.
func TestRecordIsTrimmed(t *testing.T) {
	dir := lay(t, file(kanbanPath, kanban(line("*", "TASK-001", "x")))+file(Base+"/"+failuresFile, strings.Repeat(`{"task": "OLD-1", "at": "2024-01-15T10:30:00Z"}`+"\n", 6000)))
	p := open(t, dir)
	now := time.Now()
	look(t, p, now)
	p.Begin(now)
	if err := p.failures.record(p.Folder, []byte(kanban(line("*", "TASK-001", "x"))), "TASK-001", "why\nnot"); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(filepath.Join(dir, Base, failuresFile))
	if err != nil || st.Size() > maxFailures {
		t.Errorf("%v, %d bytes", err, st.Size())
	}
	for what, p := range map[string]*Project{"the same": p, "another": open(t, dir)} {
		if o := taskOf(t, sameByHints(t, p, now), "TASK-001").Outcome; o.Failures[0].Message != "steward marked it: why not" {
			t.Errorf("%s: %+v", what, o)
		}
	}
}

func TestKanbanInTrouble(t *testing.T) {
	now := time.Now()
	good := kanban(line("=", "TASK-001", "x"))
	for name, c := range map[string]struct {
		spoil func(t *testing.T, dir, path string)
		want  string
	}{
		"missing":      {func(t *testing.T, _, path string) { os.Remove(path) }, "the kanban is missing, and workers are there"},
		"random bytes": {func(t *testing.T, dir, _ string) { write(t, dir, kanbanPath, "\xff\xfe\x00\x01 - [=] \x80\n") }, "the kanban is no text"},
		"a link": {func(t *testing.T, dir, path string) {
			os.Rename(path, filepath.Join(dir, "real.md"))
			if err := os.Symlink(filepath.Join(dir, "real.md"), path); err != nil {
				t.Skip(err)
			}
		}, "plain file"},
	} {
		for _, first := range []bool{true, false} {
			t.Run(fmt.Sprint(name, " at first ", first), func(t *testing.T) {
				dir := lay(t, file(kanbanPath, good)+file(home+"/agent.pid", nobody))
				p := open(t, dir)
				if !first {
					look(t, p, now)
				}
				c.spoil(t, dir, filepath.Join(dir, kanbanPath))
				s := look(t, p, now.Add(time.Second))
				if name != "a link" && (len(s.Faults) > 0 || s.Again.IsZero()) {
					t.Errorf("at once, again %v:\n%s", s.Again, protocoltest.Describe(s))
				}
				s = sameByHints(t, p, now.Add(4*time.Second))
				if len(s.Faults) != 1 || s.Faults[0].Path != kanbanPath || !strings.Contains(s.Faults[0].Problem, c.want) {
					t.Fatalf("it stays so:\n%s", protocoltest.Describe(s))
				}
				os.Remove(filepath.Join(dir, kanbanPath))
				write(t, dir, kanbanPath, good)
				if s := sameByHints(t, p, now.Add(60*time.Second)); len(s.Faults) != 0 || len(s.Tasks) != 1 {
					t.Errorf("it is well again:\n%s", protocoltest.Describe(s))
				}
			})
		}
	}
}

func TestSmallWords(t *testing.T) {
	dir := lay(t, file(kanbanPath, kanban(line(" ", "TASK-001", "x"), line("P", "TASK-002", "x"), line("N", "TASK-003", "x")))+file(home+"/agent.pid", nobody))
	p := open(t, dir)
	s := sameByHints(t, p, time.Now())
	if a, ok := s.Agent(workerOne); !ok || len(a.Tasks) != 0 || !a.Idle {
		t.Errorf("whose worker has ended while its task is to be done: %+v", a)
	}
	if k := taskOf(t, s, "TASK-002"); k.Awaits != "approval of its pull request" {
		t.Errorf("awaits %q", k.Awaits)
	}
	err := p.Apply(t.Context(), about(protocol.VerbRequeue, taskOf(t, s, "TASK-003")), time.Now())
	if err == nil || !strings.Contains(err.Error(), "TASK-003 is not planned ([N]); to have it done, write [ ] into its line") {
		t.Errorf("retry of what is not planned: %v", err)
	}
}
