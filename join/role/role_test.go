package role

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/join/worker"
	"github.com/livhana/steward/protocol"
)

func TestARunGetsItsTask(t *testing.T) {
	b := newBoard("t-1")
	b.set("t-1", func(t *protocol.Assignment) { t.Path, t.Attempt = "/p/t-1.json", 2 })
	s := newSite(t, b, `printf '%s\n' "$1" "$2" "$STEWARD_TASK_ID $STEWARD_ROLE $STEWARD_PROTOCOL $STEWARD_PROJECT $KEY" >got; echo "I did it."`)
	s.o.Command = append(s.o.Command, "sh", "{task} {file} {project}", "{prompt}")
	s.o.Environment = []string{"KEY=value"}
	if tally := s.play(); tally.Taken != 1 || tally.Failed {
		t.Errorf("tally %+v", tally)
	}
	raw, _ := os.ReadFile(filepath.Join(s.dir, "got"))
	for _, part := range []string{"t-1 /p/t-1.json " + s.dir, `{"do":"t-1"}`, "attempt 2", "mind the gap", s.o.Program + " task done t-1", "t-1 builder board " + s.dir + " value"} {
		if !strings.Contains(string(raw), part) {
			t.Errorf("the run did not get %q:\n%s", part, raw)
		}
	}
	if r := s.report(); r.Kind != protocol.ReportDone || r.Summary != "I did it." || r.Agent != "builder" {
		t.Errorf("report %+v", r)
	}
	if len(b.joined) == 0 || b.joined[0].Task != "t-1" || b.joined[0].Process != s.o.Process || b.left != 1 {
		t.Errorf("joined %+v, left %d times", b.joined, b.left)
	}
}

func TestThePromptIsTheInputOfACommandWithoutAPlaceholder(t *testing.T) {
	s := newSite(t, newBoard("t-1"), `cat >got`)
	s.play()
	if raw, _ := os.ReadFile(filepath.Join(s.dir, "got")); !strings.Contains(string(raw), "You are the agent builder") {
		t.Errorf("input: %s", raw)
	}
}

// When a run makes no report, its exit and its last message become the report.
func TestReportsOfRuns(t *testing.T) {
	long := strings.Repeat("a line of talk\\n", 400)
	for name, c := range map[string]struct {
		script   string
		kind     protocol.ReportKind
		code     string
		severity string
		says     string // in the summary
	}{
		"words":              {`echo one; echo two`, protocol.ReportDone, "", "", "one\ntwo"},
		"nothing":            {`:`, protocol.ReportDone, "", "", "completed in"},
		"many words":         {`printf '` + long + `the end\n'`, protocol.ReportDone, "", "", "the end"},
		"a failure":          {`echo "it broke" >&2; exit 3`, protocol.ReportFailed, "EXECUTION_FAILED", "error", "exit code 3: it broke"},
		"a limit":            {`echo "You've hit your limit · resets 3pm"; exit 1`, protocol.ReportFailed, "RATE_LIMITED", "warning", "resets 3pm"},
		"a limit in JSON":    {`echo '{"type":"result","is_error":true,"result":"usage limit reached, resets 3pm"}'`, protocol.ReportFailed, "RATE_LIMITED", "warning", "resets 3pm"},
		"an envelope":        {`echo '{"type":"result","is_error":false,"result":"All done."}'`, protocol.ReportDone, "", "", "All done."},
		"a report":           {`echo talk; echo '{"status":"completed","summary":"built"}'`, protocol.ReportDone, "", "", "built"},
		"a reported failure": {`echo '{"status":"failed","errors":[{"code":"NO_KEY","message":"no key"}]}'`, protocol.ReportFailed, "NO_KEY", "error", ""},
		"a question":         {`echo '{"status":"blocked","question":"Which one?","options":["A","B"]}'`, protocol.ReportBlocked, "", "", "Which one?"},
		"done, but exit 1":   {`echo '{"status":"completed","summary":"built"}'; exit 1`, protocol.ReportFailed, "EXECUTION_FAILED", "error", "built"},
		"no program":         {"", protocol.ReportFailed, "FILE_NOT_FOUND", "error", "there-is-no-such-program"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, newBoard("t-1"), c.script)
			if c.script == "" {
				s.o.Command = []string{"there-is-no-such-program"}
			}
			s.play()
			r := s.report()
			var f protocol.Failure
			if r.Failure != nil {
				f = *r.Failure
			}
			if r.Kind != c.kind || f.Code != c.code || f.Severity != c.severity || !strings.Contains(r.Summary, c.says) || len(r.Summary) > 3000 {
				t.Errorf("report %+v\nfailure %+v", r, f)
			}
		})
	}
}

func TestFurtherKeysOfAReport(t *testing.T) {
	s := newSite(t, newBoard("t-1"), `echo '{"status":"needs_fixes","issues":2,"spec":"specs/a.md","files_created":["a.go"],"next_steps":[{"action":"test it"},"ship it"]}'`)
	s.play()
	r := s.report()
	if r.Kind != protocol.ReportDone || r.Fields["payload.status"] != "needs_fixes" || r.Fields["payload.spec"] != "specs/a.md" || len(r.Issues) != 1 ||
		strings.Join(r.Created, " ") != "a.go" || strings.Join(r.Next, ", ") != "test it, ship it" {
		t.Errorf("report %+v", r)
	}
}

func TestARunThatReportedItselfIsNotReportedAgain(t *testing.T) {
	b := newBoard("t-1")
	s := newSite(t, b, `touch begun; while [ ! -e go ]; do sleep 0.02; done; exit 1`)
	go func() {
		s.until("the run", func() bool { _, err := os.Stat(filepath.Join(s.dir, "begun")); return err == nil })
		b.set("t-1", func(t *protocol.Assignment) { t.State = protocol.TaskDone })
		_ = os.WriteFile(filepath.Join(s.dir, "go"), nil, 0o600)
	}()
	if tally := s.play(); len(b.reports) != 0 || tally.Failed {
		t.Errorf("%+v, reports %+v", tally, b.reports)
	}
}

func TestARunEndsWhenAnotherProcessHasItsTask(t *testing.T) {
	b := newBoard("t-1")
	s := newSite(t, b, `touch begun; exec sleep 600`)
	go func() {
		s.until("the run", func() bool { _, err := os.Stat(filepath.Join(s.dir, "begun")); return err == nil })
		b.set("t-1", func(t *protocol.Assignment) { t.Worker = protocol.Identity{PID: 1, Start: 1} })
		s.hints <- struct{}{}
	}()
	if s.play(); len(b.reports) != 0 || !strings.Contains(s.text(), "another process has it now") {
		t.Errorf("reports %+v\n%s", b.reports, s.text())
	}
}

// A project whose folder is removed under a run takes no report any more. The runner ends instead of trying for ever.
func TestAReportThatNobodyCanReadIsDropped(t *testing.T) {
	b := newBoard("t-1")
	b.refuse = protocol.ErrAbsent
	s := newSite(t, b, "exit 0")
	if s.play(); len(b.reports) != 0 || !strings.Contains(s.text(), "it ended without a report of this worker") {
		t.Errorf("reports %+v\n%s", b.reports, s.text())
	}
}

// The time at which a run must end means nothing once it has ended: the runner sleeps until it writes the report again.
func TestAnEndedRunHasNoDeadline(t *testing.T) {
	s := newSite(t, newBoard("t-1"), "exit 0")
	r := New(s.o)
	j := &taken{task: protocol.Assignment{ID: "t-1"}, accepted: protocol.TaskPending, endBy: time.Now().Add(-time.Second), halt: func(error) {}}
	r.jobs["t-1"] = j
	r.conclude(t.Context(), j, worker.Ended{})
	if j.report == nil || !j.endBy.IsZero() {
		t.Errorf("report %+v, deadline %v", j.report, j.endBy)
	}
}

func TestAStoppedRunIsReported(t *testing.T) {
	s := newSite(t, newBoard("t-1", "t-2"), `touch begun; exec sleep 600`)
	s.o.Drain = false
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		s.until("the run", func() bool { _, err := os.Stat(filepath.Join(s.dir, "begun")); return err == nil })
		stop()
	}()
	if _, err := New(s.o).Run(ctx); err != nil {
		t.Fatal(err)
	}
	if r := s.report(); r.Kind != protocol.ReportFailed || r.Failure.Code != "WORKER_STOPPED" {
		t.Errorf("report %+v", r)
	}
}

func TestTheLimitOfARun(t *testing.T) {
	s := newSite(t, newBoard("t-1"), `exec sleep 600`)
	s.o.Limit = 50 * time.Millisecond
	s.play()
	if r := s.report(); r.Kind != protocol.ReportFailed || r.Failure.Code != "TIMEOUT" {
		t.Errorf("report %+v", r)
	}
}

func TestHeldTasksAndTheGate(t *testing.T) {
	b := newBoard("t-1", "t-2")
	b.set("t-1", func(t *protocol.Assignment) { t.Waits = "held by you" })
	s := newSite(t, b, `:`)
	asked := 0
	s.o.Gate = func(_ context.Context, task string) (bool, string, time.Duration) {
		asked++
		return asked > 2, "the machine is full", time.Millisecond
	}
	if tally := s.play(); tally.Taken != 1 || b.tasks["t-1"].State != protocol.TaskPending || b.tasks["t-2"].State != protocol.TaskDone {
		t.Errorf("%+v %+v", tally, b.tasks)
	}
	if said := s.text(); strings.Count(said, "the machine is full") != 1 || !strings.Contains(said, "t-1 waits: held by you") {
		t.Errorf("said:\n%s", said)
	}
}

// A report that the protocol refuses, or that cannot be written at once, is not lost.
func TestReportsThatAreRefused(t *testing.T) {
	b := newBoard("t-1")
	b.refuse = &protocol.InvalidError{Problems: []string{"output.files must be a list"}}
	s := newSite(t, b, `:`)
	s.play()
	if r := s.report(); r.Kind != protocol.ReportFailed || !strings.Contains(r.Failure.Message, "output.files must be a list") {
		t.Errorf("report %+v", r)
	}
	b = newBoard("t-1")
	b.refuse = errors.New("no space left on device")
	s = newSite(t, b, `:`)
	s.play()
	if r := s.report(); r.Kind != protocol.ReportDone {
		t.Errorf("report %+v", r)
	}
}

func TestSeveralAtOnce(t *testing.T) {
	b := newBoard("t-1", "t-2", "t-3")
	s := newSite(t, b, `touch "$STEWARD_TASK_ID"; while [ ! -e t-1 ] || [ ! -e t-2 ]; do sleep 0.02; done`)
	s.o.Jobs = 2
	if tally := s.play(); tally.Taken != 3 || len(b.reports) != 3 {
		t.Errorf("%+v", tally)
	}
}

// orchestra is a board whose orchestrator has steps to take.
type orchestra struct{ *board }

func (o orchestra) Orchestrate(context.Context, time.Time) ([]protocol.Receipt, error) {
	if len(o.steps) == 0 {
		return nil, nil
	}
	n := o.steps[0]
	o.steps = o.steps[1:]
	return make([]protocol.Receipt, n), nil
}

func TestTheOrchestratorActsWithoutACommand(t *testing.T) {
	b := newBoard()
	b.steps = []int{2, 1, 0, 5}
	s := newSite(t, b, "")
	s.o.Command, s.o.Participant = nil, orchestra{b}
	if tally := s.play(); tally.Taken != 3 {
		t.Errorf("took %d steps, want those before nothing was due", tally.Taken)
	}
	s.o.Participant = b
	if _, err := New(s.o).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "no command is given") {
		t.Errorf("a role that steward cannot play: %v", err)
	}
}
