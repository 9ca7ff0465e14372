package mailbox

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/protocoltest"
)

// child starts a process that plays the orchestrator, inside the project and in its own process group, as an interactive
// shell would.
func (r *testProject) child(script string) *exec.Cmd {
	r.T.Helper()
	cmd := exec.CommandContext(r.T.Context(), "sh", "-c", script)
	cmd.Dir, cmd.SysProcAttr = r.Dir, &syscall.SysProcAttr{Setpgid: true}
	r.Do(cmd.Start())
	r.T.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); _ = cmd.Wait() })
	return cmd
}

func (r *testProject) end(cmd *exec.Cmd) {
	r.T.Helper()
	r.Do(cmd.Process.Kill())
	_ = cmd.Wait()
}

func pidText(cmd *exec.Cmd) string { return strconv.Itoa(cmd.Process.Pid) }

// boardOf is boardText with the orchestrator's pid, and with a start time relative to the project's clock.
func boardOf(pid, started string) string {
	text := strings.Replace(boardText, "4999999", pid, 1)
	return strings.Replace(text, "2026-01-02T03:00:00.000Z", "{{now"+started+"}}", 1)
}

// While the orchestrator lives, steward changes nothing. After it is killed, steward detects that at the next scan and
// repairs what it left.
func TestOrchestratorLivesAndDies(t *testing.T) {
	r := newTestProject(t, around)
	cmd := r.child("exec sleep 100")
	r.Now = time.Now()
	r.Write(pidPath, pidText(cmd)) // as node writes it: without a newline
	r.Write(boardPath, boardOf(pidText(cmd), "+0s"))

	s := r.pass(100 * time.Millisecond)
	a, _ := s.Agent(orchestratorName)
	if a.Presence != protocol.PresenceHere || a.Idle || a.PID != cmd.Process.Pid || !strings.Contains(s.Yield, pidText(cmd)) || a.Ref != (protocol.Ref{}) {
		t.Fatalf("%+v, yield %q", a, s.Yield)
	}
	if id, err := proc.Inspect(cmd.Process.Pid); err != nil || a.Process != protocol.Identity(id) || !a.Process.Proves() {
		t.Errorf("nobody can wait for its end: %+v, %v", a.Process, err)
	}
	if dev, _ := s.Agent(developer); dev.Idle || dev.Limit != 15*time.Minute || dev.Presence != protocol.PresenceHere ||
		dev.Evidence != "its orchestrator (pid "+pidText(cmd)+") lives" || dev.Process != (protocol.Identity{}) {
		t.Errorf("developer %+v", dev)
	}
	if k := taskOf(t, s, "task-001"); k.Lost != "" || protocoltest.Codes(s, "task-001") != "" {
		t.Errorf("%+v", k)
	}
	for _, c := range []protocol.Change{requeueChange(taskOf(t, s, "task-001")), {Verb: protocol.VerbMark, Subject: about(protocol.KindAgent, orchestratorName)},
		change(taskOf(t, s, "task-000"), protocol.VerbFile)} {
		if err := r.apply(c); !isConflict(err) || !strings.Contains(err.Error(), "orchestrator runs") {
			t.Errorf("%s under a living orchestrator: %v", c.Verb, err)
		}
	}
	if r.Read(queuePath) != queueText {
		t.Error("the queue was touched")
	}
	if _, err := os.Stat(r.Path(Base + "/steward")); err == nil {
		t.Error("steward's folder was made under a living orchestrator")
	}

	r.end(cmd)
	s = r.pass(100 * time.Millisecond)
	if a, _ = s.Agent(orchestratorName); a.Presence != protocol.PresenceHere || s.Yield == "" || protocoltest.Codes(s, orchestratorName) != "" {
		t.Fatalf("killed a moment ago, it may still sign off: %+v, yield %q", a, s.Yield)
	}
	s = r.pass(signOff)
	a, _ = s.Agent(orchestratorName)
	if a.Presence != protocol.PresenceGone || a.Process != (protocol.Identity{}) || a.Recorded != "running" || a.Ref.Path == "" || s.Yield != "" || protocoltest.Codes(s, orchestratorName) != "running medium" {
		t.Fatalf("killed: %+v, yield %q, %s", a, s.Yield, protocoltest.Codes(s, orchestratorName))
	}
	if dev, _ := s.Agent(developer); !dev.Idle || dev.Presence != protocol.PresenceUnproved {
		t.Error("a developer without an orchestrator is expected to work")
	}
	if k := taskOf(t, s, "task-001"); k.Lost == "" || protocoltest.Codes(s, "task-001") != "stuck medium" {
		t.Errorf("%+v %s", k, protocoltest.Codes(s, "task-001"))
	}
	r.Do(r.apply(protocol.Change{Verb: protocol.VerbMark, Subject: about(protocol.KindAgent, orchestratorName), Judged: protocol.Judged{Ref: a.Ref}, Status: "error"}))
	r.Do(r.apply(requeueChange(taskOf(t, s, "task-001"))))
	s = r.pass(100 * time.Millisecond)
	if a, _ = s.Agent(orchestratorName); a.Recorded != "error" || !a.Idle || protocoltest.Codes(s, orchestratorName)+protocoltest.Codes(s, "task-001") != "" || !taskOf(t, s, "task-001").Visible {
		t.Errorf("mended: %+v %+v", a, s.Findings)
	}
}

// An orchestrator that signs off in its own files has left, whether it signs off before its process ends or within two
// seconds after. Later silence, or a restart of steward, does not change that.
func TestSigningOffIsNoDeath(t *testing.T) {
	off := strings.Replace(boardOf("null", "-1h"), `"running": true`, `"running": false`, 1)
	for name, leave := range map[string]func(r *testProject, cmd *exec.Cmd){
		"before its end": func(r *testProject, cmd *exec.Cmd) {
			r.Write(boardPath, off)
			r.Do(os.Remove(r.Path(pidPath)))
			r.pass(50 * time.Millisecond)
			r.end(cmd)
		},
		"after its end": func(r *testProject, cmd *exec.Cmd) {
			r.end(cmd)
			r.pass(time.Second)
			r.Write(boardPath, off)
			r.Do(os.Remove(r.Path(pidPath)))
		},
		"running alone": func(r *testProject, cmd *exec.Cmd) {
			r.end(cmd)
			r.Write(boardPath, off)
		},
		"the pid in both files": func(r *testProject, cmd *exec.Cmd) {
			r.Do(os.Remove(r.Path(pidPath)))
			r.Write(boardPath, strings.Replace(boardOf(pidText(cmd), "+0s"), `"pid": `+pidText(cmd), `"pid": null`, 1))
			r.end(cmd)
		},
		"the pid file alone": func(r *testProject, cmd *exec.Cmd) {
			r.Do(os.Remove(r.Path(pidPath)))
			r.end(cmd)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTestProject(t, around)
			cmd := r.child("exec sleep 100")
			r.Now = time.Now()
			r.Write(pidPath, pidText(cmd))
			r.Write(boardPath, boardOf(pidText(cmd), "+0s"))
			if s := r.pass(time.Second); s.Yield == "" {
				t.Fatal("it lives")
			}
			leave(r, cmd)
			for _, wait := range []time.Duration{time.Millisecond, signOff - time.Second, signOff, time.Hour} {
				s := r.pass(wait)
				a, _ := s.Agent(orchestratorName)
				if a.Presence == protocol.PresenceGone || a.Left == "" || !a.Idle || s.Yield != "" || a.Status != "stopped" || protocoltest.Codes(s, orchestratorName) != "" {
					t.Errorf("%v later: %+v, yield %q", wait, a, s.Yield)
				}
			}
			if name == "the pid file alone" || name == "the pid in both files" {
				return // its file still says that it runs
			}
			r.reopen()
			if a, _ := r.pass(time.Second).Agent(orchestratorName); a.Left == "" || !a.Idle {
				t.Errorf("after a restart of steward: %+v", a)
			}
		})
	}
}

// While the orchestrator lives, no role is dead and no work is lost. Silence beyond the role's limit is a finding, with
// the same text at every scan, until there is a sign of life.
func TestOverLimit(t *testing.T) {
	r := newTestProject(t, around)
	cmd := r.child("exec sleep 100")
	r.Now = time.Now()
	since := r.Now
	board := strings.Replace(boardOf(pidText(cmd), "+0s"), `"techLead": {"status": "idle"`, `"techLead": {"status": "reviewing"`, 1)
	r.Write(boardPath, board)
	want := func(s *protocol.Snapshot, lead, dev string) {
		t.Helper()
		if got := protocoltest.Codes(s, "tech-lead"); got != lead {
			t.Errorf("after %v: tech-lead %q, want %q", r.Now.Sub(since), got, lead)
		}
		if got := protocoltest.Codes(s, developer); got != dev {
			t.Errorf("after %v: developer %q, want %q", r.Now.Sub(since), got, dev)
		}
		for _, name := range []string{"tech-lead", developer} {
			if a, _ := s.Agent(name); a.Presence != protocol.PresenceHere || a.Idle {
				t.Errorf("%s: %+v", name, a)
			}
		}
		if taskOf(t, s, "task-001").Lost != "" || protocoltest.Codes(s, "task-001") != "" || protocoltest.Codes(s, "planner") != "" {
			t.Errorf("%+v", s.Findings)
		}
	}
	text := func(s *protocol.Snapshot) string {
		for _, f := range s.Findings {
			if f.Subject.ID == developer {
				return f.Text
			}
		}
		return ""
	}
	s := r.pass(2 * time.Minute)
	want(s, "", "")
	if due := since.Add(3 * time.Minute); s.Again.IsZero() || s.Again.After(due) {
		t.Errorf("again %v, want before %v", s.Again, due)
	}
	want(r.pass(2*time.Minute), "over_limit high", "")
	s = r.pass(12 * time.Minute)
	want(s, "over_limit high", "over_limit high")
	first := text(s)
	if !strings.HasPrefix(first, "developer has been silent at its work since 20") || !strings.HasSuffix(first, "Z; its limit is 15 min") {
		t.Errorf("it says %q", first)
	}
	if s = r.pass(7 * time.Minute); text(s) != first {
		t.Errorf("it says %q, said %q", text(s), first)
	}
	r.reopen()
	if s = r.pass(time.Minute); text(s) != first {
		t.Errorf("after a restart it says %q, said %q", text(s), first)
	}
	board = strings.Replace(board, `"implementing"`, `"testing"`, 1) // the stated time is unchanged
	r.Write(boardPath, strings.ReplaceAll(board, "{{now+0s}}", since.UTC().Format(time.RFC3339Nano)))
	want(r.pass(time.Second), "over_limit high", "")
	r.pass(14 * time.Minute)
	s = r.pass(time.Minute)
	want(s, "over_limit high", "over_limit high")
	first = text(s)
	r.Write(boardPath, "{")
	r.pass(time.Second)
	r.Do(os.Remove(r.Path(boardPath)))
	r.pass(3 * time.Second)
	r.Write(boardPath, strings.ReplaceAll(board, "{{now+0s}}", since.UTC().Format(time.RFC3339Nano)))
	s = r.pass(time.Second)
	if want(s, "over_limit high", "over_limit high"); text(s) != first {
		t.Errorf("after its file was gone for a moment it says %q, said %q", text(s), first)
	}
}

// A process proved to be the orchestrator remains so after the clock is changed and its files seem older than the process.
func TestClockSetWhileItRuns(t *testing.T) {
	r := newTestProject(t, around)
	cmd := r.child("exec sleep 100")
	r.Now = time.Now()
	r.Write(boardPath, strings.Replace(boardText, "4999999", "null", 1))
	r.Write(pidPath, pidText(cmd))
	if s := r.pass(100 * time.Millisecond); s.Yield == "" {
		t.Fatal("it lives")
	}
	at := time.Now().Add(-time.Hour)
	r.Do(os.Chtimes(r.Path(pidPath), at, at))
	if s := r.pass(100 * time.Millisecond); !strings.Contains(s.Yield, "runs (pid "+pidText(cmd)) {
		t.Errorf("yield %q", s.Yield)
	}
	r.end(cmd)
	r.pass(100 * time.Millisecond)
	if s := r.pass(signOff); s.Yield != "" {
		t.Errorf("gone, and yield %q", s.Yield)
	}
}

func isConflict(err error) bool {
	return err != nil && strings.Contains(err.Error(), protocol.ErrConflict.Error())
}

// A process that is younger than the file with its pid is a different process.
func TestReusedNumber(t *testing.T) {
	for name, lay := range map[string]func(r *testProject, pid string){
		"pid file": func(r *testProject, pid string) {
			r.Write(pidPath, pid+"\n")
			at := time.Now().Add(-time.Hour)
			r.Do(os.Chtimes(r.Path(pidPath), at, at))
			r.Write(boardPath, strings.Replace(boardText, "4999999", "null", 1))
		},
		"status.json": func(r *testProject, pid string) { r.Write(boardPath, boardOf(pid, "-1h")) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newTestProject(t, around)
			cmd := r.child("exec sleep 100")
			r.Now = time.Now()
			lay(r, pidText(cmd))
			s := r.pass(100 * time.Millisecond)
			a, _ := s.Agent(orchestratorName)
			if a.Presence != protocol.PresenceGone || !strings.Contains(a.Evidence, "younger") || s.Yield != "" || protocoltest.Codes(s, orchestratorName) != "running medium" {
				t.Fatalf("%+v, yield %q, findings %s", a, s.Yield, protocoltest.Codes(s, orchestratorName))
			}
			if err := cmd.Process.Signal(syscall.Signal(0)); err != nil {
				t.Errorf("the other process was touched: %v", err)
			}
		})
	}
}

// A status.json without startedAt still counts: it contained the pid when it was last written.
func TestStatusWithoutStart(t *testing.T) {
	r := newTestProject(t, around)
	cmd := r.child("exec sleep 100")
	r.Write(boardPath, strings.NewReplacer("4999999", pidText(cmd), `"2026-01-02T03:00:00.000Z" , "x"`, `null, "x"`).Replace(boardText))
	if s := r.look(); s.Yield == "" {
		t.Fatalf("%+v", s.Agents)
	}
}

// Processes that the dead orchestrator left running inside the project are reported. Other processes of its group, and
// unrelated processes, are not. No work is lost while the reported processes may still work on it.
func TestOrphans(t *testing.T) {
	r := newTestProject(t, around)
	cmd := r.child("sleep 101 & (cd / && exec sleep 102) & echo started > begun; wait")
	bystander := exec.CommandContext(t.Context(), "sleep", "103")
	bystander.Dir = r.Dir
	r.Do(bystander.Start())
	t.Cleanup(func() { _ = bystander.Process.Kill(); _ = bystander.Wait() })
	for range 200 {
		if _, err := os.Stat(r.Path("begun")); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond) // until both have executed sleep
	r.Now = time.Now()
	r.Write(boardPath, boardOf(pidText(cmd), "+0s"))
	if s := r.pass(100 * time.Millisecond); s.Yield == "" || protocoltest.Codes(s, orchestratorName) != "" {
		t.Fatalf("alive: %q %s", s.Yield, protocoltest.Codes(s, orchestratorName))
	}
	r.end(cmd)
	r.pass(100 * time.Millisecond)
	s := r.pass(signOff)
	if got := protocoltest.Codes(s, orchestratorName); got != "running medium, orphans high" {
		t.Fatalf("findings %q", got)
	}
	for _, f := range s.Findings {
		if f.Code == "orphans" && (strings.Count(f.Text, "(sleep)") != 1 || strings.Contains(f.Text, fmt.Sprint(bystander.Process.Pid))) {
			t.Errorf("%s", f.Text)
		}
	}
	if a, _ := s.Agent(orchestratorName); len(a.Orphans) > 0 {
		t.Error("they are only reported")
	}
	if k := taskOf(t, s, "task-001"); k.Lost != "" {
		t.Errorf("lost while somebody may work on it: %s", k.Lost)
	}
	if s.Again.IsZero() || s.Again.After(r.Now.Add(countEvery)) {
		t.Errorf("again at %v", s.Again)
	}
	r.Do(syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL))
	time.Sleep(50 * time.Millisecond)
	if s = r.pass(countEvery); strings.Contains(protocoltest.Codes(s, orchestratorName), "orphans") || taskOf(t, s, "task-001").Lost == "" {
		t.Errorf("after they ended: %s, %q", protocoltest.Codes(s, orchestratorName), taskOf(t, s, "task-001").Lost)
	}
}

// A pid file that may still be being written does not prove a process gone, but it delays the verdict only briefly.
func TestFreshPidFile(t *testing.T) {
	r := newTestProject(t, around+file(pidPath, "4999999"))
	r.Now = time.Now()
	if s := r.see(protocol.ScanOrder{Now: r.Now}); s.Yield == "" || s.Again.IsZero() {
		t.Errorf("yield %q, again %v", s.Yield, s.Again)
	}
	if s := r.pass(pidSettled / 2); s.Yield == "" || s.Again.IsZero() { // it may be half a number
		t.Errorf("after %v: yield %q, again %v", pidSettled/2, s.Yield, s.Again)
	}
	if s := r.pass(pidSettled); s.Yield != "" {
		t.Errorf("yield %q", s.Yield)
	}
}
