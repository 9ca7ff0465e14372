package envelope

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
)

// pipeline starts a pipeline of the document's roles, or of the given ones.
func (s *team) pipeline(id string, roles any) {
	s.T.Helper()
	o := newOrder(id, "ORCHESTRATOR")
	o.Type, o.Fields = "pipeline", map[string]any{}
	if roles != nil {
		o.Fields["pipeline"] = roles
	}
	s.submit(o)
}

// direct does everything that the orchestrator must do now, and returns it as lines.
func (s *team) direct() string {
	s.T.Helper()
	list, err := s.client().Orchestrate(s.T.Context(), time.Now())
	s.Do(err)
	var lines []string
	for _, r := range list {
		lines = append(lines, r.ID+" "+r.Note)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// did has an agent accept its task and complete it.
func (s *team) did(id, agent string, fields map[string]any) {
	s.T.Helper()
	s.Do(s.accept(id, agent, 1))
	s.Do(s.report(id, protocol.Report{Kind: protocol.ReportDone, Agent: agent, Summary: "did it", Created: []string{strings.ToLower(agent) + ".ts"}, Fields: fields}))
}

func (s *team) directs(want ...string) {
	s.T.Helper()
	if got := s.direct(); got != strings.Join(want, "\n") {
		s.T.Fatalf("the orchestrator did\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	if again := s.direct(); again != "" {
		s.T.Fatalf("and then again\n%s", again)
	}
	if due := s.scan().Due; len(due) > 0 {
		s.T.Errorf("still due: %v", due)
	}
}

// The whole pipeline of the document, with a review that rejects and one that is conditional.
func TestPipelineFromEndToEnd(t *testing.T) {
	s := newTeam(t, "")
	s.validate = true
	s.pipeline("chat", nil)
	if due := s.scan().Due; len(due) != 1 || due[0] != "ORCHESTRATOR" {
		t.Errorf("due: %v", due)
	}
	verdict := func(id, status string, issues ...string) {
		s.Do(s.accept(id, "SECURITY_AUDITOR", 1))
		s.Do(s.report(id, protocol.Report{Kind: protocol.ReportDone, Agent: "SECURITY_AUDITOR", Summary: "looked", Issues: issues,
			Fields: map[string]any{"approval_status": status}}))
	}
	s.directs("chat taken on: ARCHITECT, DESIGNER, DEVELOPER, INTEGRATIONS, TESTING, SECURITY_AUDITOR, DOCUMENTATION, DEPLOYMENT", "chat-architect assigned to ARCHITECT")
	s.did("chat-architect", "ARCHITECT", nil)
	if a := s.show("chat-architect"); a.State != protocol.TaskWaiting || !strings.Contains(a.Waits, "review by the orchestrator") {
		t.Errorf("it awaits its validation: %+v", a)
	}
	s.directs("chat-architect approved", "chat-designer assigned to DESIGNER")
	s.did("chat-designer", "DESIGNER", nil)
	s.directs("chat-designer approved", "chat-developer assigned to DEVELOPER", "chat-integrations assigned to INTEGRATIONS")
	s.did("chat-integrations", "INTEGRATIONS", nil)
	s.directs("chat-integrations approved")
	s.did("chat-developer", "DEVELOPER", nil)
	s.directs("chat-developer approved", "chat-testing assigned to TESTING")
	s.did("chat-testing", "TESTING", nil)
	s.directs("chat-security_auditor assigned to SECURITY_AUDITOR", "chat-testing approved")
	if text := string(s.show("chat-security_auditor").Message); !strings.Contains(text, `"developer.ts"`) || !strings.Contains(text, "Scalability assessed") {
		t.Errorf("the review: %s", text)
	}
	verdict("chat-security_auditor", "REJECTED", "SQL injection in api.ts")
	s.directs("chat-developer-fix-1 assigned to DEVELOPER", "chat-security_auditor approved")
	if text := string(s.show("chat-developer-fix-1").Message); !strings.Contains(text, "critical: SQL injection in api.ts") {
		t.Errorf("the fix: %s", text)
	}
	s.did("chat-developer-fix-1", "DEVELOPER", nil)
	s.directs("chat-developer-fix-1 approved", "chat-security_auditor-2 assigned to SECURITY_AUDITOR")
	verdict("chat-security_auditor-2", "CONDITIONAL", "no rate limit")
	s.directs("chat-developer-fix-2 assigned to DEVELOPER", "chat-security_auditor-2 approved")
	s.did("chat-developer-fix-2", "DEVELOPER", nil)
	s.directs("chat-developer-fix-2 approved", "chat-security_auditor-3 assigned to SECURITY_AUDITOR")
	verdict("chat-security_auditor-3", "APPROVED")
	s.directs("chat-deployment assigned to DEPLOYMENT", "chat-documentation assigned to DOCUMENTATION", "chat-security_auditor-3 approved")
	s.did("chat-deployment", "DEPLOYMENT", nil)
	s.did("chat-documentation", "DOCUMENTATION", nil)
	s.directs("chat complete", "chat-deployment approved", "chat-documentation approved")
	if a := s.show("chat"); a.State != protocol.TaskDone {
		t.Errorf("the pipeline: %+v", a)
	}
	s.clean()
}

// A completion that is not done is rejected with what is missing. After three rejections the human decides.
func TestOrchestratorRejects(t *testing.T) {
	s := newTeam(t, "")
	s.validate = true
	s.submit(newOrder("t", "DEVELOPER"))
	half := func(n int) {
		s.Do(s.accept("t", "DEVELOPER", n))
		s.Do(s.report("t", protocol.Report{Kind: protocol.ReportFailed, Agent: "DEVELOPER", Summary: "half", Issues: []string{"line 3"}}))
	}
	for n := range mostRejections {
		half(n)
		if got := s.direct(); !strings.HasPrefix(got, "t rejected: ") {
			t.Fatalf("round %d: %s", n, got)
		}
	}
	if a := s.show("t"); a.State != protocol.TaskPending || !strings.Contains(string(a.Feedback[len(a.Feedback)-1]), "Not met: ✓ it works") {
		t.Errorf("rejected: %+v", a)
	}
	half(4)
	s.directs("t asked the human: t was rejected 3 times, and is not done: status is failed; all_passed is not true; acceptance_criteria_met: 2 of 2 not true; issues is not empty: line 3")
	q := s.scan().Questions
	if len(q) != 1 || !slices.Equal(q[0].Options, []string{optionAgain, optionAccept}) || !q[0].Due.IsZero() {
		t.Fatalf("question: %+v", q)
	}
	s.send(resolve("t").with(fields{"decision": optionAccept, "in_reply_to": q[0].ID, answerKey: "k"}))
	s.directs("t approved")
	s.submit(newOrder("u", "DEVELOPER"))
	s.Do(s.report("u", protocol.Report{Kind: protocol.ReportDone, Agent: "DEVELOPER", Summary: "did it"}))
	s.directs("u approved")
}

// A task that another orchestrator assigned counts as the pipeline's step, and the order of the roles is the given one.
func TestOrchestratorRespectsOthers(t *testing.T) {
	s := newTeam(t, "")
	s.validate = true
	s.pipeline("p", "DEVELOPER > TESTING")
	s.submit(protocol.Order{ID: "mine", To: "DEVELOPER", Text: "Build it\n✓ it works", Fields: map[string]any{"related_tasks": []any{"p"}}})
	s.directs("p taken on: DEVELOPER, TESTING")
	s.did("mine", "DEVELOPER", nil)
	s.directs("mine approved", "p-testing assigned to TESTING")
	s.Do(s.report("p", protocol.Report{Kind: protocol.ReportCancel, Agent: "human", Summary: "enough"}))
	s.did("p-testing", "TESTING", nil)
	s.directs("p-testing approved")
}

// An assignment to ORCHESTRATOR without a pipeline needs judgement, so the human is asked.
func TestOrchestratorDoesNotGuess(t *testing.T) {
	s := newTeam(t, "")
	s.validate = true
	s.submit(newOrder("x", "ORCHESTRATOR"))
	s.directs("x asked the human: steward directs pipelines only, and this assignment to ORCHESTRATOR names none")
	for roles, want := range map[string]string{"": "no role", "DEPLOYMENT": "no deployment without", "TESTING, ARCHITECT": "earlier", "a/b": "not a role", "TESTING,TESTING": "twice", "ORCHESTRATOR": "not a role"} {
		o := newOrder("", "ORCHESTRATOR")
		o.Fields = map[string]any{"pipeline": roles}
		if _, err := s.client().Submit(t.Context(), o, time.Now()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", roles, err)
		}
	}
}

// Without the role, a done completion counts at once, and nothing is due.
func TestForeignOrchestratorNeedsNoApproval(t *testing.T) {
	s := newTeam(t, "")
	s.submit(newOrder("t", "DEVELOPER"))
	s.did("t", "DEVELOPER", nil)
	if a := s.show("t"); a.State != protocol.TaskDone || len(s.scan().Due) > 0 {
		t.Errorf("%+v, due %v", a, s.scan().Due)
	}
	s.Do(s.report("t", protocol.Report{Kind: protocol.ReportApproved}))
}

// The sender of an incomplete assignment is told once for each version of it, and its task is unchanged.
func TestSenderOfIncompleteAssignmentIsTold(t *testing.T) {
	s := newTeam(t, "")
	bad := assign("t", "DEVELOPER")
	delete(bad, "requirements")
	name := s.send(bad)
	refuse := func() int {
		n := 0
		for _, e := range s.look().Events {
			if e.Name == eventIncomplete {
				n++
				s.Do(s.apply(logOf(e)))
				s.Do(s.apply(logOf(e)))
			}
		}
		return n
	}
	s.reopen()
	if n := refuse() + 10*refuse(); n != 1 {
		t.Errorf("told %d", n)
	}
	snap := s.look()
	if k := taskOf(snap, "t"); !k.Visible || k.Named != "" || !strings.Contains(k.Block, "requirements") || len(snap.Agents) != 1 {
		t.Errorf("%+v, %+v", k, snap.Agents)
	}
	text := s.Read(messagesDir + "/rejection-t.json")
	if !strings.Contains(text, `"to_agent": "ORCHESTRATOR"`) || !strings.Contains(text, "requirements is missing") || CheckMessage([]byte(text)) != nil {
		t.Error(text)
	}
	s.Write(name, bad.with(fields{"timestamp": "2026-01-02T03:04:05Z", "acceptance_criteria": []string{}}).String())
	s.Do(os.Chtimes(s.Path(name), s.Now, s.Now))
	if n := refuse() + 10*refuse(); n != 1 {
		t.Errorf("told %d of the second version", n)
	}
	s.Write(name, assign("t", "DEVELOPER").String())
	if n := refuse(); n != 0 {
		t.Errorf("told %d of a complete one", n)
	}
}

// A failed run is a failed task, which the retry table judges. Another run starts without its failures.
func TestFailedRunIsRetried(t *testing.T) {
	s := newTeam(t, "")
	s.submit(newOrder("t", "DEVELOPER"))
	s.Do(s.accept("t", "DEVELOPER", 1))
	s.Do(s.report("t", protocol.Report{Kind: protocol.ReportFailed, Agent: "DEVELOPER", Failure: &protocol.Failure{Code: "RATE_LIMITED", Message: "429", Severity: "warning"}}))
	snap := s.scan()
	k := taskOf(snap, "t")
	if o := k.Outcome; o == nil || o.Status != "failed" || o.Failures[0].Code != "RATE_LIMITED" || !k.Requeue || len(snap.Questions) > 0 || s.show("t").State != protocol.TaskFailed {
		t.Fatalf("failed: %+v, %+v", k, snap.Questions)
	}
	s.reopen()
	s.Do(s.apply(protocol.Change{Verb: protocol.VerbRequeue, Subject: protocol.Subject{Kind: protocol.KindTask, ID: "t"}, Agent: k.Agent,
		Entry: protocol.Entry{Action: protocol.ActionRetry, Code: "RATE_LIMITED", Attempt: 1}, Judged: protocol.Judged{Ref: k.Ref}}))
	if k = taskOf(s.scan(), "t"); k.Outcome != nil || k.Named != "" || s.show("t").State != protocol.TaskPending {
		t.Errorf("again: %+v, %s", k, fmt.Sprint(s.show("t")))
	}
	s.Do(s.accept("t", "DEVELOPER", 2))
}
