package ralph

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/protocoltest"
)

func TestParseKanbanReadsFields(t *testing.T) {
	text := kanban("- [ ] **[FEATURE-001]** Implement user authentication\n  - Description: Add [=] **[BUG-001]**\n  - Priority: HIGH\n"+
		"  - Dependencies: BUG-001, TASK-2\n  - Scope:\n    - Priority: LOW\n", "- [x] **[BUG-001]** Fix\r\n  Priority: critical\r\n  Dependencies: none\r") +
		"\n## Notes\n  - Priority: LOW\n"
	items := parseKanban([]byte(text))
	if len(items) != 2 {
		t.Fatalf("%+v", items)
	}
	a, b := items[0], items[1]
	if a.id != "FEATURE-001" || a.marker != todo || a.title != "Implement user authentication" || a.priority != protocol.PriorityHigh ||
		!slices.Equal(a.related, []string{"BUG-001", "TASK-2"}) || a.word != "" {
		t.Errorf("%+v", a)
	}
	if b.marker != complete || b.priority != protocol.PriorityCritical || len(b.related) != 0 || b.title != "Fix" {
		t.Errorf("%+v", b)
	}
	other := parseKanban(bytes.Replace([]byte(text), []byte("## Notes\n  - Priority: LOW"), []byte("## Other"), 1))
	if other[0].sum != a.sum || other[1].sum != b.sum {
		t.Error("what stands behind a heading belongs to no task")
	}
}

func TestMarkChangesOneByteOfTheLineThatWasJudged(t *testing.T) {
	text := []byte(kanban(line("=", "TASK-001", "a [=] b"), line("=", "TASK-002", "x"), line(" ", "TASK-003", "x"), line(" ", "TASK-003", "y")))
	items := parseKanban(text)
	got, err := setMarker(text, "TASK-002", items[1].sum, "=", failed)
	want := bytes.Replace(text, []byte("- [=] **[TASK-002]"), []byte("- [*] **[TASK-002]"), 1)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v\n%s", err, got)
	}
	if again, err := setMarker(got, "TASK-002", items[1].sum, "=", failed); again != nil || err != nil {
		t.Errorf("already so: %q, %v", again, err)
	}
	for _, c := range []struct {
		id, sum, from string
		want          error
	}{
		{"TASK-002", "other", "=", protocol.ErrConflict},
		{"TASK-002", items[1].sum, "*", protocol.ErrConflict},
		{"TASK-009", "", "=", protocol.ErrConflict},
		{"TASK-003", items[2].sum, " ", errAmbiguous},
	} {
		if got, err := setMarker(text, c.id, c.sum, c.from, failed); !errors.Is(err, c.want) || got != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestEveryTaskFieldComesFromTheFiles(t *testing.T) {
	dir := lay(t, file(kanbanPath, kanban(line("=", "TASK-001", "Ship it")+"\n  - Priority: HIGH\n  - Dependencies: TASK-002", line("x", "TASK-002", "Done")))+
		file(home+"/agent.pid", nobody)+
		file(home+"/checkpoints/run-1/checkpoint-9.json", `{"version": "1.0", "iteration": 9, "status": "in_progress", "timestamp": "2024-01-15T10:30:00Z", "next_steps": []}`+"\n")+
		file(home+"/checkpoints/run-2/checkpoint-2.json", `{"iteration": 2, "next_steps": ["old"]}`+"\n")+
		file(home+"/checkpoints/run-2/checkpoint-10.json", `{"iteration": 10, "status": "in_progress", "timestamp": "2024-01-15T10:40:00+0000", "next_steps": ["Write unit tests", "x"]}`))
	age(t, dir, home+"/checkpoints/run-1", time.Now().Add(-time.Hour))
	p := open(t, dir)
	k := taskOf(t, sameByHints(t, p, time.Now()), "TASK-001")
	if k.Title != "Ship it" || k.Priority != protocol.PriorityHigh || !slices.Equal(k.Related, []string{"TASK-002"}) || k.Timeout != protocol.NoTimeout ||
		!k.Foreign || k.Requeue || k.Agent != workerOne || !k.Started.Equal(time.Unix(1705312000, 0)) || k.Ref.Path != kanbanPath || k.Ref.Sum == "" {
		t.Errorf("%+v", k)
	}
	// Protocol 002, Structured Checkpoints: of the folders, one per run, the newest counts.
	if at := time.Date(2024, 1, 15, 10, 40, 0, 0, time.UTC); k.Progress.Step != "Write unit tests" || !k.Progress.At.Equal(at) || k.Progress.Percent != 0 {
		t.Errorf("progress %+v", k.Progress)
	}
	write(t, dir, home+"/checkpoints/checkpoint-11.json", `{"iteration": 11, "status": "completed", "timestamp": "2024-01-15T10:50:00Z"}`)
	if k := taskOf(t, sameByHints(t, p, time.Now()), "TASK-001"); k.Progress.Step != "completed" {
		t.Errorf("as the document draws it: %+v", k.Progress)
	}
}

// A task that ended before steward started is history; a task that ends between scans is news.
func TestEndings(t *testing.T) {
	dir := lay(t, file(kanbanPath, kanban(line("*", "TASK-001", "old"), line("x", "TASK-002", "old"), line("=", "TASK-003", "in hand"), line("*", "TASK-004", "no folder")))+
		file(home+"/violation_status.txt", "WORKSPACE_VIOLATION\n")+file(Base+"/workers/worker-TASK-003-1705312001/agent.pid", nobody)+
		file(Base+"/workers/worker-TASK-003-1705312001/results/1705312200-x.y-result.json", failResult))
	now := time.Now()
	age(t, dir, home, now.Add(-3*time.Hour))
	p := open(t, dir)
	since := now.Add(-2 * time.Hour)
	see := func(at time.Time) *protocol.Snapshot {
		s := p.Observe(t.Context(), protocol.ScanOrder{Now: at, Since: since})
		return &s
	}
	s := see(now)
	if len(s.Tasks) != 3 || shown(s, "TASK-002") || findingOf(s, "violation") != nil {
		t.Fatalf("history is not ours to tell:\n%s", protocoltest.Describe(s))
	}
	for _, id := range []string{"TASK-001", "TASK-004"} { // commands may name them, but they are not announced
		if o := taskOf(t, s, id).Outcome; !o.Appeared.IsZero() || o.Status != "failed" || o.At.After(since) {
			t.Errorf("%s: outcome %+v", id, o)
		}
	}
	if findingOf(s, "gate") != nil {
		t.Errorf("a gate of long ago:\n%s", protocoltest.Describe(s))
	}
	if err := protocoltest.Rewrite(filepath.Join(dir, kanbanPath), "[=] **[TASK-003]", "[*] **[TASK-003]"); err != nil {
		t.Fatal(err)
	}
	later := now.Add(time.Minute)
	o := taskOf(t, see(later), "TASK-003").Outcome
	if o == nil || !o.At.Equal(later) || !o.Appeared.Equal(later) || len(o.Failures) != 1 || o.Failures[0].Code != "NEEDS_HUMAN" ||
		o.Failures[0].Severity != "error" || o.Failures[0].Message != "x.y: FAIL no tests" {
		t.Errorf("outcome %+v", o)
	}
	if err := protocoltest.Rewrite(filepath.Join(dir, kanbanPath), "[*] **[TASK-003]", "[x] **[TASK-003]"); err != nil {
		t.Fatal(err)
	}
	if o := taskOf(t, see(later.Add(time.Minute)), "TASK-003").Outcome; !o.Succeeded() || !o.At.Equal(later.Add(time.Minute)) {
		t.Errorf("outcome %+v", o)
	}
}

// A kanban that loses tasks is being written: the loss counts only if the text stays so.
func TestTasksDoNotVanishForAMoment(t *testing.T) {
	dir := lay(t, file(kanbanPath, kanban(line(" ", "TASK-001", "a"), line(" ", "TASK-002", "b"))))
	p := open(t, dir)
	now := time.Now()
	look(t, p, now)
	short := kanban(line(" ", "TASK-001", "a"))
	for _, text := range []string{"", kanban(), short} {
		write(t, dir, kanbanPath, text)
		now = now.Add(time.Second)
		s := sameByHints(t, p, now)
		if len(s.Tasks) != 2 || len(s.Faults) > 0 || s.Again.IsZero() {
			t.Errorf("%q shows\n%s", text, protocoltest.Describe(s))
		}
		write(t, dir, kanbanPath, kanban(line(" ", "TASK-001", "a"), line(" ", "TASK-002", "b")))
		now = now.Add(time.Second)
		sameByHints(t, p, now)
	}
	write(t, dir, kanbanPath, short)
	sameByHints(t, p, now)
	now = now.Add(3 * time.Second)
	if s := sameByHints(t, p, now); len(s.Tasks) != 1 || len(s.Faults) != 0 {
		t.Errorf("it stays so:\n%s", protocoltest.Describe(s))
	}
	write(t, dir, kanbanPath, "")
	sameByHints(t, p, now)
	if s := sameByHints(t, p, now.Add(3*time.Second)); len(s.Tasks) != 1 || len(s.Faults) != 1 {
		t.Errorf("it stays empty:\n%s", protocoltest.Describe(s))
	}
	if err := os.Remove(filepath.Join(dir, kanbanPath)); err != nil {
		t.Fatal(err)
	}
	if s := sameByHints(t, p, now.Add(4*time.Second)); len(s.Tasks) != 0 || len(s.Faults) != 0 {
		t.Errorf("it is gone:\n%s", protocoltest.Describe(s))
	}
}

func TestVerbsRefuseWhatTheyDoNotMean(t *testing.T) {
	dir := lay(t, file(kanbanPath, kanban(line("x", "TASK-001", "done"), line("P", "TASK-002", "waits"), line("N", "TASK-003", "no"))))
	p := open(t, dir)
	s := look(t, p, time.Now())
	for _, c := range []struct {
		verb protocol.Verb
		id   string
		want error
	}{
		{protocol.VerbConclude, "TASK-001", protocol.ErrConflict},
		{protocol.VerbCancel, "TASK-001", protocol.ErrConflict},
		{protocol.VerbRequeue, "TASK-001", protocol.ErrConflict},
		{protocol.VerbConclude, "TASK-002", protocol.ErrConflict},
		{protocol.VerbRequeue, "TASK-002", protocol.ErrConflict},
		{protocol.VerbCancel, "TASK-003", nil},
		{protocol.VerbRequeue, "TASK-003", protocol.ErrConflict},
		{protocol.VerbCancel, "TASK-002", nil},
	} {
		if err := p.Apply(t.Context(), about(c.verb, taskOf(t, s, c.id)), time.Now()); !errors.Is(err, c.want) {
			t.Errorf("%s %s: %v, want %v", c.verb, c.id, err, c.want)
		}
	}
	for _, subject := range []protocol.Subject{task("../x"), task(""), {Kind: protocol.KindAgent, ID: "TASK-001"}} {
		if err := p.Apply(t.Context(), protocol.Change{Verb: protocol.VerbCancel, Subject: subject}, time.Now()); err == nil {
			t.Errorf("cancel of %v is not an error", subject)
		}
	}
	for _, id := range []string{"../x", "codex", "worker-TASK-001-1/.."} {
		c := protocol.Change{Verb: protocol.VerbReap, Subject: protocol.Subject{Kind: protocol.KindAgent, ID: id}}
		if err := p.Apply(t.Context(), c, time.Now()); err == nil {
			t.Errorf("reap of %q is not an error", id)
		}
	}
}

// Protocol 002, Recovery: the reason of lost work says why the program no longer resumes it.
func TestResumesAreOver(t *testing.T) {
	for state, want := range map[string]string{
		`{"attempt_count": 5, "max_attempts": 5}`:                                                          "its own program has used up its attempts to resume it: 5 of 5",
		`{"attempt_count": 1, "max_attempts": 5, "terminal": true, "terminal_reason": "last step failed"}`: "its own program does not resume it any more: last step failed",
	} {
		dir := inHandAnywhere(t)
		write(t, dir, home+"/resume-state.json", state)
		age(t, dir, home+"/resume-state.json", time.Now().Add(-time.Minute))
		if k := taskOf(t, sameByHints(t, open(t, dir), time.Now()), "TASK-001"); !strings.HasSuffix(k.Lost, "; "+want) {
			t.Errorf("%s: %q", state, k.Lost)
		}
	}
}

// Protocol 002, Recovery: a worker in its cooldown is resumed later, and the adapter requests a scan at that time.
func TestResumeAfterACooldown(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	due := now.Add(90 * time.Second)
	dir := inHandAnywhere(t)
	write(t, dir, home+"/resume-state.json", fmt.Sprintf(`{"attempt_count": 1, "max_attempts": 5, "cooldown_until": %d, "terminal": false}`, due.Unix()))
	age(t, dir, home+"/resume-state.json", now.Add(-time.Minute))
	p := open(t, dir)
	s := sameByHints(t, p, now)
	f := findingOf(s, "resume_pending")
	if f == nil || f.Severity != protocol.Low || !strings.Contains(f.Text, "attempt 2 of 5, not before "+due.UTC().Format("15:04:05")) || !s.Again.Equal(due) {
		t.Errorf("cooling: %+v, again %v, due %v", f, s.Again, due)
	}
	s = sameByHints(t, p, due)
	if f := findingOf(s, "resume_pending"); f == nil || strings.Contains(f.Text, "not before") || taskOf(t, s, "TASK-001").Lost != "" {
		t.Errorf("due:\n%s", protocoltest.Describe(s))
	}
	write(t, dir, home+"/resume-state.json", `{"attempt_count": 5, "max_attempts": 5, "cooldown_until": 0, "terminal": false}`)
	if s := sameByHints(t, p, due); findingOf(s, "resume_pending") != nil || taskOf(t, s, "TASK-001").Lost == "" {
		t.Errorf("used up:\n%s", protocoltest.Describe(s))
	}
}

// Protocol 002, Status Updates: when steward sees a task become in progress, the task has a minute for the set-up of its
// worker.
func TestWorkerHasTimeForItsSetUp(t *testing.T) {
	now := time.Now()
	dir := lay(t, file(kanbanPath, kanban(line(" ", "TASK-001", "x"), line(" ", "TASK-002", "x"))))
	p := open(t, dir)
	look(t, p, now)
	write(t, dir, kanbanPath, kanban(line("=", "TASK-001", "x"), line("=", "TASK-002", "x")))
	write(t, dir, home+"/prd.md", "x") // started long ago according to its name: it is resumed
	s := sameByHints(t, p, now.Add(time.Second))
	a, ok := s.Agent(workerOne)
	if taskOf(t, s, "TASK-001").Lost != "" || taskOf(t, s, "TASK-002").Lost != "" || !ok || !a.Idle || s.Again.IsZero() {
		t.Errorf("at once:\n%s", protocoltest.Describe(s))
	}
	s = sameByHints(t, p, now.Add(defaultGrace+2*time.Second))
	if taskOf(t, s, "TASK-001").Lost == "" || taskOf(t, s, "TASK-002").Lost == "" {
		t.Errorf("a minute later:\n%s", protocoltest.Describe(s))
	}
}
