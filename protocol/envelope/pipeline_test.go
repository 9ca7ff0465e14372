package envelope

import (
	"strings"
	"testing"

	"github.com/livhana/steward/protocol/protocoltest"
)

// A violation of the pipeline's order is reported, and nothing is held for it.
func TestPipelineOrder(t *testing.T) {
	s := newSite(t, "")
	s.send(assign("dev", "DEVELOPER"))
	one := s.send(assign("tests", "TESTING"))
	s.send(assign("other", "TESTING").with(fields{"context": fields{"project": "Else"}}))
	snap := s.rest()
	if !s.has(one) || protocoltest.Codes(snap, "tests") != "order low" || protocoltest.Codes(snap, "other") != "" {
		t.Errorf("%s; %s", protocoltest.Codes(snap, "tests"), protocoltest.Codes(snap, "other"))
	}
	s.send(complete("dev", "DEVELOPER", true))
	s.send(assign("dev2", "DEVELOPER"))
	if snap = s.rest(); protocoltest.Codes(snap, "tests") != "" {
		t.Error(protocoltest.Codes(snap, "tests"))
	}
}

// A blocker of an undefined type is reported.
func TestBlockerType(t *testing.T) {
	for kind, want := range map[string]bool{"clarification_needed": false, "technical_blocker": false, "dependency_missing": false, "scope_change": false, "Scope-Change": false, "bored": true} {
		m := parse(t, escalate("t", "DEVELOPER", "human").with(fields{"blocker_type": kind}).String())
		found := false
		for _, i := range m.findings {
			found = found || i.Field == "blocker_type" && strings.Contains(i.Text, "technical_blocker")
		}
		if found != want {
			t.Errorf("%s: %+v", kind, m.findings)
		}
	}
}

// An approval whose review was not asked to read the delivered files is reported.
func TestUnreviewedFiles(t *testing.T) {
	for files, want := range map[string]bool{"components/chat/Message.tsx": false, "./api/x.ts": false, "package.json": false, "infra/main.tf": true} {
		s := newSite(t, "")
		s.send(assign("dev", "DEVELOPER"))
		s.send(complete("dev", "DEVELOPER", true).with(fields{"output": fields{"files": []string{files}}}))
		s.send(assign("sec", "SECURITY_AUDITOR").with(fields{"files_to_review": []string{"components/*.tsx", "api/*.ts", "package.json"}}))
		s.send(verdict("sec", "APPROVED", false))
		if codes := protocoltest.Codes(s.rest(), "sec"); strings.Contains(codes, "unreviewed medium") != want {
			t.Errorf("%s: %s", files, codes)
		}
	}
}
