package ralph

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/protocoltest"
)

// processTree is a session: a shell as its leader, and a child that outlives the shell.
type processTree struct {
	cmd           *exec.Cmd
	leader, child proc.Identity
}

// found starts a session whose leader works in leads and whose child works in works. The leader runs script first. The child
// has the environment of $environment alone.
func found(t testing.TB, leads, works, script string) *processTree {
	t.Helper()
	for _, dir := range []string{leads, works} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("sh", "-c", script+`; (cd "$0" && exec env -i $environment sleep 300 >/dev/null 2>&1) & echo $!; wait`, works)
	cmd.Dir = leads
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	k := &processTree{cmd: cmd, leader: killLater(t, strconv.Itoa(cmd.Process.Pid))}
	t.Cleanup(func() { k.killLeader() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the shell says %q, %v", line, err)
	}
	k.child = killLater(t, strings.TrimSpace(line))
	for { // the child is a shell that changes its folder before it becomes sleep
		if argv, err := proc.Command(k.child.PID); err != nil || len(argv) > 0 && argv[0] == "sleep" {
			return k
		}
		time.Sleep(time.Millisecond)
	}
}

// killLeader kills the leader alone and reaps it, so that no zombie stays.
func (k *processTree) killLeader() { k.cmd.Process.Kill(); k.cmd.Wait() }

func (k *processTree) living() bool { return proc.Check(k.child) != proc.Gone }

func waitGone(t testing.TB, id proc.Identity) {
	t.Helper()
	for range 5000 {
		if proc.Check(id) == proc.Gone {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("process %d does not end", id.PID)
}

func kill(t testing.TB, id proc.Identity) {
	t.Helper()
	_ = proc.Signal(id, "SIGKILL")
	waitGone(t, id)
}

func pidText(id proc.Identity) string { return strconv.Itoa(id.PID) + "\n" }

func inHand(t testing.TB) string {
	t.Helper()
	return lay(t, file(kanbanPath, kanban(line("=", "TASK-001", "Ship it")))+file(home+"/prd.md", "x\n"))
}

// Protocol 002, Worker Directory Structure: the pid is the leader of a session. Killing the leader alone leaves the
// session running.
func TestOrphansAreFoundAndReaped(t *testing.T) {
	for _, pidfile := range pidFiles {
		t.Run(pidfile, func(t *testing.T) {
			dir := inHand(t)
			k := found(t, filepath.Join(dir, home), filepath.Join(dir, home, "workspace"), ":")
			write(t, dir, home+"/"+pidfile, pidText(k.leader))
			p := open(t, dir)
			s := sameByHints(t, p, time.Now())
			a, ok := s.Agent(workerOne)
			if !ok || a.Presence != protocol.PresenceHere || a.Process != protocol.Identity(k.leader) || len(a.Orphans) > 0 || a.Status != statusOf[pidfile] || taskOf(t, s, "TASK-001").Lost != "" {
				t.Fatalf("leader and child live:\n%s", protocoltest.Describe(s))
			}
			k.killLeader()
			s = sameByHints(t, p, time.Now())
			a, _ = s.Agent(workerOne)
			if want := []protocol.Identity{protocol.Identity(k.child)}; !slices.Equal(a.Orphans, want) || taskOf(t, s, "TASK-001").Lost != "" {
				t.Fatalf("leader gone, want the orphan %v and no lost task:\n%s", want, protocoltest.Describe(s))
			}
			if a.Process.Proves() || a.Evidence != "its leader is gone; 1 of its processes live on" {
				t.Errorf("leader gone: %+v", a)
			}
			if f := findingOf(s, "orphans"); f == nil || f.Severity != protocol.High || f.Subject.ID != workerOne {
				t.Errorf("finding %+v", f)
			}
			c := protocol.Change{Verb: protocol.VerbReap, Subject: protocol.Subject{Kind: protocol.KindAgent, ID: workerOne}, Processes: a.Orphans, Status: "SIGTERM"}
			if err := p.Apply(t.Context(), c, time.Now()); err != nil {
				t.Fatal(err)
			}
			waitGone(t, k.child)
			s = sameByHints(t, p, time.Now())
			if a, _ := s.Agent(workerOne); a.Presence != protocol.PresenceGone || taskOf(t, s, "TASK-001").Lost == "" {
				t.Errorf("all gone, want a lost task:\n%s", protocoltest.Describe(s))
			}
			if err := p.Apply(t.Context(), c, time.Now()); err != nil {
				t.Errorf("reap again: %v", err)
			}
		})
	}
}

// An orphan of a session whose leader steward saw alive is recognized by its session, wherever it works: the finding names
// it with its command, and its task is not lost. It is ended only if the leader worked for the worker and steward saw a
// process of the session at that time.
func TestOrphanWithAnotherWorkingFolder(t *testing.T) {
	for _, known := range []bool{true, false} {
		dir := inHand(t)
		k := found(t, filepath.Join(dir, home), "/", ":")
		write(t, dir, home+"/agent.pid", pidText(k.leader))
		p := open(t, dir)
		look(t, p, time.Now())
		if !known { // as if it had started between the last scan and its leader's end
			for i := range pidFiles {
				p.workers.all[workerOne].pids[i].members = nil
			}
		}
		k.killLeader()
		s := sameByHints(t, p, time.Now())
		a, _ := s.Agent(workerOne)
		f := findingOf(s, "orphans")
		if a.Presence != protocol.PresenceHere || f == nil || !strings.Contains(f.Text, strconv.Itoa(k.child.PID)+" (sleep 300)") || taskOf(t, s, "TASK-001").Lost != "" {
			t.Fatalf("known %v: %+v %+v", known, a, f)
		}
		if (len(a.Orphans) == 1) != known || strings.Contains(f.Text, "does not end") == known {
			t.Errorf("known %v: orphans %v, %s", known, a.Orphans, f.Text)
		}
		c := protocol.Change{Verb: protocol.VerbReap, Subject: protocol.Subject{Kind: protocol.KindAgent, ID: workerOne},
			Processes: []protocol.Identity{protocol.Identity(k.child)}, Status: "SIGTERM"}
		if err := p.Apply(t.Context(), c, time.Now()); (err == nil) != known {
			t.Errorf("known %v: reap: %v", known, err)
		}
		if !known {
			if !k.living() {
				t.Error("it was ended")
			}
			kill(t, k.child)
		}
		waitGone(t, k.child)
		if a, _ = sameByHints(t, p, time.Now()).Agent(workerOne); a.Presence != protocol.PresenceGone {
			t.Errorf("known %v: all are gone: %+v", known, a)
		}
	}
}

// Orphans are known by the number of their session, wherever they work, also if steward never saw their leader. They are
// ended only if something proves that they are the worker's, such as the environment that the program gave them.
func TestOrphansOfALeaderNeverSeen(t *testing.T) {
	for _, known := range []bool{true, false} {
		dir := inHand(t)
		set := "environment="
		if known {
			set += "_WORKER_DIR=" + filepath.Join(dir, home)
		}
		k := found(t, t.TempDir(), "/", set)
		write(t, dir, home+"/agent.pid", pidText(k.leader))
		k.killLeader()
		s := sameByHints(t, open(t, dir), time.Now())
		a, _ := s.Agent(workerOne)
		f := findingOf(s, "orphans")
		if a.Presence != protocol.PresenceHere || f == nil || (len(a.Orphans) == 1) != known || strings.Contains(f.Text, "does not end") == known || taskOf(t, s, "TASK-001").Lost != "" {
			t.Errorf("known %v: %+v %+v", known, a, f)
		}
		write(t, dir, home+"/agent.pid", pidText(k.leader))
		age(t, dir, home+"/agent.pid", time.Now().Add(-2*lateStart))
		if a, _ = look(t, open(t, dir), time.Now()).Agent(workerOne); (a.Presence == protocol.PresenceHere) != known || len(a.Orphans) > 0 {
			t.Errorf("known %v: the pid file is too old: %+v", known, a)
		}
	}
}

// A pid file that is older than the process means a different process.
func TestReusedNumberIsNobodys(t *testing.T) {
	dir := inHand(t)
	k := found(t, t.TempDir(), t.TempDir(), ":")
	write(t, dir, home+"/agent.pid", pidText(k.leader))
	age(t, dir, home+"/agent.pid", time.Now().Add(-time.Minute))
	p := open(t, dir)
	check := func(what string) {
		s := sameByHints(t, p, time.Now())
		a, _ := s.Agent(workerOne)
		if a.Presence != protocol.PresenceGone || len(a.Orphans) > 0 || taskOf(t, s, "TASK-001").Lost == "" {
			t.Errorf("%s:\n%s", what, protocoltest.Describe(s))
		}
	}
	check("an unrelated process has the number")
	c := protocol.Change{Verb: protocol.VerbReap, Subject: protocol.Subject{Kind: protocol.KindAgent, ID: workerOne},
		Processes: []protocol.Identity{protocol.Identity(k.leader), protocol.Identity(k.child)}, Status: "SIGKILL"}
	if err := p.Apply(t.Context(), c, time.Now()); !errors.Is(err, protocol.ErrConflict) {
		t.Errorf("reap of strangers: %v, want ErrConflict", err)
	}
	k.killLeader()
	check("and its session outlived it")
	if err := p.Apply(t.Context(), c, time.Now()); !errors.Is(err, protocol.ErrConflict) || !k.living() {
		t.Errorf("reap of strangers: %v, living %v", err, k.living())
	}
}

// Without proof a session counts as living and is never reaped.
func TestDoubtKeepsAWorkerAlive(t *testing.T) {
	dir := inHand(t)
	k := found(t, t.TempDir(), filepath.Join(dir, "src"), ":")
	write(t, dir, home+"/agent.pid", pidText(k.leader))
	p := open(t, dir)
	s := sameByHints(t, p, time.Now())
	if a, _ := s.Agent(workerOne); a.Presence != protocol.PresenceHere {
		t.Errorf("a leader that is older than its file:\n%s", protocoltest.Describe(s))
	}
	k.killLeader()
	s = sameByHints(t, p, time.Now())
	a, _ := s.Agent(workerOne)
	if a.Presence != protocol.PresenceHere || len(a.Orphans) > 0 || taskOf(t, s, "TASK-001").Lost != "" {
		t.Errorf("a session in the project that nothing proves to be this worker's:\n%s", protocoltest.Describe(s))
	}
	c := protocol.Change{Verb: protocol.VerbReap, Subject: protocol.Subject{Kind: protocol.KindAgent, ID: workerOne},
		Processes: []protocol.Identity{protocol.Identity(k.child)}, Status: "SIGKILL"}
	if err := p.Apply(t.Context(), c, time.Now()); !errors.Is(err, protocol.ErrConflict) || !k.living() {
		t.Errorf("reap in doubt: %v, living %v", err, k.living())
	}
}

// After a change of the clock a leader looks younger than its file: its working folder counts more.
func TestLeaderInItsFolderCountsWhateverTheClockSays(t *testing.T) {
	dir := inHand(t)
	k := found(t, filepath.Join(dir, home), filepath.Join(dir, home), ":")
	write(t, dir, home+"/agent.pid", pidText(k.leader))
	age(t, dir, home+"/agent.pid", time.Now().Add(-time.Hour))
	s := sameByHints(t, open(t, dir), time.Now())
	if a, _ := s.Agent(workerOne); a.Presence != protocol.PresenceHere {
		t.Errorf("seen:\n%s", protocoltest.Describe(s))
	}
}

// A task is not lost while any process works in the worker's folder. A conclusion is proved again under the lock.
func TestSomebodyInTheFolderIsNoLoss(t *testing.T) {
	dir := inHand(t)
	write(t, dir, home+"/agent.pid", nobody)
	p := open(t, dir)
	lost := taskOf(t, look(t, p, time.Now()), "TASK-001")
	if lost.Lost == "" {
		t.Fatal("not lost")
	}
	k := found(t, t.TempDir(), filepath.Join(dir, home, "workspace"), ":")
	s := sameByHints(t, p, time.Now())
	if a, _ := s.Agent(workerOne); a.Presence != protocol.PresenceHere || taskOf(t, s, "TASK-001").Lost != "" {
		t.Errorf("seen:\n%s", protocoltest.Describe(s))
	}
	for _, v := range []protocol.Verb{protocol.VerbConclude, protocol.VerbRequeue} {
		if err := p.Apply(t.Context(), about(v, lost), time.Now()); !errors.Is(err, protocol.ErrConflict) {
			t.Errorf("%s: %v, want ErrConflict", v, err)
		}
	}
	if err := p.Apply(t.Context(), about(protocol.VerbCancel, lost), time.Now()); err != nil {
		t.Errorf("the operator's cancel: %v", err)
	}
	_ = k
}

// A planning run is an agent while it lives, and is not shown when it is over.
func TestPlanningRunIsShownWhileItLives(t *testing.T) {
	const plan = "worker-TASK-001-plan-1705313000"
	dir := inHand(t)
	write(t, dir, home+"/agent.pid", nobody)
	in := filepath.Join(dir, Base, workersDir, plan)
	k := found(t, in, in, ":")
	write(t, dir, Base+"/"+workersDir+"/"+plan+"/agent.pid", pidText(k.leader))
	p := open(t, dir)
	s := sameByHints(t, p, time.Now())
	if a, ok := s.Agent(plan); !ok || a.Presence != protocol.PresenceHere || a.Status != "planning" || taskOf(t, s, "TASK-001").Agent != workerOne {
		t.Errorf("seen:\n%s", protocoltest.Describe(s))
	}
	k.killLeader()
	kill(t, k.child)
	s = sameByHints(t, p, time.Now())
	if _, ok := s.Agent(plan); ok {
		t.Errorf("a planning run that is over is shown:\n%s", protocoltest.Describe(s))
	}
}

// Protocol 002, Recovery: while the orchestrator lives, a stopped worker is going to be resumed, even without a state
// file.
func TestOrchestrator(t *testing.T) {
	for _, file := range orchestratorFiles {
		dir := inHand(t)
		write(t, dir, home+"/agent.pid", nobody)
		write(t, dir, home+"/workspace/x", "")
		k := found(t, t.TempDir(), t.TempDir(), ":")
		write(t, dir, Base+"/"+file, pidText(k.leader))
		p := open(t, dir)
		s := sameByHints(t, p, time.Now())
		if a, ok := s.Agent(orchestratorName); !ok || a.Presence != protocol.PresenceHere || a.Process != protocol.Identity(k.leader) || findingOf(s, "resume_pending") == nil || taskOf(t, s, "TASK-001").Lost != "" {
			t.Errorf("%s, living:\n%s", file, protocoltest.Describe(s))
		}
		age(t, dir, Base+"/"+file, time.Now().Add(-time.Minute))
		s = sameByHints(t, p, time.Now())
		if a, ok := s.Agent(orchestratorName); !ok || a.Presence != protocol.PresenceGone || taskOf(t, s, "TASK-001").Lost == "" {
			t.Errorf("%s, a number that was used again:\n%s", file, protocoltest.Describe(s))
		}
	}
}
