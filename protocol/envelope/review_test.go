package envelope

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol/protocoltest"
)

// securityText is the security completion of protocol 004, Security Response Format, with the verdict APPROVED.
const securityText = `{
  "message_type": "TASK_COMPLETION",
  "task_id": "sec_review_001",
  "from_agent": "SECURITY_AUDITOR",
  "status": "completed",
  "approval_status": "APPROVED",

  "output": {
    "critical_issues": [],
    "high_issues": [],
    "medium_issues": [],
    "low_issues": [],
    "recommendations": [],
    "blocking_deployment": false
  },

  "validation": {
    "security_passed": true,
    "production_readiness_passed": true,
    "scalability_passed": true,
    "all_passed": true
  }
}`

// The outcome for a deployment to staging and one to production.
const (
	pass        = "pass"  // both are released
	stagingOnly = "stage" // staging is released with a notice; production is held and the operator is told
	hold        = "hold"  // both are held and the operator is told
)

// TestSecurityCompletion changes one detail of the document's security completion per row.
func TestSecurityCompletion(t *testing.T) {
	for _, row := range []struct{ old, new, want string }{
		{``, ``, pass},
		{`"message_type": "TASK_COMPLETION"`, `"message_type": "task-completion"`, pass},
		{`"message_type": "TASK_COMPLETION"`, `"message_type": "TASK_ACKNOWLEDGMENT"`, hold},
		{`  "message_type": "TASK_COMPLETION",`, ``, hold},
		{`"task_id": "sec_review_001"`, `"task_id": "sec_review_002"`, hold},
		{`  "task_id": "sec_review_001",`, ``, hold},
		{`"task_id": "sec_review_001"`, `"task_id": 7`, hold},
		{`"from_agent": "SECURITY_AUDITOR"`, `"from_agent": "Security Auditor"`, pass},
		{`"from_agent": "SECURITY_AUDITOR"`, `"from_agent": "DEVELOPER"`, hold},
		{`"from_agent": "SECURITY_AUDITOR"`, `"from_agent": null`, hold},
		{`  "from_agent": "SECURITY_AUDITOR",`, ``, hold},
		// status
		{`  "status": "completed",`, ``, pass},
		{`"status": "completed"`, `"status": "failed"`, hold},
		{`"status": "completed"`, `"status": "in_progress"`, hold},
		{`"status": "completed"`, `"status": null`, hold},
		{`"status": "completed"`, `"status": true`, hold},
		// approval_status
		{`"APPROVED"`, `"approved"`, pass},
		{`"APPROVED"`, `"CONDITIONAL"`, stagingOnly},
		{`"APPROVED"`, `"REJECTED"`, hold},
		{`"APPROVED"`, `"APPROVED|CONDITIONAL|REJECTED"`, hold},
		{`"APPROVED"`, `"PENDING"`, hold},
		{`"APPROVED"`, `""`, hold},
		{`"APPROVED"`, `null`, hold},
		{`"APPROVED"`, `true`, hold},
		{`"APPROVED"`, `["APPROVED"]`, hold},
		{`  "approval_status": "APPROVED",`, ``, hold},
		{`"approval_status": "APPROVED"`, `"approval_status": "APPROVED", "approval_status": "APPROVED"`, hold},
		{`"approval_status": "APPROVED"`, `"approval_status": "REJECTED", "approval_status": "APPROVED"`, hold},
		{`"output": {`, `"output": { "approval_status": "REJECTED",`, hold},
		{`"output": {`, `"output": { "approval_status": "APPROVED",`, pass},
		{`"validation": {`, `"validation": { "approval_status": "CONDITIONAL",`, hold},
		// the lists
		{`"critical_issues": []`, `"critical_issues": ["SQL injection"]`, hold},
		{`"critical_issues": []`, `"critical_issues": [{"title": "SQL injection"}]`, hold},
		{`"critical_issues": []`, `"critical_issues": "SQL injection"`, hold},
		{`"critical_issues": []`, `"critical_issues": 1`, hold},
		{`"critical_issues": []`, `"critical_issues": true`, hold},
		{`"critical_issues": []`, `"critical_issues": {"a": 1}`, hold},
		{`"critical_issues": []`, `"critical_issues": 0`, pass},
		{`"critical_issues": []`, `"critical_issues": "none"`, pass},
		{`"critical_issues": []`, `"critical_issues": null`, pass},
		{`    "critical_issues": [],`, ``, pass},
		{`"critical_issues": []`, `"critical_issues": [], "critical_issues": ["SQL injection"]`, hold},
		{`"high_issues": []`, `"high_issues": ["SQL injection"]`, stagingOnly},
		{`"high_issues": []`, `"high_issues": "SQL injection"`, stagingOnly},
		{`"high_issues": []`, `"high_issues": 2`, stagingOnly},
		{`"high_issues": []`, `"high_issues": ["None"]`, pass},
		{`"high_issues": []`, `"high_issues": null`, pass},
		{`    "high_issues": [],`, ``, pass},
		{`"medium_issues": []`, `"medium_issues": ["weak cipher"]`, pass},
		{`"medium_issues": []`, `"medium_issues": 3`, pass},
		{`    "medium_issues": [],`, ``, pass},
		{`"low_issues": []`, `"low_issues": ["a typo"]`, pass},
		{`"low_issues": []`, `"low_issues": null`, pass},
		{`    "low_issues": [],`, ``, pass},
		{`"recommendations": []`, `"recommendations": ["rotate the keys"]`, pass},
		{`    "recommendations": [],`, ``, pass},
		{`"validation": {`, `"critical_issues": ["SQL injection"], "validation": {`, hold},
		{`"validation": {`, `"validation": { "high_issues": ["SQL injection"],`, stagingOnly},
		// blocking_deployment
		{`"blocking_deployment": false`, `"blocking_deployment": true`, hold},
		{`"blocking_deployment": false`, `"blocking_deployment": "true"`, hold},
		{`"blocking_deployment": false`, `"blocking_deployment": 1`, hold},
		{`"blocking_deployment": false`, `"blocking_deployment": "false"`, pass},
		{`"blocking_deployment": false`, `"blocking_deployment": null`, pass},
		{`,
    "blocking_deployment": false`, ``, pass},
		{`"blocking_deployment": false`, `"blocking_deployment": false, "blocking_deployment": true`, hold},
		{`"validation": {`, `"blocking_deployment": true, "validation": {`, hold},
		// output and validation as a whole
		{`"validation": {`, `"validation": null, "was": {`, hold},
		{`"validation": {`, `"validation": "all fine", "was": {`, hold},
		{`"validation": {`, `"validation": [true], "was": {`, hold},
		{`"validation": {`, `"was": {`, pass},
		{`"output": {`, `"output": "no issues", "was": {`, hold},
		{`"output": {`, `"output": null, "was": {`, hold},
		{`"output": {`, `"was": {`, pass},
		// criteria and further flags
		{`"validation": {`, `"validation": { "acceptance_criteria_met": [true, true, true, true],`, pass},
		{`"validation": {`, `"validation": { "acceptance_criteria_met": [true, false],`, hold},
		{`"validation": {`, `"validation": { "acceptance_criteria_met": [true, null],`, hold},
		{`"validation": {`, `"validation": { "acceptance_criteria_met": false,`, hold},
		{`"validation": {`, `"validation": { "acceptance_criteria_met": {"a": true},`, hold},
		{`"validation": {`, `"validation": { "issues": [],`, pass},
		{`"validation": {`, `"validation": { "issues": ["half of it was not reviewed"],`, hold},
		{`"validation": {`, `"validation": { "privacy_passed": true,`, pass},
		{`"validation": {`, `"validation": { "privacy_passed": false,`, hold},
		{`"validation": {`, `"validation": { "Privacy_Passed": "no",`, hold},
		{`"output": {`, `"output": { "security_passed": false,`, hold},
		{`"output": {`, `"security_passed": false, "output": {`, hold},
		// contradictions
		{`"approval_status": "APPROVED"`, `"approval_status": "CONDITIONAL", "critical_issues": ["SQL injection"]`, hold},
		{`"approval_status": "APPROVED"`, `"approval_status": "CONDITIONAL", "blocking_deployment": true`, hold},
		{`"approval_status": "APPROVED"`, `"approval_status": "CONDITIONAL", "security_passed": false`, hold},
		{`"approval_status": "APPROVED"`, `"approval_status": "CONDITIONAL", "production_readiness_passed": false`, stagingOnly},
		{`"approval_status": "APPROVED"`, `"approval_status": "CONDITIONAL", "high_issues": ["SQL injection"]`, stagingOnly},
		{`"approval_status": "APPROVED"`, `"approval_status": "CONDITIONAL", "all_passed": false`, stagingOnly},
		{`"approval_status": "APPROVED"`, `"approval_status": "REJECTED", "all_passed": true`, hold},
	} {
		t.Run(row.old+" "+row.new, func(t *testing.T) { securityRow(t, row.old, row.new, row.want) })
	}
	for _, flag := range []string{"security_passed", "production_readiness_passed", "scalability_passed", "all_passed"} {
		old := fmt.Sprintf("%q: true", flag)
		for value, want := range map[string]string{"true": pass, `"true"`: pass, "false": hold, "null": hold, `"false"`: hold, `"yes"`: hold, `""`: hold, "1": hold, "0": hold, "[]": hold, "{}": hold} {
			t.Run(flag+" "+value, func(t *testing.T) { securityRow(t, old, fmt.Sprintf("%q: %s", flag, value), want) })
		}
		t.Run(flag+" twice", func(t *testing.T) { securityRow(t, old, old+", "+old, hold) })
		t.Run(flag+" missing", func(t *testing.T) { securityRow(t, old, `"x": 1`, pass) })
	}
}

// securityRow checks the gate for a deployment to staging and one to production, and for tasks that also name the review
// in blocked_by.
func securityRow(t *testing.T, old, new, want string) {
	t.Helper()
	text := strings.Replace(securityText, old, new, 1)
	if old != "" && text == securityText && old != new {
		t.Fatalf("the document has no %q", old)
	}
	s := newSite(t, "")
	s.send(assign("sec_review_001", "SECURITY_AUDITOR"))
	for _, target := range []string{"staging", "production"} {
		named := assign(target, "DEPLOYMENT").with(fields{"task_name": "Deploy to " + target, "related_tasks": []string{"sec_review_001"}})
		s.send(named)
		s.send(named.with(fields{"task_id": target + "_waits", "blocked_by": []string{"sec_review_001"}}))
	}
	s.write("review.json", text)
	snap := s.rest()
	for _, id := range []string{"staging", "production", "staging_waits", "production_waits"} {
		k, codes := taskOf(snap, id), protocoltest.Codes(snap, id)
		released := want == pass || want == stagingOnly && strings.HasPrefix(id, "staging")
		if released != (k.Block == "") || released != k.Visible || released == strings.Contains(codes, "security_gate critical") {
			t.Errorf("%s: want %s; block %q, visible %v, findings %s", id, want, k.Block, k.Visible, codes)
		}
		if notice := strings.Contains(codes, "security_conditional"); notice != (want == stagingOnly && released) {
			t.Errorf("%s: notice %v of %s", id, notice, codes)
		}
	}
}

// A completion is judged as a whole. If it contradicts itself, the tasks that depend on it are not released, and a
// finding says why.
func TestCompletionIsOneWhole(t *testing.T) {
	for change, want := range map[string]string{
		`"acceptance_criteria_met":[true,true],"all_passed":true,"issues":[]`: "",
		`"all_passed":true`: "",
		`"acceptance_criteria_met":[true,true],"all_passed":true,"issues":null`:                          "",
		`"acceptance_criteria_met":[true,true],"all_passed":true,"issues":["none"]`:                      "",
		`"acceptance_criteria_met":[true,false],"all_passed":true,"issues":[]`:                           "acceptance_criteria_met: 1 of 2 not true",
		`"acceptance_criteria_met":[null,"no"],"all_passed":true,"issues":[]`:                            "acceptance_criteria_met: 2 of 2 not true",
		`"acceptance_criteria_met":false,"all_passed":true,"issues":[]`:                                  "acceptance_criteria_met is not true",
		`"acceptance_criteria_met":[true,true],"all_passed":true,"issues":["c2 is not done"]`:            "issues is not empty: c2 is not done",
		`"acceptance_criteria_met":[true,true],"all_passed":true,"issues":"c2 is not done"`:              "issues is not empty: c2 is not done",
		`"acceptance_criteria_met":[true,true],"all_passed":true,"issues":[{"text":"c2 is not done"}]`:   "issues is not empty",
		`"acceptance_criteria_met":[true,true],"all_passed":"yes","issues":[]`:                           "all_passed is not true",
		`"acceptance_criteria_met":[true,true],"all_passed":null,"issues":[]`:                            "all_passed is not true",
		`"acceptance_criteria_met":[true,true]`:                                                          "all_passed is not true",
		`"acceptance_criteria_met":[true,true],"all_passed":true},"status":"failed","x":{"all_passed":1`: "status is failed",
	} {
		s := newSite(t, "")
		s.send(assign("dev", "DEVELOPER"))
		s.send(assign("doc", "DOCUMENTATION").with(fields{"blocked_by": []string{"dev"}}))
		s.write("done.json", `{"message_type":"TASK_COMPLETION","task_id":"dev","from_agent":"DEVELOPER","output":{"summary":"s"},"validation":{`+change+`}}`)
		snap := s.rest()
		dev, doc := taskOf(snap, "dev"), taskOf(snap, "doc")
		if done := want == ""; (dev.Outcome != nil) != done || doc.Visible != done || !strings.Contains(doc.Block, want) {
			t.Errorf("%s: done %v, block %q", change, dev.Outcome != nil, doc.Block)
		}
		contradicts := want != "" && strings.Contains(change, `"all_passed":true`)
		if codes := protocoltest.Codes(snap, "dev"); contradicts != strings.Contains(codes, "criteria medium") {
			t.Errorf("%s: %s", change, codes)
		}
	}
}

// write writes a message unchanged, two seconds after the previous one.
func (s *site) write(name, text string) {
	s.T.Helper()
	s.Now = s.Now.Add(2 * time.Second)
	s.Write(messagesDir+"/"+name, text)
	s.Do(os.Chtimes(s.Path(messagesDir+"/"+name), s.Now, s.Now))
}

// The orchestrator's own approval overrides the completion.
func TestApprovalMessageOutweighsCompletion(t *testing.T) {
	s := newSite(t, "")
	s.send(assign("dev", "DEVELOPER"))
	s.send(assign("doc", "DOCUMENTATION").with(fields{"blocked_by": []string{"dev"}}))
	s.send(complete("dev", "DEVELOPER", false))
	if k := taskOf(s.rest(), "doc"); k.Visible {
		t.Fatalf("%+v", k)
	}
	s.send(fields{"message_type": "TASK_APPROVAL", "task_id": "dev", "from_agent": "ORCHESTRATOR"})
	if k := taskOf(s.rest(), "doc"); !k.Visible {
		t.Errorf("%+v", k)
	}
}
