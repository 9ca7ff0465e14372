package handoffs

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
)

// booted is a project after `steward boot` of the document's agents.
func booted(t testing.TB) *site {
	s := newSite(t, "")
	s.Do(s.p.Prepare(t.Context(), protocol.Boot{Agent: "planner", Now: s.Now}))
	return s
}

func (s *site) client() *Client {
	c := Connect(s.Dir, Options{})
	s.T.Cleanup(c.Close)
	return c
}

// take has an agent accept its only pending handoff.
func (s *site) take(c *Client, agent string) string {
	s.T.Helper()
	list, err := c.Pending(s.T.Context(), agent, s.Now)
	s.Do(err)
	if len(list) != 1 {
		s.T.Fatalf("%s has %d pending handoffs: %+v", agent, len(list), list)
	}
	_, err = c.Accept(s.T.Context(), list[0].ID, protocol.Acceptance{Agent: agent}, s.Now)
	s.Do(err)
	return list[0].ID
}

func (s *site) report(c *Client, id string, r protocol.Report) protocol.Receipt {
	s.T.Helper()
	receipt, err := c.Report(s.T.Context(), id, r, s.Now)
	s.Do(err)
	return receipt
}

func (s *site) orchestrate(c *Client) (notes []string) {
	s.T.Helper()
	list, err := c.Orchestrate(s.T.Context(), s.Now)
	s.Do(err)
	for _, r := range list {
		notes = append(notes, r.Note)
	}
	return notes
}

func (s *site) state() *state {
	s.T.Helper()
	s.look()
	return s.p.state.current()
}

// Protocol 001, Example Flow: all eleven steps, driven through the interface.
func TestExampleFlow(t *testing.T) {
	s := booted(t)
	c := s.client()
	asked, err := c.Submit(t.Context(), protocol.Order{Text: "Add user auth", Priority: "high"}, s.Now) // 1
	s.Do(err)
	if due := s.look().Due; len(due) != 1 || due[0] != orchestrator {
		t.Errorf("due: %v", due)
	}
	s.orchestrate(c) // 2
	if due := s.look().Due; len(due) > 0 {
		t.Errorf("due after that: %v", due)
	}
	if w := s.state().workflow; w.id != workflowOf(asked.ID) || w.kind != "feature" || !w.running() {
		t.Errorf("workflow %+v", w)
	}
	id := s.take(c, "planner")
	if st := s.state(); st.agent("planner").status != "active" || st.currentAgent != "planner" || st.lastHandoff != id {
		t.Errorf("state %+v", st)
	}
	s.report(c, id, protocol.Report{Kind: protocol.ReportDone, Agent: "planner", Summary: "planned", Fields: map[string]any{"payload.spec": "specs/auth.md"}}) // 3
	s.orchestrate(c)
	id = s.take(c, "builder") // 4
	a, err := c.Show(t.Context(), id, s.Now)
	if s.Do(err); a.Type != typeTask || a.Source != "planner" || !strings.Contains(string(a.Message), `"spec": "specs/auth.md"`) {
		t.Errorf("builder gets %+v: %s", a, a.Message)
	}
	s.report(c, id, protocol.Report{Kind: protocol.ReportDone, Agent: "builder", Fields: map[string]any{"payload.commit": "abc123"}}) // 5
	s.orchestrate(c)
	id = s.take(c, "reviewer")                                                                                            // 6
	s.report(c, id, protocol.Report{Kind: protocol.ReportDone, Agent: "reviewer", Issues: []string{"no test", "no doc"}}) // 7
	s.orchestrate(c)
	id = s.take(c, "fixer") // 8
	if a, _ := c.Show(t.Context(), id, s.Now); a.Type != typeFix || !strings.Contains(string(a.Message), "no doc") {
		t.Errorf("fixer gets %+v: %s", a, a.Message)
	}
	s.report(c, id, protocol.Report{Kind: protocol.ReportDone, Agent: "fixer"}) // 9
	s.orchestrate(c)
	id = s.take(c, "reviewer") // 10
	if st := s.state(); st.iteration != 2 {
		t.Errorf("iteration %d", st.iteration)
	}
	if a, _ := c.Show(t.Context(), asked.ID, s.Now); a.State != protocol.TaskRunning {
		t.Errorf("the request is %s", a.State)
	}
	s.report(c, id, protocol.Report{Kind: protocol.ReportApproved, Agent: "reviewer"})
	if notes := s.orchestrate(c); len(notes) != 2 || notes[0] != "workflow "+workflowOf(asked.ID)+" is complete" { // 11
		t.Errorf("notes %q", notes)
	}
	st := s.state()
	if st.workflow.status != "completed" || st.currentAgent != "" || st.agent("reviewer").status != "completed" {
		t.Errorf("state %+v", st)
	}
	if a, _ := c.Show(t.Context(), asked.ID, s.Now); a.State != protocol.TaskDone {
		t.Errorf("the request is %s", a.State)
	}
	if notes := s.orchestrate(c); notes != nil {
		t.Errorf("a second time: %q", notes)
	}
	for _, m := range s.look().Measures {
		if m.Name == "handoffs_per_workflow" && m.Value != 5 || m.Name == "fix_iterations" && m.Value != 1 {
			t.Errorf("%s %v", m.Name, m.Value)
		}
	}
	snap := s.after(time.Minute)
	if len(snap.Faults)+len(snap.Findings)+len(snap.Questions) > 0 || eventNames(snap) != "handoff_accepted "+asked.ID+" orchestrator" {
		t.Errorf("faults %v findings %v questions %v events %v", snap.Faults, snap.Findings, snap.Questions, eventNames(snap))
	}
	if n := strings.Count(s.Read(Base+"/"+logFile), eventCreated); n != 6 {
		t.Errorf("%d lines handoff_created:\n%s", n, s.Read(Base+"/"+logFile))
	}
}

var errorsOf = []error{protocol.ErrNoTask, protocol.ErrTaken, protocol.ErrEnded, protocol.ErrUnsupported, protocol.ErrAbsent}

func nameOf(err error) string {
	var invalid *protocol.InvalidError
	if errors.As(err, &invalid) {
		return "invalid"
	}
	for _, e := range errorsOf {
		if errors.Is(err, e) {
			return e.Error()
		}
	}
	if err != nil {
		return err.Error()
	}
	return ""
}
