package protocol

import "testing"

// Every finding names a file, relative to the project, if its adapter or its subject has one.
func TestLocate(t *testing.T) {
	s := Snapshot{Tasks: []Task{{Request: Request{ID: "t", Ref: Ref{Path: "tasks/t.json"}}}}, Agents: []Agent{{Name: "a", Ref: Ref{Path: "base/a.json"}}},
		Locks: []Lock{{Resource: "r", Ref: Ref{Path: "state.json"}}}}
	want := []string{"base/results/t.json", "base/tasks/t.json", "base/a.json", "base/state.json", "base/queue.json", ".git/HEAD", ""}
	s.Findings = []Finding{{Subject: s.Subject(KindTask, "t"), Path: "results/t.json"}, {Subject: s.Subject(KindTask, "t")}, {Subject: s.Subject(KindAgent, "a")},
		{Subject: s.Subject(KindLock, "r")}, {Subject: s.Subject(KindProject, "queue.json")}, {Subject: s.Subject(KindProject, ".git/HEAD")}, {Subject: s.Subject(KindTask, "gone")}}
	s.Locate("base")
	for i, f := range s.Findings {
		if f.Path != want[i] {
			t.Errorf("%s: %q, want %q", f.Subject, f.Path, want[i])
		}
	}
}
