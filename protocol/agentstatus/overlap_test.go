package agentstatus

import (
	"strings"
	"testing"
)

// Two open tasks that modify the same file are a finding, until one of them has ended or comes after the other.
func TestTwoTasksModifyOneFile(t *testing.T) {
	const second = "9d4c2f1e-8a60-4b1d-9c55-2f8f0a6b1e02"
	modifies := strings.Replace(requestText, `"payload": {`, `"payload": {"files_to_modify": ["/src/a.go"], `, 1)
	other := strings.ReplaceAll(modifies, taskID, second)
	otherPath := strings.ReplaceAll(requestPath, taskID, second)
	overlaps := func(s *site) (texts []string) {
		for _, f := range s.look().Findings {
			if f.Code == "overlap" {
				texts = append(texts, f.Text)
			}
		}
		return texts
	}
	s := newSite(t, around+file(requestPath, modifies)+file(otherPath, other))
	if got := overlaps(s); len(got) != 1 || !strings.Contains(got[0], taskID) || !strings.Contains(got[0], second) || !strings.Contains(got[0], "/src/a.go") {
		t.Errorf("got %q", got)
	}
	s.Write(otherPath, strings.Replace(other, `"coordination": {`, `"coordination": {"after": ["`+taskID+`"], `, 1))
	if got := overlaps(s); len(got) != 0 {
		t.Errorf("one after the other: %q", got)
	}
	s.Write(otherPath, other)
	s.Write(resultPath, strings.ReplaceAll(resultText, "failed", "completed"))
	if got := overlaps(s); len(got) != 0 {
		t.Errorf("one has ended: %q", got)
	}
}
