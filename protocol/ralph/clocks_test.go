package ralph

import (
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/protocoltest"
)

// Progress, results, errors and violations get the time of their files, whatever time zone a worker uses when it writes
// times without a zone.
func TestWorkerByAnyZone(t *testing.T) {
	for _, pen := range protocoltest.Zones() {
		now := time.Now()
		at := pen.Text(now.Add(-time.Second))
		dir := lay(t, file(kanbanPath, "# Board\n\n## TASKS\n\n- [=] **[TASK-001]** Do it\n")+
			file(home+"/checkpoints/checkpoint-1.json", `{"iteration": 1, "status": "in_progress", "timestamp": "`+at+`"}`+"\n")+
			file(home+"/results/1705312001-x-result.json", `{"status": "success", "completed_at": "`+at+`"}`+"\n")+
			file(Base+"/logs/events.jsonl", `{"ts": "`+at+`", "event": "error", "worker_id": "`+workerOne+`", "message": "no disk"}`+"\n")+
			file(Base+"/"+violationsFile, "["+at+"] "+workerOne+" WORKSPACE_VIOLATION\n"))
		p := open(t, dir)
		s := p.Observe(t.Context(), protocol.ScanOrder{Now: now.Add(time.Second), Since: now.Add(-time.Minute)})
		if d := now.Sub(taskOf(t, &s, "TASK-001").Progress.At); d.Abs() > 2*time.Second {
			t.Errorf("%s: the progress is %v old", pen.Name, d)
		}
		for _, code := range []string{"error", "violation"} {
			if findingOf(&s, code) == nil {
				t.Errorf("%s: no finding %s", pen.Name, code)
			}
		}
		if d := now.Sub(stepEnd(t, p)); d.Abs() > 2*time.Second {
			t.Errorf("%s: the step ended %v ago", pen.Name, d)
		}
	}
}

// stepEnd returns when the worker's only step ended.
func stepEnd(t *testing.T, p *Project) time.Time {
	t.Helper()
	for _, w := range p.workers.all {
		for _, s := range w.results {
			return s.when()
		}
	}
	t.Fatal("no step")
	return time.Time{}
}
