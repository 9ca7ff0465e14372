package envelope

import (
	"strings"
	"testing"

	"github.com/livhana/steward/protocol/protocoltest"
)

// A deployment is held until it is approved, whichever agent it is for, and ends with that agent's own completion.
func TestDeploymentByWordsIsHeld(t *testing.T) {
	for _, agent := range []string{"DEVOPS", "DEVELOPER", "DOCUMENTATION"} {
		s := newSite(t, "")
		one := s.send(assign("d2", agent).with(fields{"task_name": "Deploy to production"}))
		snap := s.rest()
		if s.has(one) || protocoltest.Codes(snap, "d2") != "security_gate critical" || !strings.Contains(taskOf(snap, "d2").Block, "no approval by SECURITY_AUDITOR") {
			t.Fatalf("%s: %+v %s", agent, taskOf(snap, "d2"), protocoltest.Codes(snap, "d2"))
		}
		s.send(assign("sec", "SECURITY_AUDITOR"))
		s.send(verdict("sec", "APPROVED", false))
		if s.rest(); !s.has(one) {
			t.Fatalf("%s: not released", agent)
		}
		s.send(complete("d2", agent, true))
		if snap = s.rest(); taskOf(snap, "d2").Outcome == nil || protocoltest.Codes(snap, "d2") != "" {
			t.Errorf("%s: %+v %s", agent, taskOf(snap, "d2"), protocoltest.Codes(snap, "d2"))
		}
	}
}

// A suspected deployment is not held. It is a finding while there is no approval, and a more severe one if it names
// production.
func TestSuspectedDeployment(t *testing.T) {
	s := newSite(t, "")
	one := s.send(assign("r1", "DEVOPS").with(fields{"task_name": "Release v2"}))
	two := s.send(assign("r2", "DEVELOPER").with(fields{"task_name": "Implement login", "requirements": []string{"Deploy to production"}}))
	snap := s.rest()
	if !s.has(one) || !s.has(two) || protocoltest.Codes(snap, "r1") != "security_gate medium" || protocoltest.Codes(snap, "r2") != "security_gate high" {
		t.Errorf("%s, %s", protocoltest.Codes(snap, "r1"), protocoltest.Codes(snap, "r2"))
	}
	review := s.send(assign("sec", "SECURITY_AUDITOR").with(fields{"task_name": "Deploy to production"}))
	if snap = s.rest(); !s.has(review) || !strings.HasPrefix(protocoltest.Codes(snap, "sec"), "security_gate high") {
		t.Errorf("a review waits for its own approval: %s", protocoltest.Codes(snap, "sec"))
	}
	s.send(verdict("sec", "APPROVED", false))
	if snap = s.rest(); protocoltest.Codes(snap, "r1")+protocoltest.Codes(snap, "r2") != "" {
		t.Errorf("approved: %s, %s", protocoltest.Codes(snap, "r1"), protocoltest.Codes(snap, "r2"))
	}
}

// The names of the deployers are configurable.
func TestDeployersAreConfigured(t *testing.T) {
	options := testOptions
	options.Deployers = []string{"ops-bot"}
	s := newSite(t, "")
	s.p = New(s.Dir, options)
	t.Cleanup(s.p.Close)
	s.send(assign("a", "OPS_BOT_AGENT"))
	s.send(assign("b", "DEPLOYMENT"))
	snap := s.rest()
	if a, b := taskOf(snap, "a"), taskOf(snap, "b"); a.Visible || !b.Visible {
		t.Errorf("%+v, %+v", a, b)
	}
}
