package worker

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/livhana/steward/join/task"
	"github.com/livhana/steward/protocol/agentstatus"
)

// TestResultNamesWhatTheCommandWrote: a result names the files that the command has created and changed, whether or not
// the request named them.
func TestResultNamesWhatTheCommandWrote(t *testing.T) {
	s := newSite(t)
	s.write("old.txt", "before\n", 0o644)
	s.write("still.txt", "same\n", 0o644)
	script := s.script("make.sh", "mkdir -p out node_modules/x .git; echo a > report.txt; echo b > out/more.txt; echo after all > old.txt; echo c > node_modules/x/y; echo d > .git/e")
	r := s.run(request(task.Execute, execute(script)))
	if want := []string{filepath.Join(s.dir, "out/more.txt"), filepath.Join(s.dir, "report.txt")}; !slices.Equal(r.Body.Artifacts, want) {
		t.Errorf("artifacts %q, want %q", r.Body.Artifacts, want)
	}
	if want := []string{filepath.Join(s.dir, "old.txt")}; !slices.Equal(r.Body.Modified, want) {
		t.Errorf("modified %q, want %q", r.Body.Modified, want)
	}
	// A command that works in a subfolder may write elsewhere in the project.
	script = s.script("up.sh", "echo e > ../beside.txt")
	s.write("sub/keep.txt", "k\n", 0o644)
	up := execute(script)
	up["working_directory"] = "sub"
	r = s.run(request(task.Execute, up))
	if want := []string{filepath.Join(s.dir, "beside.txt")}; !slices.Equal(r.Body.Artifacts, want) {
		t.Errorf("artifacts %q, want %q", r.Body.Artifacts, want)
	}
	// Above mostChanged the result names only the files that the request names.
	script = s.script("many.sh", fmt.Sprintf("i=0; while [ $i -lt %d ]; do : > many$i; i=$((i+1)); done; echo z > named.txt", mostChanged+1))
	r = s.run(request(task.Execute, execute(script), func(r *agentstatus.Request) { r.Payload.Artifacts = []string{"named.txt"} }))
	if want := []string{filepath.Join(s.dir, "named.txt")}; !slices.Equal(r.Body.Artifacts, want) {
		t.Errorf("artifacts %d, want %q", len(r.Body.Artifacts), want)
	}
}
