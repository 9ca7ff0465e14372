package mailbox

import (
	"fmt"
	"testing"
	"time"

	"github.com/livhana/steward/protocol/protocoltest"
)

// queueBy is a queue with one task in the given state, dated by a program's clock.
func queueBy(status, at string) string {
	return fmt.Sprintf(`{"version": "1", "tasks": [{"id": "task-001", "status": %q, "createdAt": %q, "updatedAt": %q}], "completed": []}`, status, at, at)
}

// Work is lost after no agent has been active for the developer's limit by steward's clock, however a program writes
// times: a change between two scans is as old as its file. For a change before the first scan only the zone is in doubt.
func TestLostByAnyClock(t *testing.T) {
	lost := func(t *testing.T, r *testProject, d time.Duration) bool {
		t.Helper()
		return taskOf(t, r.pass(d), "task-001").Lost != ""
	}
	for _, pen := range protocoltest.Pens() {
		t.Run(pen.Name, func(t *testing.T) {
			r := newTestProject(t, "")
			r.Write(queuePath, queueBy(pending, pen.Text(r.Now.Add(-3*time.Hour))))
			r.pass(time.Minute)
			r.Write(queuePath, queueBy(inProgress, pen.Text(r.Now)))
			if lost(t, r, time.Second) || lost(t, r, 14*time.Minute) {
				t.Error("in sight: lost too early")
			}
			if !lost(t, r, 3*time.Minute+time.Second) {
				t.Error("in sight: not lost at its time")
			}
		})
	}
	for _, pen := range protocoltest.Zones() {
		t.Run("before our time, "+pen.Name, func(t *testing.T) {
			r := newTestProject(t, "")
			r.Write(queuePath, queueBy(inProgress, pen.Text(r.Now)))
			if lost(t, r, 0) || lost(t, r, 14*time.Minute) {
				t.Error("lost too early")
			}
			if !lost(t, r, time.Minute+time.Second) {
				t.Error("not lost at its time")
			}
		})
	}
}

// A message is unread after its reader's limit unless lastRead covers it, whichever programs write the two, and by whatever
// clocks.
func TestUnreadByAnyClock(t *testing.T) {
	box := func(sent, read string) string {
		return fmt.Sprintf(`{"messages": [{"type": "task_assignment", "taskId": "task-001", "timestamp": %q}], "lastRead": %q}`, sent, read)
	}
	codes := func(r *testProject) string {
		return protocoltest.Codes(r.pass(16*time.Minute), "messages/to-developer.json")
	}
	utc := protocoltest.Pen{Name: "UTC"}
	for _, pen := range protocoltest.Pens() {
		t.Run(pen.Name, func(t *testing.T) {
			for _, pair := range [][2]protocoltest.Pen{{pen, pen}, {utc, pen}, {pen, utc}} {
				r := newTestProject(t, file(queuePath, oneTask(inProgress, "")))
				r.pass(0)
				sent, before := pair[0].Text(r.Now), pair[1].Text(r.Now.Add(-time.Minute))
				r.Write(devPath, box(sent, before))
				if got := codes(r); pair[0] == pair[1] && got != "unread medium" {
					t.Errorf("%s writes, %s reads: not read, and %q", pair[0].Name, pair[1].Name, got)
				}
				if pair[0].Skew > 0 && pair[0] != pair[1] {
					continue // dated tomorrow: only the same clock can mark it read
				}
				r.Write(devPath, box(sent, pair[1].Text(r.Now)))
				if got := codes(r); got != "" {
					t.Errorf("%s writes, %s reads: read, and %q", pair[0].Name, pair[1].Name, got)
				}
			}
		})
	}
}

// A question that a lead may answer first goes to the user after the lead's limit, by steward's clock.
func TestQuestionByAnyClock(t *testing.T) {
	for _, pen := range protocoltest.Pens() {
		t.Run(pen.Name, func(t *testing.T) {
			r := newTestProject(t, file(queuePath, oneTask(inProgress, ""))+file(leadPath, `{"messages": [], "lastRead": null}`))
			r.pass(0)
			asked := r.Now
			ask := fmt.Sprintf(`{"type": "question", "taskId": "task-001", "question": "which?", "timestamp": %q}`, pen.Text(asked))
			r.Write(leadPath, `{"messages": [`+ask+`], "lastRead": null}`)
			r.pass(time.Minute)
			r.Write(leadPath, `{"messages": [`+ask+`, {"type": "note", "taskId": "task-001"}], "lastRead": null}`)
			s := r.pass(time.Minute)
			if len(s.Questions) != 1 {
				t.Fatalf("%d pleas", len(s.Questions))
			}
			if off := s.Questions[0].Due.Sub(asked.Add(limits.Lead)); off.Abs() > 2*time.Minute+time.Second {
				t.Errorf("due %v off", off)
			}
		})
	}
}

// An orchestrator counts as living whatever the zone of its start time. The silence of its roles counts from the change
// that steward saw.
func TestOrchestratorByAnyClock(t *testing.T) {
	for _, pen := range protocoltest.Pens() {
		if pen.Skew < 0 {
			continue // a process shares its clock with the kernel; only its zone can make it old
		}
		t.Run(pen.Name, func(t *testing.T) {
			r := newTestProject(t, around)
			cmd := r.child("exec sleep 100")
			r.Now = time.Now()
			write := func(status string) {
				r.Write(boardPath, fmt.Sprintf(`{"orchestrator": {"running": true, "pid": %s, "startedAt": %q}, "developer": {"status": %q, "lastActivity": %q}}`,
					pidText(cmd), pen.Text(r.Now), status, pen.Text(r.Now)))
			}
			write("idle")
			if s := r.pass(time.Second); s.Yield == "" {
				t.Fatal("it lives")
			}
			write("implementing")
			if s := r.pass(14 * time.Minute); protocoltest.Codes(s, developer) != "" {
				t.Error("silent too early")
			}
			if s := r.pass(4 * time.Minute); protocoltest.Codes(s, developer) != "over_limit high" {
				t.Error("not silent at its time")
			}
		})
	}
}
