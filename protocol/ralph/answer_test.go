package ralph

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/protocoltest"
)

// decided returns an answer to TASK-001 as shown in s, given at that time.
func decided(t testing.TB, s *protocol.Snapshot, option string, at time.Time) protocol.Change {
	t.Helper()
	c := about(protocol.VerbAnswer, taskOf(t, s, "TASK-001"))
	c.Answer = &protocol.Answer{Key: "216a33f4", Option: option, Label: "in words: " + option, Why: "because", By: "Jesse", At: at}
	return c
}

func kanbanOf(t testing.TB, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, kanbanPath))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// onRecord returns steward's record of the answers about TASK-001; "" if there is none.
func onRecord(dir string) string {
	text, _ := os.ReadFile(filepath.Join(dir, Base, answersFile("TASK-001")))
	return string(text)
}

// Protocol 002, Status Updates: which markers a user's decision changes, and to which marker.
func TestAnswersFollowTheMarkers(t *testing.T) {
	for _, c := range []struct {
		marker, option, want string
		record               bool
		err                  string
	}{
		{"*", answerRetry, " ", true, ""},
		{"*", answerComplete, "x", true, ""},
		{"*", answerLeave, "*", true, ""},
		{"*", "", "*", true, ""},
		{"*", "done", "*", true, ""}, // the incident is done, which says nothing about the work
		{"=", "done", "=", true, ""},
		{"*", "wait", "*", true, ""},
		{" ", answerRetry, " ", true, ""}, // the task is already to be done
		{"x", answerComplete, "x", true, ""},
		{"P", answerComplete, "P", false, "is marked [P]"}, // a pull request must be merged first
		{"P", "", "P", true, ""},
		{"P", answerRetry, "P", false, "is marked [P]"},
		{" ", answerComplete, " ", false, "is marked [ ]"},
		{"x", answerRetry, "x", false, "is marked [x]"},
		{"N", answerRetry, "N", false, "is not planned"},
		{"N", answerComplete, "N", false, "is not planned"},
	} {
		t.Run(c.marker+c.option, func(t *testing.T) {
			dir := lay(t, file(kanbanPath, kanban(line(c.marker, "TASK-001", "x"), line("*", "TASK-002", "y"))))
			p, now := open(t, dir), time.Now()
			err := p.Apply(t.Context(), decided(t, look(t, p, now), c.option, now), now)
			if c.err == "" && err != nil || c.err != "" && (!errors.Is(err, protocol.ErrConflict) || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("got %v, want %q", err, c.err)
			}
			if got, want := kanbanOf(t, dir), kanban(line(c.want, "TASK-001", "x"), line("*", "TASK-002", "y")); got != want {
				t.Errorf("the kanban is\n%s\nwant\n%s", got, want)
			}
			record := onRecord(dir)
			if (record != "") != c.record || c.record && (!strings.Contains(record, `"rationale": "because"`) || !strings.Contains(record, "in words: "+c.option)) {
				t.Errorf("on record:\n%s", record)
			}
		})
	}
}

// An answer that leaves a task as it is, without further words, writes nothing.
func TestLeaveWritesNothing(t *testing.T) {
	dir := lay(t, file(kanbanPath, kanban(line("*", "TASK-001", "x"))))
	p, now := open(t, dir), time.Now()
	c := decided(t, look(t, p, now), answerLeave, now)
	c.Answer.Why = " \n"
	if err := p.Apply(t.Context(), c, now); err != nil || onRecord(dir) != "" {
		t.Errorf("%v, on record %s", err, onRecord(dir))
	}
}

// A reopened incident is answered under its old key. That answer is a new one, but repeating an answer has no effect.
func TestOneAnswerHasOneEffect(t *testing.T) {
	dir := lay(t, file(kanbanPath, kanban(line("*", "TASK-001", "x"))))
	p, now := open(t, dir), time.Now()
	c := decided(t, look(t, p, now), answerRetry, now)
	again := decided(t, look(t, p, now), answerRetry, now.Add(time.Hour))
	fails := func() {
		if err := protocoltest.Rewrite(filepath.Join(dir, kanbanPath), "- [ ] **[TASK-001]", "- [*] **[TASK-001]"); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		what string
		c    protocol.Change
		want string
	}{{"answered", c, " "}, {"the same once more", c, "*"}, {"it failed anew and is answered anew", again, " "}, {"the first once more", c, "*"}, {"the second once more", again, "*"}} {
		for _, p := range []*Project{p, open(t, dir)} {
			if err := p.Apply(t.Context(), step.c, now.Add(2*time.Hour)); err != nil {
				t.Errorf("%s: %v", step.what, err)
			}
		}
		if got, want := kanbanOf(t, dir), kanban(line(step.want, "TASK-001", "x")); got != want {
			t.Fatalf("%s:\n%s\nwant\n%s", step.what, got, want)
		}
		if step.want == " " {
			fails()
		}
	}
}

// After a crash between the record and the mark, the next run makes the mark.
func TestCrashBetweenRecordAndMark(t *testing.T) {
	dir := lay(t, file(kanbanPath, kanban(line("*", "TASK-001", "x"))))
	p, now := open(t, dir), time.Now()
	c := decided(t, look(t, p, now), answerComplete, now)
	p.Begin(now)
	if err := p.Guarded(t.Context(), func() error { return p.write.record("TASK-001", answerOf(c), stateTaken) }); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := open(t, dir).Apply(t.Context(), c, now.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if kanbanOf(t, dir) != kanban(line("x", "TASK-001", "x")) || strings.Count(onRecord(dir), `"state": "written"`) != 1 {
			t.Errorf("%s\n%s", kanbanOf(t, dir), onRecord(dir))
		}
	}
}

// The record of a task is limited to its newest answers. An unreadable record is not replaced.
func TestRecordOfAnswersIsBounded(t *testing.T) {
	dir := lay(t, file(kanbanPath, kanban(line("*", "TASK-001", "x"))))
	p, now := open(t, dir), time.Now()
	s := look(t, p, now)
	for n := range 3 * maxAnswers {
		c := decided(t, s, "", now.Add(time.Duration(n)*time.Second))
		c.Answer.Label = fmt.Sprint("word ", n, ";") + strings.Repeat("\x01", 100_000)
		if err := p.Apply(t.Context(), c, now); err != nil {
			t.Fatal(err)
		}
	}
	record := onRecord(dir)
	if len(record) > maxFile || strings.Count(record, "incident") != maxAnswers || !strings.Contains(record, fmt.Sprint("word ", 3*maxAnswers-1, ";")) {
		t.Errorf("%d bytes, %d answers", len(record), strings.Count(record, "incident"))
	}
	write(t, dir, Base+"/"+answersFile("TASK-001"), `{"answers": [`)
	if err := p.Apply(t.Context(), decided(t, s, answerRetry, now), now); err == nil {
		t.Error("a record that cannot be read is no reason to answer twice")
	}
	if kanbanOf(t, dir) != kanban(line("*", "TASK-001", "x")) || onRecord(dir) != `{"answers": [` {
		t.Errorf("%s\n%s", kanbanOf(t, dir), onRecord(dir))
	}
}

// Nothing is written about a task that is ambiguous, is gone, or never existed.
func TestAnswersThatMeanNoTask(t *testing.T) {
	text := kanban(line("*", "TASK-001", "x"), line("*", "TASK-001", "the same"))
	dir := lay(t, file(kanbanPath, text))
	p, now := open(t, dir), time.Now()
	c := decided(t, look(t, p, now), answerRetry, now)
	for _, option := range []string{answerRetry, answerComplete, ""} {
		c.Answer.Option = option
		if err := p.Apply(t.Context(), c, now); !errors.Is(err, errAmbiguous) || errors.Is(err, protocol.ErrConflict) {
			t.Errorf("two lines, %q: %v", option, err)
		}
	}
	for _, id := range []string{"", "../../kanban", "TASK-001/..", "TASK-001;reboot", "-f", "TASK-00001", "TASK-001\n", strings.Repeat("A", 1<<16)} {
		d := c
		if d.Subject = task(id); p.Apply(t.Context(), d, now) == nil {
			t.Errorf("%.40q is answered", id)
		}
	}
	d := c
	if d.Subject = task("TASK-777"); !errors.Is(p.Apply(t.Context(), d, now), protocol.ErrConflict) {
		t.Error("a task that is not there is answered")
	}
	if kanbanOf(t, dir) != text || onRecord(dir) != "" {
		t.Errorf("%s\n%s", kanbanOf(t, dir), onRecord(dir))
	}
	if err := os.Remove(filepath.Join(dir, kanbanPath)); err != nil {
		t.Fatal(err)
	}
	for _, option := range []string{answerRetry, answerComplete, ""} {
		c.Answer.Option = option
		if err := p.Apply(t.Context(), c, now); !errors.Is(err, protocol.ErrConflict) {
			t.Errorf("the kanban is gone, %q: %v", option, err)
		}
	}
	if names, _ := filepath.Glob(filepath.Join(dir, Base, answersDir, "*")); len(names) > 0 {
		t.Errorf("on record: %v", names)
	}
	if _, err := os.Stat(filepath.Join(dir, kanbanPath)); err == nil {
		t.Error("a kanban was made")
	}
}

// A title may contain anything: one byte changes, and the rest of the kanban stays the same byte for byte.
func TestAnswerLeavesTheKanbanAsItIs(t *testing.T) {
	tail := "\r\n \t\x1b[2J\u202e[=] **[TASK-001]** ```\n- [*] **[TASK-001\n## Notes\n" + strings.Repeat("x", 70_000) + "\nno newline \xff\xfe at the end"
	title := "`rm -rf ~`; $(reboot) \x1b]0;x\x07 **bold** [x]\r"
	dir := lay(t, file(kanbanPath, ""))
	write(t, dir, kanbanPath, kanban(line("*", "TASK-001", title))+tail)
	p, now := open(t, dir), time.Now()
	if err := p.Apply(t.Context(), decided(t, look(t, p, now), answerRetry, now), now); err != nil {
		t.Fatal(err)
	}
	if kanbanOf(t, dir) != kanban(line(" ", "TASK-001", title))+tail {
		t.Errorf("the kanban is %q", kanbanOf(t, dir))
	}
}

// Another program writes the kanban while steward waits for its lock. A change of another line survives the answer; a
// change of the task's own line cancels the answer.
func TestKanbanIsReplacedWhileItIsAnswered(t *testing.T) {
	for _, c := range []struct{ name, old, new, want string }{
		{"another task", "[ ] **[TASK-002]** y", "[=] **[TASK-002]** y", kanban(line(" ", "TASK-001", "x"), line("=", "TASK-002", "y"))},
		{"this task", "[*] **[TASK-001]** x", "[=] **[TASK-001]** x", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := lay(t, file(kanbanPath, kanban(line("*", "TASK-001", "x"), line(" ", "TASK-002", "y"))))
			path := filepath.Join(dir, kanbanPath)
			p := New(dir, Options{Flock: func(context.Context, *os.File) (func(), error) {
				text := strings.Replace(kanbanOf(t, dir), c.old, c.new, 1)
				write(t, dir, kanbanPath+".new", text)
				return func() {}, os.Rename(path+".new", path)
			}})
			defer p.Close()
			now := time.Now()
			err := p.Apply(t.Context(), decided(t, look(t, p, now), answerRetry, now), now)
			if c.want == "" {
				if !errors.Is(err, protocol.ErrConflict) || onRecord(dir) != "" || !strings.Contains(kanbanOf(t, dir), c.new) {
					t.Errorf("%v\n%s\n%s", err, kanbanOf(t, dir), onRecord(dir))
				}
			} else if err != nil || kanbanOf(t, dir) != c.want {
				t.Errorf("%v\n%s", err, kanbanOf(t, dir))
			}
		})
	}
}

// An answer must not interfere with the program's own resume: resume-state.json says when it resumes a worker.
func TestAnswerMindsTheProgramsOwnResuming(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		state string
		err   string
	}{
		"cooldown running": {fmt.Sprintf(`{"attempt_count": 2, "max_attempts": 5, "cooldown_until": %d}`, now.Add(time.Hour).Unix()), "attempt 3 of 5"},
		"cooldown over":    {fmt.Sprintf(`{"attempt_count": 2, "max_attempts": 5, "cooldown_until": %d}`, now.Add(-time.Hour).Unix()), ""},
		"exhausted":        {fmt.Sprintf(`{"attempt_count": 5, "max_attempts": 5, "cooldown_until": %d}`, now.Add(time.Hour).Unix()), ""},
		"given up":         {fmt.Sprintf(`{"attempt_count": 1, "terminal": true, "cooldown_until": %d}`, now.Add(time.Hour).Unix()), ""},
		"unreadable":       {`{"attempt_count": `, "cannot be read"},
	} {
		for _, option := range []string{answerRetry, answerComplete} {
			t.Run(name+" "+option, func(t *testing.T) {
				dir := lay(t, file(kanbanPath, kanban(line("*", "TASK-001", "x")))+file(home+"/prd.md", "x\n")+file(home+"/"+resumeFile, c.state))
				p := open(t, dir)
				err := p.Apply(t.Context(), decided(t, look(t, p, now), option, now), now)
				if c.err == "" && err != nil || c.err != "" && (!errors.Is(err, protocol.ErrConflict) || !strings.Contains(err.Error(), c.err)) {
					t.Errorf("got %v, want %q", err, c.err)
				}
				if changed := !strings.Contains(kanbanOf(t, dir), "[*]"); changed != (err == nil) || changed != (onRecord(dir) != "") {
					t.Errorf("%s\n%s", kanbanOf(t, dir), onRecord(dir))
				}
			})
		}
	}
}
