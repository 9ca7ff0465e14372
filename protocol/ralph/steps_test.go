package ralph

import (
	"strings"
	"testing"
	"time"
)

// Protocol 002, Result File Format and Fix-retry loop: the snapshot shows the content of a result, names its report, and
// counts the runs of a step that says FIX.
func TestSteps(t *testing.T) {
	dir := Base + "/workers/worker-TASK-001-1705312000/"
	files := "-- " + Base + "/kanban.md --\n# Board\n\n## TASKS\n\n- [P] **[TASK-001]** Do it\n  - Description: x\n  - Priority: HIGH\n  - Dependencies: none\n"
	for _, epoch := range []string{"1705312200", "1705312300", "1705312400"} {
		files += "-- " + dir + "results/" + epoch + "-audit-result.json --\n" +
			`{"status": "partial", "exit_code": 0, "duration_seconds": 90, "iterations_completed": 3, "outputs": {"gate_result": "FIX", "pr_url": "https://example.org/7"}, "errors": []}` + "\n"
	}
	files += "-- " + dir + "reports/1705312400-audit-report.md --\n# Audit\n"
	p, now := open(t, lay(t, files)), time.Now()
	snap := look(t, p, now)
	if len(snap.Tasks) != 1 || len(snap.Tasks[0].Steps) != 1 {
		t.Fatalf("%+v", snap.Tasks)
	}
	got := snap.Tasks[0].Steps[0]
	if got.Gate != "FIX" || got.Runs != 3 || got.ExitCode == nil || *got.ExitCode != 0 || got.Seconds != 90 || got.Iterations != 3 || got.PR != "https://example.org/7" ||
		got.Report != dir+"reports/1705312400-audit-report.md" {
		t.Errorf("%+v", got)
	}
	for _, f := range snap.Findings {
		if f.Code == "fix_loop" && strings.Contains(f.Text, "after 3 runs") {
			return
		}
	}
	t.Errorf("no finding counts the runs: %+v", snap.Findings)
}
