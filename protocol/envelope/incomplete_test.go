package envelope

import (
	"strings"
	"testing"

	"github.com/livhana/steward/protocol/protocoltest"
)

// An assignment without a required field is held, a finding names the field and the file, and the corrected assignment is
// released (protocol 004, TASK_ASSIGNMENT, Required Fields).
func TestIncompleteAssignment(t *testing.T) {
	for _, row := range []struct {
		field string
		value any // nil: the field is missing
		held  bool
	}{
		{"task_name", nil, true}, {"task_name", "", true}, {"task_name", 7, true}, {"requirements", nil, true}, {"requirements", []string{}, true},
		{"requirements", "one", false}, {"acceptance_criteria", nil, true}, {"acceptance_criteria", []string{}, true}, {"acceptance_criteria", fields{"a": 1}, true},
		{"to_agent", nil, true}, {"to_agent", []string{"DEVELOPER"}, false}, {"task_id", nil, true}, {"task_id", "../x", true},
		{"from_agent", nil, false}, {"priority", nil, false}, {"context", nil, false},
	} {
		good := assign("t", "DEVELOPER")
		bad := good.with(fields{row.field: row.value})
		if row.value == nil {
			delete(bad, row.field)
		}
		for how, correct := range map[string]func(s *site, file string){
			"in place":       func(s *site, file string) { s.write(strings.TrimPrefix(file, messagesDir+"/")+".held", good.String()) },
			"under its name": func(s *site, file string) { s.write(strings.TrimPrefix(file, messagesDir+"/"), good.String()) },
		} {
			s := newSite(t, "")
			one := s.send(bad)
			snap := s.rest()
			if s.has(one) == row.held {
				t.Fatalf("%s %v: held %v, want %v; %+v", row.field, row.value, !s.has(one), row.held, snap.Tasks)
			}
			if !row.held {
				continue
			}
			named := false
			for _, f := range snap.Findings {
				named = named || f.Code == "incomplete" && strings.Contains(f.Text, row.field) && f.Path == one+".held"
			}
			if fault := protocoltest.FaultAt(snap, one); !named || fault == nil || !strings.Contains(fault.Problem, row.field) {
				t.Errorf("%s %v: findings %+v, faults %+v", row.field, row.value, snap.Findings, snap.Faults)
			}
			correct(s, one)
			snap = s.rest()
			if k := taskOf(snap, "t"); !s.has(one) || s.has(one+".held") || !k.Visible || len(snap.Tasks) != 1 || strings.Contains(protocoltest.Codes(snap, "t"), "incomplete") {
				t.Errorf("%s %v corrected %s: %+v, faults %+v", row.field, row.value, how, snap.Tasks, snap.Faults)
			}
		}
	}
}

// A corrected assignment in another file also releases the task.
func TestIncompleteAssignmentSentAnew(t *testing.T) {
	s := newSite(t, "")
	bad := assign("t", "DEVELOPER")
	delete(bad, "acceptance_criteria")
	s.send(bad)
	s.rest()
	two := s.send(assign("t", "DEVELOPER"))
	if k := taskOf(s.rest(), "t"); !s.has(two) || k.Hold != nil || !k.Visible {
		t.Errorf("%+v", k)
	}
}
