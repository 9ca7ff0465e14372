package ralph

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/protocoltest"
)

// settingUp is a project whose kanban was last written at a given time.
func settingUp(t *testing.T, files string, at time.Time) string {
	t.Helper()
	dir := lay(t, files)
	age(t, dir, kanbanPath, at)
	return dir
}

func lostAt(t *testing.T, p *Project, at time.Time) string {
	t.Helper()
	return taskOf(t, sameByHints(t, p, at), "TASK-001").Lost
}

// Protocol 002, Status Updates: the grace depends on the files' times, so a start, a restart or a reload of steward makes
// it neither shorter nor longer.
func TestGraceRestsOnFiles(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	one := kanban(line("=", "TASK-001", "x"))
	t.Run("kanban", func(t *testing.T) {
		dir := settingUp(t, file(kanbanPath, one), now)
		s := sameByHints(t, open(t, dir), now.Add(59*time.Second))
		if taskOf(t, s, "TASK-001").Lost != "" || !s.Again.Equal(now.Add(defaultGrace)) {
			t.Errorf("again %v:\n%s", s.Again, protocoltest.Describe(s))
		}
		if lostAt(t, open(t, dir), now.Add(defaultGrace)) == "" {
			t.Error("a minute after it was written, it is not lost to one that has only come")
		}
	})
	t.Run("folder", func(t *testing.T) {
		dir := settingUp(t, file(kanbanPath, one)+file(home+"/prd.md", "x"), now.Add(-time.Hour))
		age(t, dir, home, now)
		s := sameByHints(t, open(t, dir), now.Add(59*time.Second))
		if a, _ := s.Agent(workerOne); taskOf(t, s, "TASK-001").Lost != "" || !a.Idle || !s.Again.Equal(now.Add(defaultGrace)) {
			t.Errorf("again %v:\n%s", s.Again, protocoltest.Describe(s))
		}
		if lostAt(t, open(t, dir), now.Add(defaultGrace)) == "" {
			t.Error("a minute later it is not lost")
		}
	})
	t.Run("epoch", func(t *testing.T) {
		begun := time.Unix(1705312000, 0) // the epoch in the folder's name, whatever its mtime
		dir := settingUp(t, file(kanbanPath, one)+file(home+"/prd.md", "x"), begun.Add(-time.Hour))
		age(t, dir, home, begun.Add(-time.Hour))
		if lostAt(t, open(t, dir), begun.Add(59*time.Second)) != "" || lostAt(t, open(t, dir), begun.Add(defaultGrace)) == "" {
			t.Error("the epoch of the folder's name does not count")
		}
	})
	t.Run("appended", func(t *testing.T) {
		dir := settingUp(t, file(kanbanPath, kanban(line("x", "TASK-002", "y"))), now.Add(-time.Hour))
		p := open(t, dir)
		look(t, p, now)
		write(t, dir, kanbanPath, kanban(line("x", "TASK-002", "y"), line("=", "TASK-001", "x")))
		age(t, dir, kanbanPath, now.Add(time.Second))
		if lostAt(t, p, now.Add(50*time.Second)) != "" || lostAt(t, p, now.Add(61*time.Second)) == "" {
			t.Error("a new line has its minute, and no more")
		}
	})
}

// A kanban that is written all the time is never unchanged for the grace. Then the time for which steward has seen the
// task counts.
func TestGraceEndsUnderABusyKanban(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	dir := settingUp(t, file(kanbanPath, kanban(line("=", "TASK-001", "x"))), now)
	p := New(dir, Options{Grace: 20 * time.Second})
	defer p.Close()
	for at := now; at.Before(now.Add(20 * time.Second)); at = at.Add(time.Second) {
		age(t, dir, kanbanPath, at)
		if lost := lostAt(t, p, at); lost != "" {
			t.Fatalf("after %v: %s", at.Sub(now), lost)
		}
	}
	age(t, dir, kanbanPath, now.Add(20*time.Second))
	if lostAt(t, p, now.Add(20*time.Second)) == "" {
		t.Error("seen so for as long as the grace is, and not lost")
	}
	write(t, dir, home+"/prd.md", "x") // a worker has started
	age(t, dir, home, now.Add(21*time.Second))
	if lost := lostAt(t, p, now.Add(21*time.Second)); lost != "" {
		t.Errorf("its folder has come: %s", lost)
	}
	k := found(t, t.TempDir(), t.TempDir(), ":")
	write(t, dir, home+"/agent.pid", pidText(k.leader))
	age(t, dir, home+"/agent.pid", now.Add(22*time.Second))
	if lost := lostAt(t, p, now.Add(22*time.Second)); lost != "" {
		t.Errorf("it is at work: %s", lost)
	}
}

// A conclusion is proved again under the lock: if a worker folder has appeared, the worker is being set up.
func TestConclusionMindsTheSetUp(t *testing.T) {
	now := time.Now()
	dir := settingUp(t, file(kanbanPath, kanban(line("=", "TASK-001", "x"))), now.Add(-time.Hour))
	p := open(t, dir)
	k := taskOf(t, look(t, p, now), "TASK-001")
	if k.Lost == "" {
		t.Fatal("not lost")
	}
	write(t, dir, home+"/prd.md", "x")
	err := p.Apply(t.Context(), about(protocol.VerbConclude, k), now.Add(time.Second))
	if err == nil || !strings.Contains(err.Error(), "nothing proves any more that TASK-001 is lost") {
		t.Errorf("concluded: %v", err)
	}
}

// Protocol 002, Planning: a planning run counts as working on the task as long as it lives.
func TestOnlyAPlanningRunWorksOnIt(t *testing.T) {
	const plan = "worker-TASK-001-plan-1705313000"
	now := time.Now()
	dir := settingUp(t, file(kanbanPath, kanban(line("=", "TASK-001", "x"))), now.Add(-time.Hour))
	in := filepath.Join(dir, Base, workersDir, plan)
	k := found(t, in, in, ":")
	write(t, dir, Base+"/"+workersDir+"/"+plan+"/agent.pid", pidText(k.leader))
	p := open(t, dir)
	s := sameByHints(t, p, now.Add(time.Hour))
	one := taskOf(t, s, "TASK-001")
	if f := findingOf(s, "planning"); one.Lost != "" || one.Agent != plan || f == nil || f.Text != "only a planning run works on it: "+plan {
		t.Errorf("it plans:\n%s", protocoltest.Describe(s))
	}
	c := about(protocol.VerbConclude, one)
	if err := p.Apply(t.Context(), c, now.Add(time.Hour)); err == nil {
		t.Error("concluded while it is planned")
	}
	k.killLeader()
	kill(t, k.child)
	if lost := lostAt(t, p, now.Add(2*time.Hour)); lost != "only a planning run worked on it, and that is over" {
		t.Errorf("it is over: %q", lost)
	}
}
