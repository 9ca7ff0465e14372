package handoffs

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

func (s *site) submit(c *Client, o protocol.Order) protocol.Receipt {
	s.T.Helper()
	r, err := c.Submit(s.T.Context(), o, s.Now)
	s.Do(err)
	return r
}

// folders are the folders that boot makes.
var folders = file(Base+"/handoffs/accepted/.keep", "") + file(Base+"/handoffs/completed/.keep", "")

func (s *site) shown(c *Client, id string) protocol.Assignment {
	s.T.Helper()
	a, err := c.Show(s.T.Context(), id, s.Now)
	s.Do(err)
	return a
}

// Protocol 001, Message Types: the two agents give the type, and an agent alone gives the other one.
func TestSubmitFollowsTheTableOfTypes(t *testing.T) {
	s := booted(t)
	c := s.client()
	for _, w := range [][5]string{
		{"planner", "builder", typeTask, "planner", "builder"}, {"builder", "reviewer", typeReview, "builder", "reviewer"},
		{"reviewer", "", typeFix, "reviewer", "fixer"}, {"fixer", "", typeRereview, "fixer", "reviewer"}, {"", "fixer", typeFix, "reviewer", "fixer"},
		{"", "", typeTask, human, orchestrator}, {"", "planner", typeTask, human, "planner"}, {"planner", "writer", typeTask, "planner", "writer"},
	} {
		a := s.shown(c, s.submit(c, protocol.Order{From: w[0], To: w[1], Text: "x"}).ID)
		if a.Type != w[2] || a.Source != w[3] || a.Agent != w[4] {
			t.Errorf("%q to %q: %s from %s to %s", w[0], w[1], a.Type, a.Source, a.Agent)
		}
	}
	if list := found(s.look(), codeRoute); len(list) != 1 { // the writer is not in the table
		t.Errorf("findings %v", list)
	}
}

// Protocol 001, Message Format: a message that breaks it is not written.
func TestSubmitRefuses(t *testing.T) {
	s := booted(t)
	c := s.client()
	s.submit(c, protocol.Order{ID: "taken", To: "builder", Text: "x"})
	for _, w := range []struct {
		order protocol.Order
		want  string
	}{
		{protocol.Order{From: "builder", To: "fixer", Text: "x"}, "no type of message from builder to fixer"},
		{protocol.Order{From: "builder", To: "fixer", Type: typeFix, Text: "x"}, "a fix_request goes from reviewer to fixer"},
		{protocol.Order{To: "builder", Priority: "soon"}, "priority"},
		{protocol.Order{ID: "../../x", To: "builder"}, "not a name for a file"},
		{protocol.Order{To: "a/b"}, "not a valid agent name"},
		{protocol.Order{To: "builder", Fields: map[string]any{"context.workflow": "party"}}, "not one of feature, bugfix, refactor"},
		{protocol.Order{To: "builder", Fields: map[string]any{"from.x": 1}}, "set from.x"},
		{protocol.Order{To: "builder", Fields: map[string]any{"status": "accepted"}}, "status must be pending"},
		{protocol.Order{Document: json.RawMessage(`{"type": "task_handoff"`)}, "handoffs"},
		{protocol.Order{Document: json.RawMessage(`{"type": "task_handoff"}`)}, "message_id is missing"},
		{protocol.Order{ID: "taken", To: "builder"}, "exist"},
		{protocol.Order{To: "builder", After: []string{"taken"}}, "submit it when taken is completed"},
	} {
		_, err := c.Submit(t.Context(), w.order, s.Now)
		if w.want == "handoffs" {
			w.want = ""
		}
		if err == nil || !strings.Contains(err.Error(), w.want) {
			t.Errorf("%+v: %v", w.order, err)
		}
	}
	if got := messages(t, s.Dir); got != "task_handoff pending pending" {
		t.Errorf("written: %s", got)
	}
	absent := Connect(t.TempDir(), Options{})
	defer absent.Close()
	if _, err := absent.Submit(t.Context(), protocol.Order{}, s.Now); nameOf(err) != protocol.ErrAbsent.Error() {
		t.Errorf("no folder: %v", err)
	}
}

// Protocol 001, Shared State File: only the keys that the action means change; the rest keeps every byte. Boot writes idle,
// acceptance writes active.
func TestStateKeepsItsBytes(t *testing.T) {
	s := newSite(t, file(boxPath(pending, "1"), task("1", "pending"))+folders+file(statePath,
		`{"x":[1,2 ,3],"agents":{"planner":{"status":"idle"},"builder":{"status":"idle","mood":"good"}},"locks":{},"current_agent":null,"y":1.0}`))
	c := s.client()
	_, err := c.Accept(t.Context(), "1", protocol.Acceptance{Agent: "builder"}, s.Now)
	s.Do(err)
	at := jsonfile.FormatTime(s.Now)
	want := `{"x":[1,2 ,3],"agents":{"planner":{"status":"idle"},"builder":{"status":"active","mood":"good","last_active":"` + at + `"}},"locks":{},"current_agent":"builder","y":1.0}`
	if got := strings.TrimSpace(s.Read(statePath)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A state file of another tool is left alone, and half of one stops every action before it writes.
func TestForeignAndHalfState(t *testing.T) {
	s := newSite(t, file(boxPath(pending, "1"), task("1", "pending"))+folders+file(statePath, `{"mine": true}`))
	c := s.client()
	r, err := c.Accept(t.Context(), "1", protocol.Acceptance{}, s.Now)
	if err != nil || !strings.Contains(r.Note, "belongs to another tool") || s.Read(statePath) != "{\"mine\": true}" && s.Read(statePath) != "{\"mine\": true}\n" {
		t.Errorf("%+v %v\n%s", r, err, s.Read(statePath))
	}
	s.Write(statePath, `{"agents": {"builder": `)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Report(ctx, "1", protocol.Report{Kind: protocol.ReportDone}, s.Now); err == nil {
		t.Error("half a state file: no error")
	}
	if got := messages(t, s.Dir); got != "task_handoff accepted accepted" {
		t.Errorf("written: %s", got)
	}
}

// Some clients keep all messages in handoffs/ itself, where the status replaces the folder.
func TestFlatProject(t *testing.T) {
	s := newSite(t, file(Base+"/handoffs/handoff-1.json", task("1", "pending"))+file(statePath, stateDocOf("", "")))
	c := s.client()
	s.take(c, "builder")
	if got := messages(t, s.Dir); got != "task_handoff  accepted" {
		t.Errorf("accepted: %s", got)
	}
	s.report(c, "1", protocol.Report{Kind: protocol.ReportDone})
	if got := strings.Join(sorted(strings.Split(messages(t, s.Dir), ", ")), ", "); got != "completion  pending, review_request  pending, task_handoff  completed" {
		t.Errorf("done: %s", got)
	}
	s.take(c, "reviewer")
}

// What an agent may not do with a handoff, by its state.
func TestActionsOutOfTurn(t *testing.T) {
	s := booted(t)
	c := s.client()
	id := s.submit(c, protocol.Order{To: "builder", Text: "x"}).ID
	accept := func(id, agent string) string {
		_, err := c.Accept(t.Context(), id, protocol.Acceptance{Agent: agent}, s.Now)
		return nameOf(err)
	}
	report := func(kind protocol.ReportKind, agent string) string {
		_, err := c.Report(t.Context(), id, protocol.Report{Kind: kind, Agent: agent}, s.Now)
		return nameOf(err)
	}
	for i, w := range [][2]string{
		{accept("nothing", "builder"), "no such task"}, {accept("../x", "builder"), "no such task"}, {accept(id, "fixer"), "invalid"},
		{report(protocol.ReportDone, "builder"), "handoff " + id + " is still pending: accept it first"},
		{accept(id, "builder"), ""}, {accept(id, "builder"), "another agent has the task"},
		{report(protocol.ReportDone, "fixer"), "invalid"}, {report(protocol.ReportApproved, "planner"), protocol.ErrUnsupported.Error()},
		{report(protocol.ReportDone, "builder"), ""}, {report(protocol.ReportDone, "builder"), "the task has already ended"},
		{accept(id, "builder"), "the task has already ended"}, {report("praised", "builder"), "the task has already ended"},
	} {
		if w[0] != w[1] {
			t.Errorf("%d: got %q, want %q", i, w[0], w[1])
		}
	}
	s.take(c, "reviewer")
}

// Protocol 001, Escalation: a blocked handoff waits for its answer; the next acceptance brings the answer, and the answered
// messages leave pending/.
func TestBlockedWaitsForItsAnswer(t *testing.T) {
	s := booted(t)
	c := s.client()
	id := s.submit(c, protocol.Order{To: "builder", Text: "x"}).ID
	s.take(c, "builder")
	s.report(c, id, protocol.Report{Kind: protocol.ReportBlocked, Agent: "builder", Summary: "Which method?", Options: []string{"JWT", "OAuth"},
		Fields: map[string]any{"payload.reason": "spec_ambiguity"}})
	snap := s.look()
	if len(snap.Questions) != 1 || !snap.Questions[0].Blocking || snap.Questions[0].Task != id || snap.Questions[0].Text != "spec ambiguity: Which method?" {
		t.Fatalf("questions %+v", snap.Questions)
	}
	q := snap.Questions[0]
	if k := taskOf(snap, id); !k.Visible || k.Awaits != "an answer to escalation "+q.ID {
		t.Errorf("task %+v", k)
	}
	if _, err := c.Accept(t.Context(), id, protocol.Acceptance{}, s.Now); err == nil || !strings.Contains(err.Error(), "waits for an answer") {
		t.Errorf("accepted without an answer: %v", err)
	}
	s.Do(s.apply(protocol.Change{Verb: protocol.VerbAnswer, Subject: protocol.Subject{Kind: protocol.KindQuestion, ID: q.ID}, Judged: protocol.Judged{Ref: q.Ref},
		Answer: &protocol.Answer{Key: "k", Label: "OAuth", Why: "it is a rule", By: "Jesse"}}))
	r, err := c.Accept(t.Context(), id, protocol.Acceptance{}, s.Now)
	if err != nil || r.Note != `answer to "spec ambiguity: Which method?": OAuth (it is a rule)` {
		t.Errorf("%+v %v", r, err)
	}
	if a := s.shown(c, id); len(a.Feedback) != 1 || !strings.Contains(string(a.Feedback[0]), `"decision": "OAuth"`) {
		t.Errorf("feedback %s", a.Feedback)
	}
	if got := strings.Join(sorted(strings.Split(messages(t, s.Dir), ", ")), ", "); got != "escalation completed pending, escalation_response completed completed, task_handoff accepted accepted" {
		t.Errorf("messages: %s", got)
	}
	if log := s.Read(Base + "/" + logFile); strings.Count(log, eventEscalated) != 1 {
		t.Errorf("log %s", log)
	}
}

// Protocol 001, Retry Protocol: a recoverable error is left to the retry rules; a fatal one goes to the human, once.
func TestFailures(t *testing.T) {
	for severity, want := range map[string]string{"error": codeRecoverable, "fatal": "GIT_CONFLICT"} {
		s := booted(t)
		c := s.client()
		id := s.submit(c, protocol.Order{To: "builder", Text: "x"}).ID
		s.take(c, "builder")
		code := map[string]string{"error": codeFailed, "fatal": "GIT_CONFLICT"}[severity]
		s.report(c, id, protocol.Report{Kind: protocol.ReportFailed, Failure: &protocol.Failure{Code: code, Message: "no network", Severity: severity}})
		snap := s.look()
		o := taskOf(snap, id).Outcome
		if o == nil || o.Status != "failed" || o.Failures[0].Code != want || o.Failures[0].Message != "no network" || len(snap.Questions) > 0 {
			t.Errorf("%s: %+v %+v", severity, o, snap.Questions)
		}
		k := taskOf(snap, id)
		s.Do(s.apply(protocol.Change{Verb: protocol.VerbRequeue, Subject: snap.Subject(protocol.KindTask, id), Agent: "builder", Judged: protocol.Judged{Ref: k.Ref},
			Entry: protocol.Entry{Attempt: 1}}))
		if got, want := strings.Contains(messages(t, s.Dir), "escalation completed"), severity == "fatal"; got != want {
			t.Errorf("%s: %s", severity, messages(t, s.Dir))
		}
		s.take(c, "builder")
		if strings.Contains(s.Read(boxPath(accepted, id)), `"error"`) {
			t.Errorf("the error of the first attempt stands in the second: %s", s.Read(boxPath(accepted, id)))
		}
	}
}

// A rejected handoff leaves the pending list and waits for the human; a cancelled one is over.
func TestRejectedAndCancelled(t *testing.T) {
	s := booted(t)
	c := s.client()
	one, two := s.submit(c, protocol.Order{To: "builder", Text: "x"}).ID, s.submit(c, protocol.Order{To: "builder", Text: "y"}).ID
	s.report(c, one, protocol.Report{Kind: protocol.ReportRejected, Agent: "builder", Summary: "no spec"})
	s.report(c, two, protocol.Report{Kind: protocol.ReportCancel})
	list, err := c.Pending(t.Context(), "", s.Now)
	if s.Do(err); len(list) > 0 {
		t.Errorf("pending %+v", list)
	}
	if a := s.shown(c, one); a.State != protocol.TaskWaiting || a.Waits == "" {
		t.Errorf("%+v", a)
	}
	if a := s.shown(c, two); a.State != protocol.TaskFailed || !a.Cancelled {
		t.Errorf("%+v", a)
	}
	snap := s.look()
	if k := taskOf(snap, one); k.Visible || !strings.HasSuffix(k.Awaits, "builder rejected it: no spec") || len(found(snap, codeStatus)) > 0 {
		t.Errorf("%+v %v", k, snap.Findings)
	}
}

// Progress is shown, and is a sign of life.
func TestProgressIsShown(t *testing.T) {
	s := booted(t)
	c := s.client()
	id := s.submit(c, protocol.Order{To: "builder", Text: "x"}).ID
	s.take(c, "builder")
	s.Pass(10 * time.Minute)
	s.report(c, id, protocol.Report{Kind: protocol.ReportProgress, Percent: 40, Summary: "half of the tests\npass"})
	k := taskOf(s.at(nil), id)
	a, _ := s.at(nil).Agent("builder")
	if k.Progress.Percent != 40 || k.Progress.Step != "half of the tests pass" || a.Beat.Stated.Unix() != s.Now.Unix() {
		t.Errorf("%+v %+v", k.Progress, a.Beat)
	}
}

// An agent that joins without a handoff is idle; one that leaves is idle unless it completed its work.
func TestJoinAndLeave(t *testing.T) {
	s := booted(t)
	c := s.client()
	status := func(act func(context.Context, protocol.AgentRun, time.Time) error, task string) string {
		s.Do(act(t.Context(), protocol.AgentRun{Agent: "fixer", Task: task}, s.Now))
		return s.state().agent("fixer").status
	}
	s.submit(c, protocol.Order{ID: "1", To: "fixer", Text: "x"})
	_, err := c.Accept(t.Context(), "1", protocol.Acceptance{}, s.Now)
	s.Do(err)
	s.Do(c.Leave(t.Context(), protocol.AgentRun{Agent: "fixer"}, s.Now))
	for i, w := range [][2]string{{status(c.Join, ""), "idle"}, {status(c.Join, "1"), "active"}, {status(c.Join, "2"), "active"}, {status(c.Leave, ""), "idle"}} {
		if w[0] != w[1] {
			t.Errorf("%d: %s", i, w[0])
		}
	}
	if err := c.Join(t.Context(), protocol.AgentRun{Agent: "../x"}, s.Now); nameOf(err) != "invalid" {
		t.Error(err)
	}
}

// review plays one round: the reviewer finds an issue. It returns the review's id.
func (s *site) review(c *Client) string {
	s.T.Helper()
	id := s.take(c, "reviewer")
	s.report(c, id, protocol.Report{Kind: protocol.ReportDone, Issues: []string{"no test"}})
	s.orchestrate(c)
	return id
}

// After three fix rounds the human decides, and the decision is carried out.
func TestFixRoundsAreBounded(t *testing.T) {
	for option, want := range map[string]string{optionFix: "", optionAccept: "completed", optionStop: "cancelled"} {
		s := booted(t)
		c := s.client()
		s.submit(c, protocol.Order{Text: "x"})
		s.orchestrate(c)
		for _, agent := range []string{"planner", "builder"} {
			s.report(c, s.take(c, agent), protocol.Report{Kind: protocol.ReportDone})
		}
		for range mostFixes {
			s.review(c)
			s.report(c, s.take(c, "fixer"), protocol.Report{Kind: protocol.ReportDone})
			s.orchestrate(c)
		}
		s.review(c)
		snap := s.look()
		if len(snap.Questions) != 1 || len(snap.Questions[0].Options) != 3 {
			t.Fatalf("questions %+v", snap.Questions)
		}
		q := snap.Questions[0]
		s.Do(s.apply(protocol.Change{Verb: protocol.VerbAnswer, Subject: protocol.Subject{Kind: protocol.KindQuestion, ID: q.ID}, Judged: protocol.Judged{Ref: q.Ref},
			Answer: &protocol.Answer{Key: "k", Label: option}}))
		s.orchestrate(c)
		if w := s.state().workflow; w.status != want {
			t.Errorf("%s: workflow %q", option, w.status)
		}
		if want == "" {
			if id := s.take(c, "fixer"); !strings.Contains(string(s.shown(c, id).Message), "no test") {
				t.Errorf("fixer gets %s", s.shown(c, id).Message)
			}
		}
		if notes := s.orchestrate(c); notes != nil {
			t.Errorf("%s: again %v", option, notes)
		}
	}
}

// Agents that write their files themselves: the orchestrator hands on what they complete, and respects what they hand on.
func TestOrchestratorRespectsTheAgents(t *testing.T) {
	s := newSite(t, file(boxPath(completed, "1"), task("1", "completed"))+file(boxPath(pending, "c"), handoffText("c", "builder", orchestrator, typeCompletion, "pending"))+
		file(boxPath(pending, "own"), handoffText("own", "builder", "reviewer", typeReview, "pending"))+file(statePath, stateDocOf("", "")))
	c := s.client()
	s.orchestrate(c)
	if got := messages(t, s.Dir); got != "review_request pending pending, task_handoff completed completed, completion completed completed" {
		t.Errorf("handed on by itself: %s", got)
	}
	s.Do(os.Remove(s.Path(boxPath(pending, "own"))))
	s.Write(boxPath(pending, "d"), handoffText("d", "builder", orchestrator, typeCompletion, "pending"))
	s.orchestrate(c)
	if a := s.shown(c, idAfter("next", "1")); a.Type != typeReview || a.Agent != "reviewer" {
		t.Errorf("handed on for it: %+v", a)
	}
}

// Protocol 001, Workflow Conflicts: the orchestrator repairs keys that have contradicted the folders for a while.
func TestOrchestratorIsArbiter(t *testing.T) {
	s := newSite(t, file(boxPath(pending, "1"), task("1", "pending"))+file(statePath, `{"current_agent": "planner", "last_handoff": "lost", "locks": {}, "iteration": -2,
 "agents": {"planner": {"status": "completed"}, "builder": {"status": "idle"}}}`))
	c := s.client()
	if notes := s.orchestrate(c); notes != nil {
		t.Errorf("at once: %v", notes)
	}
	s.Pass(time.Minute)
	if notes := s.orchestrate(c); len(notes) != 1 {
		t.Errorf("notes %q", notes)
	}
	if st := s.state(); st.currentAgent != "" || st.lastHandoff != "1" || st.iteration != 1 {
		t.Errorf("state %+v", st)
	}
}

// A second request waits until the workflow of the first has ended.
func TestOneWorkflowAtATime(t *testing.T) {
	s := booted(t)
	c := s.client()
	s.submit(c, protocol.Order{Text: "first"})
	s.orchestrate(c)
	second := s.submit(c, protocol.Order{Text: "second"}).ID
	if notes := s.orchestrate(c); notes != nil {
		t.Errorf("notes %v", notes)
	}
	if k := taskOf(s.look(), second); !strings.HasPrefix(k.Awaits, "the end of workflow ") {
		t.Errorf("%+v", k)
	}
}

// A completion that says that the work failed hands nothing on: the human decides.
func TestFailedPhaseIsEscalated(t *testing.T) {
	s := newSite(t, file(boxPath(completed, "1"), task("1", "completed"))+file(statePath, stateDocOf("", ""))+file(boxPath(pending, "c"),
		strings.Replace(handoffText("c", "builder", orchestrator, typeCompletion, "pending"), `{"title": "do it"}`, `{"status": "failed", "summary": "no compiler"}`, 1)))
	c := s.client()
	s.orchestrate(c)
	if snap := s.look(); len(snap.Questions) != 1 || snap.Questions[0].Text != "phase failed: no compiler" || snap.Questions[0].Task != "1" {
		t.Errorf("questions %+v", snap.Questions)
	}
	if got := messages(t, s.Dir); strings.Contains(got, typeReview) {
		t.Errorf("handed on: %s", got)
	}
	if notes := s.orchestrate(c); notes != nil {
		t.Errorf("again: %v", notes)
	}
}
