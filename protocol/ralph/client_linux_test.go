package ralph

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
)

// While a worker lives, nothing marks its task, and the error names the program's own command. A lost task can be marked.
func TestReportOnATaskAtWork(t *testing.T) {
	dir := inHand(t)
	k := found(t, filepath.Join(dir, home), filepath.Join(dir, home), ":")
	write(t, dir, home+"/agent.pid", pidText(k.leader))
	c := connect(t, dir)
	for _, kind := range []protocol.ReportKind{protocol.ReportDone, protocol.ReportFailed, protocol.ReportReturned, protocol.ReportCancel} {
		_, err := c.Report(t.Context(), "TASK-001", protocol.Report{Kind: kind}, time.Now())
		if !errors.Is(err, protocol.ErrTaken) || !strings.Contains(err.Error(), workerOne+" is at work") || !strings.Contains(err.Error(), "`wiggum worker stop TASK-001`") {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if a, err := c.Show(t.Context(), "TASK-001", time.Now()); err != nil || a.State != protocol.TaskRunning || a.Worker != protocol.Identity(k.leader) {
		t.Errorf("%+v, %v", a, err)
	}
	k.killLeader()
	kill(t, k.child)
	write(t, dir, home+"/resume-state.json", fmt.Sprintf(`{"attempts": 1, "cooldown_until": %d}`, time.Now().Add(time.Hour).Unix()))
	if _, err := c.Report(t.Context(), "TASK-001", protocol.Report{Kind: protocol.ReportReturned}, time.Now()); !errors.Is(err, protocol.ErrTaken) || !strings.Contains(err.Error(), "attempt 2 of 5") {
		t.Errorf("its program resumes it: %v", err)
	}
	write(t, dir, home+"/resume-state.json", `{"attempts": 5}`)
	if _, err := c.Report(t.Context(), "TASK-001", protocol.Report{Kind: protocol.ReportReturned}, time.Now()); err != nil || !strings.Contains(text(t, dir, kanbanPath), "- [ ] **[TASK-001]") {
		t.Errorf("lost: %v\n%s", err, text(t, dir, kanbanPath))
	}
}

// Protocol 002, Concurrent Access: tasks that are added at the same time as the program writes get different ids, and no
// write is lost.
func TestSubmitUnderContention(t *testing.T) {
	needFlock(t)
	dir := lay(t, file(kanbanPath, "Count: 0\n"+kanban(line(" ", "TASK-001", "x"))))
	cmd := exec.Command("bash", "-c", counter, "counter", filepath.Join(dir, kanbanPath))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	const each = 6
	for range 3 {
		c := connect(t, dir)
		all.Go(func() {
			for range each {
				if _, err := c.Submit(t.Context(), protocol.Order{Title: "x"}, time.Now()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	got := text(t, dir, kanbanPath)
	if !strings.HasPrefix(got, "Count: 50\n") {
		t.Errorf("an increment was lost:\n%s", got)
	}
	for n := range 3*each + 1 {
		if id := fmt.Sprintf("**[TASK-%03d]**", n+1); strings.Count(got, id) != 1 {
			t.Errorf("%s stands %d times", id, strings.Count(got, id))
		}
	}
}

// A lock that another process keeps is named, and nothing is written.
func TestSubmitWhileLocked(t *testing.T) {
	needFlock(t)
	dir := lay(t, file(kanbanPath, kanban(line(" ", "TASK-001", "x")))+file(kanbanPath+".lock", ""))
	cmd := exec.Command("bash", "-c", `exec 9>"$0"; flock 9; echo ready; read`, filepath.Join(dir, kanbanPath+".lock"))
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out.Read(make([]byte, 8))
	c, before := connect(t, dir), text(t, dir, kanbanPath)
	c.p.write.patience = 20 * time.Millisecond
	_, err := c.Submit(t.Context(), protocol.Order{Title: "x"}, time.Now())
	if want := fmt.Sprintf("locked by bash (%d) for 20ms; nothing was written", cmd.Process.Pid); err == nil || !strings.Contains(err.Error(), want) || text(t, dir, kanbanPath) != before {
		t.Errorf("%v, want %s", err, want)
	}
	in.Close()
	cmd.Wait()
	if _, err := c.Submit(t.Context(), protocol.Order{Title: "x"}, time.Now()); err != nil {
		t.Error(err)
	}
}
