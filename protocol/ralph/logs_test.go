package ralph

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

func appendTo(t *testing.T, dir, name, text string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, filepath.FromSlash(name)), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o640)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func event1(name, message string) string {
	return fmt.Sprintf(`{"ts":"2024-01-15T10:30:00+0000","event":%q,"worker_id":%q,"task_id":"TASK-001","message":%q}`+"\n", name, workerOne, message)
}

// Protocol 002, Event Log Format: the log grows, ends in the middle of a line, and is rotated by truncation.
func TestEventLogIsReadAsItGrows(t *testing.T) {
	const log = Base + "/logs/activity.jsonl"
	dir := inHandAnywhere(t)
	write(t, dir, log, event1("task.started", ""))
	p := open(t, dir)
	now := time.Now()
	said := func() string {
		s := sameByHints(t, p, now)
		if f := findingOf(s, "error"); f != nil {
			return f.Text
		}
		return ""
	}
	signs := func() string {
		a, _ := look(t, p, now).Agent(workerOne)
		return a.Signs
	}
	if got := said(); got != "" {
		t.Errorf("no error yet: %q", got)
	}
	before := signs()
	half := event1("error", "first")
	appendTo(t, dir, log, half[:40])
	if got := said(); got != "" || signs() != before {
		t.Errorf("half a line: %q", got)
	}
	appendTo(t, dir, log, half[40:])
	if got := said(); got != "first" || signs() == before {
		t.Errorf("the whole line: %q", got)
	}
	write(t, dir, log, event1("error", "2nd")) // shorter: truncated in place
	if got := said(); got != "2nd" {
		t.Errorf("after the rotation: %q", got)
	}
	if err := os.Rename(filepath.Join(dir, log), filepath.Join(dir, log+".1")); err != nil {
		t.Fatal(err)
	}
	said()
	write(t, dir, log, event1("error", "third, in a file that is longer than the one before"))
	if got := said(); !strings.HasPrefix(got, "third") {
		t.Errorf("after a rotation by rename: %q", got)
	}
	appendTo(t, dir, log, strings.Repeat("x", 3*logChunk)+"\n"+event1("error", "after a line that nobody writes"))
	if got := said(); !strings.HasPrefix(got, "after a line") {
		t.Errorf("after a line of %d bytes: %q", 3*logChunk, got)
	}
	appendTo(t, dir, log, strings.Repeat(event1("step.started", "x"), 20000)+event1("error", "at the end of much"))
	if got := said(); got != "at the end of much" {
		t.Errorf("after a flood: %q", got)
	}
}

// inHandAnywhere is a project whose worker is gone and is therefore shown as an agent on any system with a process table.
func inHandAnywhere(t *testing.T) string {
	t.Helper()
	return lay(t, file(kanbanPath, kanban(line("=", "TASK-001", "Ship it")))+file(home+"/agent.pid", nobody)+file(Base+"/logs/x", ""))
}

func TestErrorsOfLongAgoAreHistory(t *testing.T) {
	dir := inHandAnywhere(t)
	write(t, dir, Base+"/logs/activity.jsonl", event1("error", "old"))
	p := open(t, dir)
	s := p.Observe(t.Context(), protocol.ScanOrder{Now: time.Now(), Since: time.Now().Add(-time.Hour)})
	if f := findingOf(&s, "error"); f != nil {
		t.Errorf("%+v", f)
	}
}

func TestWhatIsRememberedOfWorkersIsBounded(t *testing.T) {
	j := newEventLog()
	now := time.Now()
	for i := range 3 * maxWorkers {
		j.add(event{worker: fmt.Sprintf("worker-TASK-%03d-%d", i%1000, i), name: "x", at: jsonfile.Stated{At: now.Add(time.Duration(i) * time.Second)}})
	}
	keep := map[string]*worker{"worker-TASK-000-0": {}}
	j.prune(keep)
	if len(j.of) != 1 || j.of["worker-TASK-000-0"] == nil {
		t.Errorf("%d are remembered", len(j.of))
	}
}

// Protocol 002, On Violation: violations are reported for the newest worker of an open task, and only recent ones.
func TestViolationsLogIsNewsOnce(t *testing.T) {
	dir := inHandAnywhere(t)
	p := open(t, dir)
	now := time.Now()
	since := now.Add(-time.Hour)
	see := func() *protocol.Finding {
		s := p.Observe(t.Context(), protocol.ScanOrder{Now: now, Since: since})
		return findingOf(&s, "violation")
	}
	entry := func(at time.Time, text string) string {
		bar := strings.Repeat("=", 80) + "\n"
		return bar + "VIOLATION: Workspace Escape\nTimestamp: " + at.Format("2006-01-02T15:04:05-0700") + "\nAgent Dir: /x/" + home + "\n" + text + "\n" + bar + "\n"
	}
	write(t, dir, Base+"/"+violationsFile, entry(now.Add(-2*time.Hour), "Edit: /x/old"))
	if f := see(); f != nil {
		t.Errorf("history: %+v", f)
	}
	appendTo(t, dir, Base+"/"+violationsFile, entry(now, "Edit: /x/new"))
	if f := see(); f == nil || f.Severity != protocol.High || f.Subject != task("TASK-001") || !strings.Contains(f.Text, "/x/new") {
		t.Errorf("news: %+v", f)
	}
	write(t, dir, Base+"/"+violationsFile, "")
	if f := see(); f != nil {
		t.Errorf("the log was emptied: %+v", f)
	}
}
