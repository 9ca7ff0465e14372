package ralph

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/protocoltest"
)

func TestFinishedWorkersRetire(t *testing.T) {
	const n = 200
	var lines []string
	files := file(home+"/agent.pid", nobody)
	for i := range n {
		id := fmt.Sprintf("OLD-%04d", i)
		lines = append(lines, line([]string{"x", "*", "N"}[i%3], id, "x"))
		files += file(fmt.Sprintf("%s/%s/worker-%s-1600000000/agent.pid", Base, workersDir, id), nobody)
	}
	files += file(Base+"/"+workersDir+"/worker-GONE-001-1600000000/agent.pid", nobody)
	files += file(Base+"/"+workersDir+"/worker-TASK-001-plan-1600000000/agent.pid", nobody)
	dir := lay(t, files+file(kanbanPath, kanban(append(lines, line("=", "TASK-001", "x"))...)))
	p := open(t, dir)
	p.sys.table = func() ([]proc.Process, error) { return nil, nil }
	now := time.Now().Add(time.Hour)
	see := func(hints []string) *protocol.Snapshot {
		s := p.Observe(t.Context(), protocol.ScanOrder{Now: now, Since: now.Add(-time.Minute), Hints: hints})
		return &s
	}
	first := protocoltest.Describe(see(nil))
	manned, retired := 0, 0
	for _, w := range p.workers.all {
		if w.manned() {
			manned++
		}
		if w.retired {
			retired++
		}
	}
	if manned != 1 || len(p.workers.live) != 1 || retired != n+2 {
		t.Fatalf("%d with pid files, %d at work, %d retired", manned, len(p.workers.live), retired)
	}
	for _, hints := range [][]string{nil, {}, {home}, nil} {
		if got := protocoltest.Describe(see(hints)); got != first {
			t.Errorf("hints %q:\n%s\nat first:\n%s", hints, got, first)
		}
	}
	// A pid file is rewritten in place: a hint reveals that, or the next full scan does.
	self := proc.Process{Identity: proc.Identity{PID: 4999998, Start: 1, Boot: "b", UID: os.Getuid()}, Session: 4999998}
	p.sys.table = func() ([]proc.Process, error) { return []proc.Process{self}, nil }
	again := fmt.Sprintf("%s/%s/worker-OLD-0150-1600000000/agent.pid", Base, workersDir)
	write(t, dir, again, "4999998\n")
	if s := see([]string{again}); len(s.Agents) != 2 {
		t.Errorf("hinted at:\n%s", protocoltest.Describe(s))
	}
	again = fmt.Sprintf("%s/%s/worker-OLD-0100-1600000000/agent.pid", Base, workersDir)
	write(t, dir, again, "4999998\n")
	if s := see(nil); len(s.Agents) != 3 {
		t.Errorf("a full scan does not see that a pid file was rewritten:\n%s", protocoltest.Describe(s))
	}
	// A worker's task is to be done again: the worker is of interest at once.
	write(t, dir, kanbanPath, kanban(append(append([]string{line(" ", "OLD-0000", "x")}, lines[1:]...), line("=", "TASK-001", "x"))...))
	age(t, dir, kanbanPath, now.Add(-time.Second))
	if a, ok := see([]string{kanbanPath}).Agent("worker-OLD-0000-1600000000"); !ok || !a.Idle {
		t.Errorf("to be done again: %+v", a)
	}
}
