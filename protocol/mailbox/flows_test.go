package mailbox

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/protocol/protocoltest"
)

// oneTask is a queue with one task in the given state, as the program writes it.
func oneTask(status, more string) string {
	return fmt.Sprintf(`{"version": "1", "tasks": [{"id": "task-001", "status": %q, "createdAt": "{{now-1h}}", "updatedAt": "{{now}}"%s}], "completed": []}`+"\n", status, more)
}

const oneDone = `{"version": "1", "tasks": [], "completed": [{"id": "task-001", "status": "completed", "createdAt": "{{now-1h}}", "updatedAt": "{{now}}"}]}` + "\n"

// put writes the queue a minute later, and scans.
func (r *testProject) put(text string) *protocol.Snapshot {
	r.Now = r.Now.Add(time.Minute)
	r.Write(queuePath, text)
	return r.pass(0)
}

// Protocol 003, Task State Transitions: no step of the diagram is a finding, except for a rejection, which the user is
// told of. Every other step is a finding until the task's next step.
func TestTransitions(t *testing.T) {
	texts := map[string]string{completed: oneDone}
	for _, s := range []string{pending, inProgress, awaitingReview, rejected} {
		texts[s] = oneTask(s, `, "rejectionReason": "r"`)
	}
	for from := range texts {
		for to := range texts {
			if from == to {
				continue
			}
			r := newTestProject(t, file(queuePath, texts[from]))
			first := r.pass(0)
			s := r.put(texts[to])
			stands := map[string]string{rejected: "rejected medium"}
			got, want := protocoltest.Codes(s, "task-001"), stands[to]
			if !steps[[2]string{from, to}] {
				want = strings.TrimSuffix("transition medium, "+stands[to], ", ")
			}
			if before := protocoltest.Codes(first, "task-001"); before != stands[from] || got != want {
				t.Errorf("%s → %s: %q, then %q, want %q", from, to, before, got, want)
			}
		}
	}
}

// The whole history of a task, with two rejections; the measures show how long reviews take.
func TestWayOfATask(t *testing.T) {
	r := newTestProject(t, file(queuePath, oneTask(pending, "")))
	r.pass(0)
	reason := `, "rejectionReason": "no tests"`
	for _, step := range []struct{ status, want string }{
		{inProgress, ""}, {awaitingReview, ""}, {rejected, "rejected medium"}, {pending, ""}, {inProgress, ""}, {awaitingReview, ""}, {rejected, "rejected_again high"},
		{pending, "rejected_again high"}, {inProgress, "rejected_again high"}, {awaitingReview, "rejected_again high"},
	} {
		more := ""
		if step.status == rejected {
			more = reason
		}
		s := r.put(oneTask(step.status, more))
		if got := protocoltest.Codes(s, "task-001"); got != step.want {
			t.Errorf("%s: %q, want %q", step.status, got, step.want)
		}
		if k := taskOf(t, s, "task-001"); k.Awaits != map[string]string{awaitingReview: "review"}[step.status] {
			t.Errorf("%s: it awaits %q", step.status, k.Awaits)
		}
	}
	s := r.put(oneDone)
	k := taskOf(t, s, "task-001")
	if protocoltest.Codes(s, "task-001") != "" || k.Outcome == nil || !k.Outcome.Succeeded() || !k.Outcome.Archived {
		t.Errorf("completed: %+v, %q", k.Outcome, protocoltest.Codes(s, "task-001"))
	}
	want := []protocol.Measure{{Name: "rejections", Value: 2}, {Name: "build_failures"}, {Name: "review_seconds", Value: 60}}
	if fmt.Sprint(s.Measures) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", s.Measures, want)
	}
	if s := r.put(oneTask(pending, "")); protocoltest.Codes(s, "task-001") != "transition medium, rejected_again high" {
		t.Errorf("a completed task that comes back: %q", protocoltest.Codes(s, "task-001"))
	}
}

// Protocol 003, Review Failures: a task is rejected, requeued by steward, and rejected again. The user is told of the
// second rejection, even if steward was restarted in between.
func TestRejectedTwiceAcrossARestart(t *testing.T) {
	r := newTestProject(t, file(queuePath, oneTask(rejected, `, "rejectionReason": "no tests"`)))
	s := r.pass(0)
	k := taskOf(t, s, "task-001")
	if k.Outcome == nil || k.Outcome.Failures[0] != (protocol.Failure{Code: "REJECTED", Message: "no tests", Severity: "error"}) || !k.Requeue || !k.Foreign {
		t.Fatalf("%+v", k)
	}
	r.Do(r.apply(requeueChange(k)))
	s = r.pass(time.Second)
	if k = taskOf(t, s, "task-001"); protocoltest.Codes(s, "task-001") != "" || !k.Visible || k.Attempt() != 2 || k.Attempts[0].Code != "REJECTED" {
		t.Fatalf("%+v %q", k, protocoltest.Codes(s, "task-001"))
	}
	r.reopen()
	r.pass(time.Second)
	r.put(oneTask(inProgress, ""))
	r.put(oneTask(awaitingReview, ""))
	if s = r.put(oneTask(rejected, `, "rejectionReason": "no tests"`)); protocoltest.Codes(s, "task-001") != "rejected_again high" {
		t.Errorf("%q", protocoltest.Codes(s, "task-001"))
	}
	if k = taskOf(t, s, "task-001"); requeueChange(k).Attempt != 2 {
		t.Errorf("%+v", k)
	}
}

// After a crash between the queue and the ledger, the next scan shows the entry as uncommitted. The same change commits
// it, and does not touch a queue that has moved on.
func TestRepair(t *testing.T) {
	for name, now := range map[string]string{"still pending": oneTask(pending, ""), "taken again": oneTask(inProgress, "")} {
		t.Run(name, func(t *testing.T) {
			r := newTestProject(t, file(queuePath, oneTask(rejected, "")))
			c := requeueChange(taskOf(t, r.pass(0), "task-001"))
			r.Do(r.p.Root.MkdirAll(attemptsDir, 0o755))
			r.Do(r.p.attempts.Enter(r.p.Root, c, r.Now))
			s := r.put(now)
			k := taskOf(t, s, "task-001")
			if len(k.Attempts) != 1 || k.Attempts[0].Committed {
				t.Fatalf("%+v", k.Attempts)
			}
			c.Ref = k.Ref
			before := r.Read(queuePath)
			r.Do(r.apply(c))
			if k = taskOf(t, r.pass(time.Second), "task-001"); !k.Attempts[0].Committed || r.Read(queuePath) != before {
				t.Errorf("%+v, queue %s", k.Attempts, r.Read(queuePath))
			}
		})
	}
}

// Protocol 003, Task State Transitions: a task in progress goes back through a rejection, which leaves its reason in the
// task, and a reset. The queue stays consistent. A task that awaits its review stays, however long it waits.
func TestReset(t *testing.T) {
	r := newTestProject(t, around)
	s := r.pass(time.Second)
	now := r.Now.UTC().Format(time.RFC3339)
	want := strings.NewReplacer(`"current": "task-001", "lastUpdated": "2026-01-02T04:04:05.000Z"`, `"current": null, "lastUpdated": "`+now+`"`,
		`"in_progress", "createdAt": "2026-01-02T03:04:05.000Z", "updatedAt": "2026-01-02T04:04:05.000Z", "x": 1.0}`,
		`"pending", "createdAt": "2026-01-02T03:04:05.000Z", "updatedAt": "`+now+`", "x": 1.0, "rejectionReason": "no orchestrator lives: status.json names process 4999999, which does not exist"}`).Replace(queueText)
	r.Do(r.apply(requeueChange(taskOf(t, s, "task-001"))))
	if got := r.Read(queuePath); got != want {
		t.Errorf("task-001 taken back: %s\nwant %s", got, want)
	}
	s = r.pass(0)
	want = strings.Replace(want, `"rejected", "createdAt": "2026-01-02T03:04:05Z",
         "updatedAt": "2026-01-02T04:00:00Z"`, `"pending", "createdAt": "2026-01-02T03:04:05Z",
         "updatedAt": "`+now+`"`, 1)
	want = strings.Replace(want, `"status" : "rejected"`, `"status" : "pending"`, 1)
	r.Do(r.apply(requeueChange(taskOf(t, s, "task-002"))))
	if got := r.Read(queuePath); got != want {
		t.Errorf("task-002 taken back: %s\nwant %s", got, want)
	}
	k := taskOf(t, r.pass(1000*time.Hour), "task-003")
	if k.Lost != "" || k.Awaits != "review" || protocoltest.Codes(r.pass(time.Second), "task-003") != "review low" {
		t.Errorf("it awaits its review: %+v", k)
	}
	if err := r.apply(requeueChange(k)); !errors.Is(err, protocol.ErrConflict) || r.Read(queuePath) != want {
		t.Errorf("what awaits review was put back: %v", err)
	}
}

// Protocol 003, Reading Messages: a message that lastRead does not cover is a finding after its reader's limit, until it is read.
func TestUnread(t *testing.T) {
	letter := func(read string) string {
		return `{"messages": [{"type": "task_assignment", "taskId": "task-001", "timestamp": "2026-01-02T03:04:05Z"}], "lastRead": ` + read + "}\n"
	}
	r := newTestProject(t, file(queuePath, oneTask(inProgress, ""))+file(devPath, letter("null")))
	r.Now = time.Now()
	codes := func(s *protocol.Snapshot) string { return protocoltest.Codes(s, "messages/to-developer.json") }
	s := r.pass(14 * time.Minute)
	if codes(s) != "" || s.Again.IsZero() || s.Again.After(r.Now.Add(time.Minute)) {
		t.Errorf("too early: %s, again %v", codes(s), s.Again)
	}
	if s = r.pass(2 * time.Minute); codes(s) != "unread medium" {
		t.Errorf("never read: %s", codes(s))
	}
	for read, want := range map[string]string{`"2026-01-02T03:04:06Z"`: "", `"2026-01-02T03:04:04Z"`: "unread medium"} {
		r.Write(devPath, letter(read))
		if s = r.pass(16 * time.Minute); codes(s) != want {
			t.Errorf("read at %s: %q, want %q", read, codes(s), want)
		}
	}
}

// Work is lost after no agent has been active for as long as a developer may be silent, and the adapter requests a scan at
// that time.
func TestLostAtItsTime(t *testing.T) {
	r := newTestProject(t, file(queuePath, oneTask(inProgress, "")))
	s := r.pass(0)
	due := r.Now.Add(15 * time.Minute)
	if k := taskOf(t, s, "task-001"); k.Lost != "" || s.Again.Before(due.Add(-2*time.Second)) || s.Again.After(due) {
		t.Fatalf("%q, again in %v", k.Lost, s.Again.Sub(r.Now))
	}
	if s = r.pass(14 * time.Minute); taskOf(t, s, "task-001").Lost != "" {
		t.Error("a minute too early")
	}
	if s = r.pass(time.Minute); taskOf(t, s, "task-001").Lost == "" || protocoltest.Codes(s, "task-001") != "stuck medium" {
		t.Error("not lost at its time")
	}
	r.Write(boardPath, `{"developer": {"status": "implementing", "lastActivity": "{{now}}"}}`)
	if s = r.pass(time.Second); taskOf(t, s, "task-001").Lost != "" {
		t.Error("lost although the developer is active")
	}
	r.Write(boardPath, `{"developer": {"status": "idle", "lastActivity": "{{now}}"}}`)
	if s = r.pass(time.Second); taskOf(t, s, "task-001").Lost == "" {
		t.Error("not lost although everybody says that they do nothing")
	}
}

// Protocol 003, Clearing Messages: a minute after the end of a task its remaining messages are cleared, one mailbox after
// the other.
func TestClearing(t *testing.T) {
	letters := `{"messages": [{"type": "task_assignment", "taskId": "task-001"}, {"type": "task_assignment", "taskId": "task-002"}, {"type": "x", "taskId": "task-001"}], "lastRead": null}` + "\n"
	r := newTestProject(t, file(queuePath, oneTask(awaitingReview, ""))+file(devPath, letters)+file(leadPath, letters))
	r.pass(0)
	s := r.put(oneDone)
	if k := taskOf(t, s, "task-001"); k.Late != nil || s.Again.IsZero() || s.Again.After(r.Now.Add(clearAfter)) {
		t.Fatalf("%+v, again %v", k.Late, s.Again)
	}
	for _, want := range []string{devPath, leadPath} {
		s = r.pass(time.Minute)
		k := taskOf(t, s, "task-001")
		if k.Late == nil || Base+"/"+k.Late.Path != want {
			t.Fatalf("%+v, want %s", k.Late, want)
		}
		c := change(k, protocol.VerbFile)
		c.Ref = *k.Late
		r.Do(r.apply(c))
		if got := r.Read(want); got != `{"messages": [{"type": "task_assignment", "taskId": "task-002"}], "lastRead": null}`+"\n" {
			t.Errorf("%s is %s", want, got)
		}
	}
	if k := taskOf(t, r.pass(time.Second), "task-001"); k.Late != nil {
		t.Errorf("%+v", k.Late)
	}
	sum := string(jsonfile.SumOf([]byte(r.Read(devPath))))
	for what, c := range map[string]protocol.Change{
		"of a task that is not completed": {Subject: about(protocol.KindTask, "task-002"), Judged: protocol.Judged{Ref: protocol.Ref{Path: "messages/to-developer.json", Sum: sum}}},
		"in a file that is no mailbox":    {Subject: about(protocol.KindTask, "task-001"), Judged: protocol.Judged{Ref: protocol.Ref{Path: "queue.json"}}},
	} {
		c.Verb = protocol.VerbFile
		if err := r.apply(c); !errors.Is(err, protocol.ErrConflict) {
			t.Errorf("messages %s: %v", what, err)
		}
	}
}

// A client that had the queue open during its replacement writes to the old file. Its write counts and is merged with
// steward's change.
func TestLateWrite(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"about another task": {`"status": "pending"`, `"status": "in_progress"`, "pending in_progress"},
		"about the same one": {`"status": "in_progress"`, `"status": "completed"`, "completed pending"},
	} {
		t.Run(name, func(t *testing.T) {
			two := strings.Replace(oneTask(inProgress, ""), "}]", `}, {"id": "task-002", "status": "pending"}]`, 1)
			r := newTestProject(t, file(queuePath, strings.Replace(two, "{{now}}", "{{now-1h}}", 1)))
			k := taskOf(t, r.pass(0), "task-001")
			client, err := os.OpenFile(r.Path(queuePath), os.O_RDWR, 0)
			r.Do(err)
			defer client.Close()
			text := r.Read(queuePath)
			r.Do(r.apply(requeueChange(k)))
			r.Do(client.Truncate(0))
			_, err = client.WriteAt([]byte(strings.Replace(text, c.old, c.new, 1)), 0)
			r.Do(err)
			r.pass(200 * time.Millisecond)
			s := r.pass(200 * time.Millisecond)
			got := stateOf(t, s, "task-001") + " " + stateOf(t, s, "task-002")
			if got != c.want {
				t.Errorf("%s, want %s\n%s", got, c.want, r.Read(queuePath))
			}
			if r.pass(3 * time.Second); r.p.Watched() > 0 {
				t.Error("the old file is watched for ever")
			}
		})
	}
}

// If another program has written to the new file since, that write is the newest: a late write to the old file is dropped.
func TestLateWriteAfterANewerOne(t *testing.T) {
	r := newTestProject(t, file(queuePath, strings.Replace(oneTask(inProgress, ""), "{{now}}", "{{now-1h}}", 1)))
	k := taskOf(t, r.pass(0), "task-001")
	client, err := os.OpenFile(r.Path(queuePath), os.O_RDWR, 0)
	r.Do(err)
	defer client.Close()
	r.Do(r.apply(requeueChange(k)))
	r.Write(queuePath, oneDone)
	_, err = client.WriteAt([]byte(strings.Replace(r.Read(queuePath), "task-001", "task-999", 1)), 0)
	r.Do(errors.Join(err, client.Truncate(int64(len(r.Read(queuePath))))))
	r.pass(200 * time.Millisecond)
	if s := r.pass(3 * time.Second); stateOf(t, s, "task-001") != completed || r.p.Watched() > 0 {
		t.Errorf("the newer one is lost:\n%s", r.Read(queuePath))
	}
}

// Nothing is corrected if no file names a process, because an operator may be running the orchestrator by hand.
func TestRunningWithoutANumber(t *testing.T) {
	r := newTestProject(t, file(boardPath, strings.Replace(boardText, "4999999", "null", 1)))
	a, _ := r.look().Agent(orchestratorName)
	if a.Presence != protocol.PresenceUnproved || !a.Idle || a.Ref != (protocol.Ref{}) {
		t.Errorf("%+v", a)
	}
	c := protocol.Change{Verb: protocol.VerbMark, Subject: about(protocol.KindAgent, orchestratorName), Status: "error", Judged: protocol.Judged{Ref: protocol.Ref{Sum: string(r.p.layouts[0].board.Value.sum)}}}
	if err := r.apply(c); !errors.Is(err, protocol.ErrConflict) {
		t.Errorf("mark: %v", err)
	}
	c.Subject.ID = developer
	if err := r.apply(c); !errors.Is(err, protocol.ErrUnsupported) {
		t.Errorf("mark of a role: %v", err)
	}
}

func stateOf(t *testing.T, s *protocol.Snapshot, id string) string {
	k := taskOf(t, s, id)
	switch {
	case k.Outcome != nil:
		return k.Outcome.Status
	case k.Visible:
		return pending
	}
	return inProgress
}

// A question is open until it is answered or cleared; at first it waits for the lead.
func TestPleaComesAndGoes(t *testing.T) {
	ask := `{"messages": [{"type": "question", "taskId": "task-001", "question": "Which database?", "options": ["a", "b"], "timestamp": "{{now}}"}], "lastRead": null}` + "\n"
	r := newTestProject(t, file(queuePath, oneTask(inProgress, ""))+file(leadPath, ask))
	s := r.pass(0)
	if len(s.Questions) != 1 || s.Questions[0].Blocking || s.Questions[0].Agent != developer || s.Questions[0].Due.Sub(r.Now).Round(time.Minute) != 5*time.Minute {
		t.Fatalf("%+v", s.Questions)
	}
	id := s.Questions[0].ID
	r.rewrite(leadPath, `"messages": [`, `"messages": [{"type": "question", "taskId": "task-001", "question": "Which database?", "options": ["a", "b"]}, `)
	if s = r.pass(time.Second); len(s.Questions) != 1 || s.Questions[0].ID != id {
		t.Errorf("another plea: %+v", s.Questions)
	}
	r.Write(devPath, `{"messages": [{"type": "answer", "taskId": "task-001", "text": "a", "timestamp": "{{now}}"}], "lastRead": null}`)
	if s = r.pass(time.Second); len(s.Questions) != 0 {
		t.Errorf("answered: %+v", s.Questions)
	}
	r.Write(devPath, `{"messages": [], "lastRead": null}`)
	if s = r.pass(time.Second); len(s.Questions) != 1 {
		t.Errorf("the answer is gone: %+v", s.Questions)
	}
	r.Write(leadPath, `{"messages": [], "lastRead": null}`)
	if s = r.pass(time.Second); len(s.Questions) != 0 {
		t.Errorf("cleared: %+v", s.Questions)
	}
}

// A task that ended before Since is not listed, unless its messages remain to be cleared.
func TestSince(t *testing.T) {
	r := newTestProject(t, around)
	for since, want := range map[time.Duration]string{0: "task-000", -time.Hour: "task-000", time.Hour: ""} {
		if since == time.Hour {
			r.Write(devPath, `{"messages": [], "lastRead": null}`)
		}
		look := protocol.ScanOrder{Now: r.Now}
		if since != 0 {
			look.Since = r.Now.Add(-time.Minute)
		}
		if since == time.Hour {
			look.Now = r.Now.Add(time.Second)
		}
		got := ""
		for _, k := range r.see(look).Tasks {
			if k.Outcome != nil && k.Outcome.Succeeded() {
				got = k.ID
			}
		}
		if got != want {
			t.Errorf("since %v: %q, want %q", since, got, want)
		}
		r.Write(devPath, devText)
	}
}

// A task that is completed between two scans is listed, even if its entry has no time of its end.
func TestCompletedWithoutATime(t *testing.T) {
	r := newTestProject(t, file(queuePath, `{"tasks": [{"id": "task-001", "status": "awaiting_review", "createdAt": "2026-01-02T03:04:05Z"}], "completed": []}`+"\n"))
	since := r.Now
	r.pass(0)
	r.Write(queuePath, `{"tasks": [], "completed": [{"id": "task-001", "createdAt": "2026-01-02T03:04:05Z"}, {"id": "task-000", "createdAt": "2026-01-02T03:04:05Z"}]}`+"\n")
	for range 2 {
		r.Now = r.Now.Add(time.Second)
		s := r.see(protocol.ScanOrder{Now: r.Now, Since: since})
		if len(s.Tasks) != 1 || s.Tasks[0].Outcome == nil || s.Tasks[0].Outcome.At.Before(since) {
			t.Errorf("%+v", s.Tasks)
		}
	}
}

// Scans by hints, scans without hints and full scans show the same.
func TestHintsSeeWhatFullLooksSee(t *testing.T) {
	r := newTestProject(t, around)
	for i, do := range []func(){
		func() {}, func() { r.rewrite(queuePath, `"awaiting_review"`, `"completed"`) }, func() { r.rewrite(boardPath, `"implementing"`, `"idle"`) },
		func() { r.rewrite(devPath, `"MVC"`, `null`) }, func() { r.Do(os.Remove(r.Path(devPath))) }, func() { r.Do(os.Remove(r.Path(queuePath))) },
	} {
		do()
		hinted := r.see(protocol.ScanOrder{Now: r.Now, Hints: []string{queuePath}})
		none := r.see(protocol.ScanOrder{Now: r.Now, Hints: []string{}})
		full := r.see(protocol.ScanOrder{Now: r.Now})
		if a, b, c := protocoltest.Describe(hinted), protocoltest.Describe(none), protocoltest.Describe(full); a != c || b != c {
			t.Errorf("step %d:\n%s\n%s\n%s", i, a, b, c)
		}
		r.Now = r.Now.Add(time.Second)
	}
}
