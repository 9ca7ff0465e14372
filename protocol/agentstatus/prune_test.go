package agentstatus

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
)

// A record of attempts is removed 30 days after its last change, and only if its task had no file in six rounds.
func TestPruneAttempts(t *testing.T) {
	c := newCrew(t)
	put := func(file string) {
		t.Helper()
		c.do(os.MkdirAll(filepath.Dir(c.path(file)), 0o755))
		c.do(os.WriteFile(c.path(file), []byte("{}"), 0o644))
	}
	there := func(file string) bool { _, err := os.Lstat(c.path(file)); return err == nil }
	record := []string{attemptFile("lost", 1, "sched"), attemptFile("lost", 1, "result"), attemptFile("lost", 10, "late"), finalFile("lost")}
	kept := []string{
		finalFile("archived"), archivedFile("archived", resultExt),
		finalFile("held"), taskFile("held", heldExt),
		finalFile("a.1"), finalFile("a.2"), archivedFile("a.2", requestExt), // could be a record of "a" or of "a.1"
		attemptsDir + "/notes.json", attemptsDir + "/lost.mine.json",
	}
	for _, file := range append(record, kept...) {
		put(file)
	}
	p := New(c.dir, Options{})
	defer p.Close()
	now := time.Now()
	round := func(step time.Duration) {
		t.Helper()
		now = now.Add(step)
		c.do(p.Apply(t.Context(), protocol.Change{Verb: protocol.VerbLog, Subject: protocol.Subject{Kind: protocol.KindTask, ID: "lost"}, Entry: protocol.Entry{Event: "test"}, Why: "a test"}, now))
	}
	expect := func(want bool, when string) {
		t.Helper()
		for _, file := range record {
			if there(file) != want {
				t.Errorf("%s: %s is there: %t", when, file, !want)
			}
		}
	}
	for range goneRounds + 3 {
		round(tidyStep)
	}
	expect(true, "while it is young")
	again := taskFile("lost", requestExt)
	put(again)
	round(pruneAfter)
	expect(true, "while its request is there")
	c.do(os.Remove(c.path(again)))
	for range goneRounds - 1 {
		round(tidyStep)
		expect(true, "before six rounds without a file")
	}
	round(tidyStep)
	expect(false, "after six rounds")
	for _, file := range kept {
		if !there(file) {
			t.Errorf("%s is gone", file)
		}
	}
}

const tidyStep = time.Hour + time.Minute

// TestLogRemembersALongTask: what the log says about a task is not forgotten while its files are away for a moment,
// however old its last line is. Otherwise its events would be logged twice.
func TestLogRemembersALongTask(t *testing.T) {
	c := newCrew(t)
	const id = "00000001-1111-4111-8111-111111111111"
	now := time.Now()
	write := func(file, text string) {
		t.Helper()
		c.do(os.MkdirAll(filepath.Dir(c.path(file)), 0o755))
		c.do(os.WriteFile(c.path(file), []byte(text), 0o644))
	}
	write(logFile, `{"timestamp":"2026-01-01T00:00:00Z","event_type":"task_created","task_id":"`+id+`","source_agent":"livhana-layer1.1","message":"m","metadata":{}}`+"\n")
	request := `{"task_id":"` + id + `","task_type":"execute","target_agent":"codex-cursor","payload":{}}`
	write(taskFile(id, requestExt), request)
	p := New(c.dir, Options{})
	defer p.Close()
	logged := func(after time.Duration) bool {
		for _, task := range p.Observe(t.Context(), protocol.ScanOrder{Now: now.Add(after)}).Tasks {
			if task.ID == id {
				return task.HasLogged("task_created")
			}
		}
		return false
	}
	if !logged(0) || !logged(loggedKept+time.Minute) {
		t.Fatal("the line in the log is not seen")
	}
	c.do(os.Remove(c.path(taskFile(id, requestExt))))
	logged(loggedKept + 2*time.Minute)
	write(taskFile(id, requestExt), request)
	if !logged(loggedKept + 3*time.Minute) {
		t.Error("the line in the log is forgotten")
	}
}

// TestSettledTaskIsNotLoggedAgain: a completed task that was off the list is listed again when its files change. The lines
// that the log has about it must not be written a second time.
func TestSettledTaskIsNotLoggedAgain(t *testing.T) {
	c := newCrew(t)
	now := time.Now()
	write := func(file, text string) {
		t.Helper()
		c.do(os.MkdirAll(filepath.Dir(c.path(file)), 0o755))
		c.do(os.WriteFile(c.path(file), []byte(text), 0o644))
	}
	id := func(n int) string { return fmt.Sprintf("%08x-1111-4111-8111-111111111111", n) }
	const lines = `{"timestamp":"2026-01-01T00:00:00Z","event_type":"task_created","task_id":"%s","source_agent":"livhana-layer1.1","message":"m","metadata":{}}` + "\n"
	log := ""
	for n := range keepEnded + 2 {
		log += fmt.Sprintf(lines, id(n))
		write(taskFile(id(n), requestExt), `{"task_id":"`+id(n)+`","task_type":"execute","target_agent":"codex-cursor","payload":{}}`)
		write(taskFile(id(n), resultExt), `{"task_id":"`+id(n)+`","agent":"codex-cursor","status":"completed"}`)
		at := now.Add(time.Duration(n) * time.Second)
		c.do(os.Chtimes(c.path(taskFile(id(n), resultExt)), at, at))
	}
	write(logFile, log)
	p := New(c.dir, Options{})
	defer p.Close()
	look := func(after time.Duration, hints ...string) (listed, logged bool) {
		for _, task := range p.Observe(t.Context(), protocol.ScanOrder{Now: now.Add(after), Hints: hints}).Tasks {
			if task.ID == id(0) {
				return true, task.HasLogged("task_created")
			}
		}
		return false, false
	}
	if listed, logged := look(10 * time.Minute); !listed || !logged {
		t.Fatalf("at first: listed %t, logged %t", listed, logged)
	}
	if listed, _ := look(11 * time.Minute); listed {
		t.Fatal("the oldest completed task is still listed")
	}
	write(taskFile(id(0), resultExt), `{"task_id":"`+id(0)+`","agent":"codex-cursor","status":"completed", "summary": "late"}`)
	if listed, logged := look(12*time.Minute, Base+"/"+taskFile(id(0), resultExt)); !listed || !logged {
		t.Errorf("after its result was written again: listed %t, logged %t", listed, logged)
	}
}
