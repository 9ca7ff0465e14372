package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/livhana/steward/join/task"
	"github.com/livhana/steward/platform/confine"
	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
)

func TestTwoWorkersRunEachTaskOnce(t *testing.T) {
	s := newSite(t)
	script := s.script("count.sh", `echo "$1" >> runs`)
	const tasks = 30
	for i := range tasks {
		s.submit(request(task.Execute, execute(script, fmt.Sprint(i))))
	}
	var both sync.WaitGroup
	taken := 0
	var mu sync.Mutex
	for range 2 {
		both.Go(func() {
			o := s.options(func(o *Options) { o.Jobs = 2 })
			o.Client = s.connect()
			defer o.Client.Close()
			tally, err := New(o).Run(t.Context())
			mu.Lock()
			defer mu.Unlock()
			taken += tally.Taken
			if err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	seen := map[string]int{}
	for _, l := range strings.Fields(s.read("runs")) {
		seen[l]++
	}
	if len(seen) != tasks || taken != tasks {
		t.Errorf("%d of %d tasks ran, %d were taken", len(seen), tasks, taken)
	}
	for i, n := range seen {
		if n != 1 {
			t.Errorf("task %s ran %d times", i, n)
		}
	}
}

func TestTheGate(t *testing.T) {
	s := newSite(t)
	script := s.script("run.sh", `echo "$1" >> runs`)
	limit := func(v float64) func(*agentstatus.Request) {
		return func(r *agentstatus.Request) { r.Throttle = &v }
	}
	low := s.submit(request(task.Execute, execute(script, "low"), limit(0.5), func(r *agentstatus.Request) { r.Priority = "critical" }))
	s.submit(request(task.Execute, execute(script, "lower"), limit(0.4)))
	s.submit(request(task.Execute, execute(script, "high"), limit(0.9)))
	var mu sync.Mutex
	load, asked := 0.7, map[string]int{}
	gate := func(_ context.Context, task string, throttle *float64) (bool, string, time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		asked[task]++
		load += 0.001 // the figure in the reason changes, the reason does not
		return load < *throttle, fmt.Sprintf("memory is %.3f full", load), 20 * time.Millisecond
	}
	stop := s.background(func(o *Options) { o.Gate, o.Poll = gate, time.Hour })
	s.await("the task that allows more load runs", func() bool { return s.read("runs") == "high\n" })
	s.await("the gate is asked again at the time that it named", func() bool { mu.Lock(); defer mu.Unlock(); return asked[low] > 4 })
	if n := strings.Count(s.said.text(), "waits: memory"); n != 1 {
		t.Errorf("said %d times why: %s", n, s.said.text())
	}
	if d := s.detail(low); d.State != agentstatus.StatePending || d.Claim != nil {
		t.Errorf("a task that waits for room is %s", d.State)
	}
	mu.Lock()
	load = 0
	mu.Unlock()
	s.await("all run once there is room", func() bool { return s.read("runs") == "high\nlow\nlower\n" })
	stop()
}

// heartbeat reads the worker's heartbeat as any reader would.
func (s *site) heartbeat() (status string, tasks []string, health map[string]any) {
	var doc struct {
		Status string
		Tasks  []string `json:"active_tasks"`
		Health map[string]any
	}
	_ = json.Unmarshal([]byte(s.read("tmp/agent_status/codex_status/heartbeat.json")), &doc)
	return doc.Status, doc.Tasks, doc.Health
}

func TestItBeatsWhileItWorksAndStopsWhenTheTaskIsCancelled(t *testing.T) {
	s := newSite(t)
	id := s.submit(request(task.Execute, execute(s.script("long.sh", "echo $$ > pid; sleep 1000"))))
	hints := make(chan struct{}, 1)
	stop := s.background(func(o *Options) { o.Poll, o.Beat, o.Hints = time.Hour, time.Hour, hints })
	s.await("the task runs", func() bool { return s.read("pid") != "" })
	s.await("the heartbeat names it", func() bool {
		status, tasks, _ := s.heartbeat()
		return status == "busy" && len(tasks) == 1 && tasks[0] == id
	})
	if d := s.detail(id); d.State != agentstatus.StateRunning || d.Claim == nil || !d.Claim.Worker.Proves() || !d.Claim.Runner.Proves() || d.Claim.Mark == "" {
		t.Errorf("got %s, claim %+v", d.State, d.Claim)
	}
	if err := s.client.Cancel(t.Context(), id, "not needed", time.Now()); err != nil {
		t.Fatal(err)
	}
	hints <- struct{}{}
	s.gone("pid")
	s.await("it is idle", func() bool { status, tasks, _ := s.heartbeat(); return status == "idle" && len(tasks) == 0 })
	if r := s.result(id); r.Status != statusFailed || r.Errors[0].Code != codeCancelled {
		t.Errorf("got %+v", r)
	}
	stop()
}

func TestAskedToEndItStopsWhatRuns(t *testing.T) {
	s := newSite(t)
	id := s.submit(request(task.Execute, execute(s.script("long.sh", "trap '' TERM; echo $$ > pid; while :; do sleep 1; done"))))
	next := s.submit(request(task.Execute, execute(s.script("next.sh", "touch next-ran"))))
	stop := s.background()
	s.await("the task runs", func() bool { return s.read("pid") != "" })
	stop()
	e := theError(t, s.result(id), statusFailed, codeStopped)
	if e.Severity != severityError {
		t.Errorf("got %+v", e)
	}
	s.gone("pid")
	if d := s.detail(next); d.State != agentstatus.StatePending || s.read("next-ran") != "" {
		t.Errorf("the next task is %s", d.State)
	}
	if status, tasks, _ := s.heartbeat(); status != "idle" || len(tasks) > 0 {
		t.Errorf("it left %s with %v", status, tasks)
	}
}

func TestWhatHasNotBegunIsGivenBack(t *testing.T) {
	s := newSite(t)
	id := s.submit(request(task.Execute, execute(s.script("run.sh", "touch ran"))))
	o := s.options()
	o.Client = s.connect()
	defer o.Client.Close()
	w := New(o)
	if err := o.Client.Enroll(t.Context(), agentstatus.Registration{Agent: agent, Process: o.Process, Shared: true}, time.Now()); err != nil {
		t.Fatal(err)
	}
	list, err := o.Client.Open(t.Context(), agent, time.Now())
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	if err := o.Client.Claim(t.Context(), list[0], agentstatus.Claim{Agent: agent, Worker: o.Process, Mark: "m"}, time.Now()); err != nil {
		t.Fatal(err)
	}
	j := newJob(t.Context(), list[0], w.planner.plan(list[0]), "m", time.Now())
	w.jobs[id] = j
	j.halt(errStopping)
	go w.perform(t.Context(), j, "")
	(<-w.events)()
	if d := s.detail(id); d.State != agentstatus.StatePending || d.Claim != nil || d.Result != nil || s.read("ran") != "" || len(w.jobs) != 0 {
		t.Errorf("got %s, %+v, %+v", d.State, d.Claim, d.Result)
	}
}

func TestOnce(t *testing.T) {
	s := newSite(t)
	once := func(o *Options) { o.Once, o.Drain = true, false }
	if tally := s.drain(once); tally.Taken != 0 || tally.Last != nil {
		t.Errorf("nothing to take: got %+v", tally)
	}
	for range 2 {
		s.submit(request(task.Execute, execute(s.script("run.sh", "echo x >> runs; exit 7"))))
	}
	if tally := s.drain(once); tally.Taken != 1 || tally.Last == nil || tally.Last.Status != statusFailed || tally.Last.Body.Metrics["exit_code"] != 7 {
		t.Errorf("got %+v", tally)
	}
	if s.read("runs") != "x\n" {
		t.Errorf("ran %q", s.read("runs"))
	}
}

// child starts a sleeping process with these additional variables.
func child(t *testing.T, env ...string) (proc.Identity, *exec.Cmd) {
	t.Helper()
	c := exec.Command("sleep", "1000")
	c.Env = append(os.Environ(), env...)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	id, err := proc.Inspect(c.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	return id, c
}

func TestAnOlderRunIsEndedFirst(t *testing.T) {
	s := newSite(t)
	q := request(task.Execute, execute(s.script("run.sh", "true")))
	old, _ := child(t, "STEWARD_TASK_ID="+q.TaskID, "STEWARD_PROJECT="+s.dir)
	stranger, _ := child(t, "STEWARD_TASK_ID="+q.TaskID, "STEWARD_PROJECT="+s.dir+"/other")
	if _, err := proc.Marked("STEWARD_TASK_ID", q.TaskID); err != nil {
		t.Skip(err)
	}
	if r := s.run(q); r.Status != statusCompleted {
		t.Errorf("got %+v", r.Errors)
	}
	if proc.Check(old) != proc.Gone {
		t.Error("the older run lives beside the new one")
	}
	if proc.Check(stranger) != proc.Alive {
		t.Error("a process of another project was ended")
	}
}

func TestWhatADeadWorkerLeftIsConcluded(t *testing.T) {
	s := newSite(t)
	id := s.submit(request(task.Execute, execute(s.script("run.sh", "true"))))
	worker, dead := child(t)
	left, _ := child(t, "STEWARD_RUN=the-mark-of-"+id)
	list, err := s.client.Open(t.Context(), agent, time.Now())
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	k := agentstatus.Claim{Agent: agent, Worker: protocol.Identity(worker), Mark: "the-mark-of-" + id}
	if err := s.client.Claim(t.Context(), list[0], k, time.Now()); err != nil {
		t.Fatal(err)
	}
	alone := func(o *Options) { o.Supervised = func() bool { return false } }
	if s.drain(alone); s.detail(id).Result != nil {
		t.Fatal("the task of a living worker was ended")
	}
	_ = dead.Process.Kill()
	_ = dead.Wait()
	if s.drain(); s.detail(id).Result != nil {
		t.Fatal("a worker did what is the daemon's")
	}
	s.drain(alone)
	if r := s.result(id); r.Status != statusFailed || r.Errors[0].Code != "AGENT_LOST" {
		t.Errorf("got %+v", r)
	}
	if proc.Check(left) != proc.Gone {
		t.Error("what the dead worker had started lives on")
	}
}

func TestProgress(t *testing.T) {
	s := newSite(t)
	id := s.submit(request(task.Execute, execute(s.script("long.sh", "echo $$ > pid; while [ ! -e end ]; do sleep 0.05; done")), func(r *agentstatus.Request) {
		r.Coordination = agentstatus.RequestCoordination{Progress: true, Every: 1}
	}))
	stop := s.background()
	progress := func() agentstatus.TaskProgress {
		if d := s.detail(id); d.Progress != nil {
			return *d.Progress
		}
		return agentstatus.TaskProgress{}
	}
	s.await("the file tells that it runs", func() bool { p := progress(); return p.Percent == 0 && strings.HasPrefix(p.Step, "running long.sh, ") })
	first := progress().At
	s.await("it is kept fresh", func() bool { return progress().At.After(first) })
	if err := s.client.Progress(t.Context(), id, agentstatus.TaskProgress{Percent: 40, Step: "half way", Done: 2, Total: 5}, time.Now()); err != nil {
		t.Fatal(err)
	}
	told := progress().At
	s.await("what the command reports is kept fresh", func() bool { return progress().At.After(told.Add(time.Second)) })
	if p := progress(); p.Percent != 40 || p.Step != "half way" || p.Done != 2 || p.Total != 5 {
		t.Errorf("got %+v", p)
	}
	if err := s.client.Progress(t.Context(), id, agentstatus.TaskProgress{Percent: 80, Step: "nearly"}, time.Now()); err != nil {
		t.Fatal(err)
	}
	told = progress().At
	s.await("the next report too", func() bool { return progress().At.After(told.Add(time.Second)) })
	if p := progress(); p.Percent != 80 || p.Step != "nearly" {
		t.Errorf("got %+v", p)
	}
	s.write("end", "", 0o644)
	s.await("it ends", func() bool { return s.detail(id).Result != nil })
	stop()
}

func TestAFullDiskLosesNoResult(t *testing.T) {
	dir := t.TempDir()
	if err := exec.Command("mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", dir).Run(); err != nil {
		t.Skip("a small tmpfs cannot be mounted here (root only)")
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
	s := siteAt(t, dir)
	id := s.submit(request(task.Execute, execute(s.script("fill.sh", "head -c 50000000 /dev/zero > filled"))))
	stop := s.background(func(o *Options) { o.Poll = time.Hour })
	s.await("the result cannot be written", func() bool { return strings.Contains(s.said.text(), "write the result") })
	if d := s.detail(id); d.State != agentstatus.StateRunning || d.Claim == nil {
		t.Errorf("the task is %s meanwhile", d.State)
	}
	if err := os.Remove(filepath.Join(dir, "filled")); err != nil {
		t.Fatal(err)
	}
	s.await("the result is written", func() bool { return s.detail(id).Result != nil })
	theError(t, s.result(id), statusFailed, codeDiskFull)
	stop()
	if _, _, health := s.heartbeat(); health["disk_ok"] != true {
		t.Errorf("health %v", health)
	}
}

func TestAtTheEndItSaysWhichResultIsLost(t *testing.T) {
	dir := t.TempDir()
	if err := exec.Command("mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", dir).Run(); err != nil {
		t.Skip("a small tmpfs cannot be mounted here (root only)")
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
	s := siteAt(t, dir)
	id := s.submit(request(task.Execute, execute(s.script("fill.sh", "head -c 50000000 /dev/zero > filled"))))
	stop := s.background()
	s.await("the result cannot be written", func() bool { return strings.Contains(s.said.text(), "write the result") })
	if tally := stop(); len(tally.Unsaved) != 1 || tally.Unsaved[0] != id || !strings.Contains(s.said.text(), "could not be written and is lost") {
		t.Errorf("got %+v; it said:\n%s", tally, s.said.text())
	}
}

func TestCommandsWriteWhereTheyMay(t *testing.T) {
	if !confine.Supported() {
		t.Skip("this kernel has no landlock")
	}
	s := newSite(t)
	away := "/var/tmp/steward-worker-test-" + agentstatus.NewTaskID()
	t.Cleanup(func() { os.Remove(away) })
	temp := t.TempDir()
	script := s.script("write.sh", `touch inside "$TMPDIR/inside" && echo x > /dev/null && touch `+temp+"/beside; touch "+away)
	r := s.run(request(task.Execute, execute(script)), func(o *Options) { o.Confine, o.Temp = true, temp })
	theError(t, r, statusFailed, codeExecution)
	if _, err := os.Stat(away); err == nil || r.Body.Metrics["confined"] != true {
		t.Errorf("it wrote out of the project (%v), metrics %v", err, r.Body.Metrics)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "inside")); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("in the folder for temporary files there is %v, %v", left, err)
	}
}
