package ralph

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/protocoltest"
)

// Protocol 002, Violation Detection: files open for writing outside the workspace, and in .ralph itself.
func TestViolationsAreSeen(t *testing.T) {
	dir := inHand(t)
	script := `mkdir -p ../../../src ../../plans ../../logs ../../../.git/objects workspace
exec 3>workspace/own 4>../../../src/outside 5>../../metrics.json 6>../../logs/x.log 7>>../../kanban.md.lock 8>../../../.git/objects/tmp 9>/dev/null`
	k := found(t, filepath.Join(dir, home), filepath.Join(dir, home, "workspace"), script)
	write(t, dir, home+"/agent.pid", pidText(k.leader))
	p := open(t, dir)
	s := sameByHints(t, p, time.Now())
	var got []string
	for _, f := range s.Findings {
		if f.Code == "violation" && f.Severity == protocol.High && f.Subject == task("TASK-001") {
			got = append(got, f.Field)
		}
	}
	if want := []string{".ralph/metrics.json", "src/outside"}; !slices.Equal(got, want) {
		t.Errorf("violations %q, want %q", got, want)
	}
	quiet := New(dir, Options{NoWatch: true})
	defer quiet.Close()
	if f := findingOf(look(t, quiet, time.Now()), "violation"); f != nil {
		t.Errorf("turned off, and yet %+v", f)
	}
}

// git runs git in a folder.
func git(t testing.TB, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "init.defaultBranch=main"}, args...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// repository is a project whose main work tree has two commits, an uncommitted change, a stash entry and a worker with a work
// tree of its own.
func repository(t testing.TB) (dir string) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip(err)
	}
	dir = inHand(t)
	write(t, dir, ".gitignore", ".ralph/\nignored\n")
	write(t, dir, "src/a.go", "one\n")
	git(t, dir, "init", "-q")
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-qm", "one")
	write(t, dir, "src/b.go", "two\n")
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-qm", "two")
	write(t, dir, "src/a.go", "stashed\n")
	git(t, dir, "stash", "-q")
	write(t, dir, "src/b.go", "uncommitted\n")
	git(t, dir, "worktree", "add", "-q", "-b", "task/TASK-001", filepath.Join(dir, home, "workspace"))
	write(t, dir, Base+"/pipeline.json", "{}\n")
	write(t, dir, Base+"/logs/x.log", "")
	return dir
}

// lives starts a worker's session in its folder.
func lives(t testing.TB, dir, worker string) *processTree {
	t.Helper()
	in := filepath.Join(dir, Base, workersDir, worker)
	k := found(t, in, in, ":")
	write(t, dir, Base+"/"+workersDir+"/"+worker+"/agent.pid", pidText(k.leader))
	return k
}

// quietly hides all processes but those of some sessions, because a terminal on this machine would count as a person's.
func quietly(p *Project, sessions ...*processTree) {
	p.sys.table = func() ([]proc.Process, error) {
		all, err := proc.Table()
		return slices.DeleteFunc(all, func(row proc.Process) bool {
			return row.PID != os.Getpid() && !slices.ContainsFunc(sessions, func(k *processTree) bool { return row.Session == k.leader.PID || row.PID == k.leader.PID })
		}), err
	}
}

// told lists the findings about violations: code, severity, subject and text.
func told(s *protocol.Snapshot) (list []string) {
	for _, f := range s.Findings {
		if f.Code == "violation" || f.Code == "outside" || f.Code == "unwatched" {
			list = append(list, fmt.Sprintf("%s %s %s: %s", f.Code, f.Severity, f.Subject, f.Text))
		}
	}
	return list
}

// mainChanges are changes of the main work tree and of the program's own files, with what is told of each.
var mainChanges = []struct {
	name, path, text string
	change           func(t testing.TB, dir string)
}{
	{"edit", "src/a.go", "it was changed", func(t testing.TB, dir string) { write(t, dir, "src/a.go", "two\n") }},
	{"edit again", "src/b.go", "it was changed", func(t testing.TB, dir string) { write(t, dir, "src/b.go", "uncommitted again\n") }},
	{"create", "new/c.go", "it was created", func(t testing.TB, dir string) { write(t, dir, "new/c.go", "x\n") }},
	{"remove", "src/a.go", "it was changed", func(t testing.TB, dir string) { os.Remove(filepath.Join(dir, "src/a.go")) }},
	{"index", "src/b.go", "it was changed", func(t testing.TB, dir string) { git(t, dir, "add", "src/b.go") }},
	{"checkout file", "src/b.go", "its uncommitted changes are gone", func(t testing.TB, dir string) { git(t, dir, "checkout", "-q", "--", "src/b.go") }},
	{"reset", headPath, "HEAD moved from", func(t testing.TB, dir string) { git(t, dir, "reset", "-q", "--hard", "HEAD~1") }},
	{"checkout", headPath, "(other)", func(t testing.TB, dir string) { git(t, dir, "checkout", "-q", "-b", "other") }},
	{"commit", headPath, "HEAD moved from", func(t testing.TB, dir string) { git(t, dir, "commit", "-qam", "x") }},
	{"stash drop", stashPath, "is gone", func(t testing.TB, dir string) { git(t, dir, "stash", "drop", "-q") }},
	{"own file", Base + "/pipeline.json", "it was changed", func(t testing.TB, dir string) { write(t, dir, Base+"/pipeline.json", "{ }\n") }},
	{"new own file", Base + "/notes.md", "it was created", func(t testing.TB, dir string) { write(t, dir, Base+"/notes.md", "x\n") }},
	{"no own file", Base + "/pipeline.json", "it was removed", func(t testing.TB, dir string) { os.Remove(filepath.Join(dir, Base, "pipeline.json")) }},
}

// Protocol 002, Violation Detection: edits outside the workspace, destructive git commands in the main repository, files of
// .ralph. The only worker that lives is named.
func TestChangeByTheOnlyWorker(t *testing.T) {
	for _, c := range mainChanges {
		t.Run(c.name, func(t *testing.T) {
			dir := repository(t)
			k, p, now := lives(t, dir, workerOne), open(t, dir), time.Now()
			quietly(p, k)
			if got := told(look(t, p, now)); len(got) > 0 {
				t.Fatalf("before: %q", got)
			}
			c.change(t, dir)
			s := sameByHints(t, p, now.Add(time.Minute))
			want := "violation high task/TASK-001: " + workerOne + " left its workspace: " + c.path + ": "
			if got := told(s); len(got) != 1 || !strings.HasPrefix(got[0], want) || !strings.Contains(got[0], c.text) {
				t.Errorf("%q, want %s… %s", got, want, c.text)
			}
			v := taskOf(t, s, "TASK-001").Violation
			if v == nil || v.Worker != workerOne || !v.Asked || !slices.Contains(v.Processes, protocol.Identity(k.leader)) || !slices.Contains(v.Processes, protocol.Identity(k.child)) {
				t.Errorf("%+v", v)
			}
		})
	}
}

// A change that a person, another worker or the orchestrator may have made is told, and no worker is blamed.
func TestChangeByUnknownAuthor(t *testing.T) {
	for name, other := range map[string]func(t testing.TB, dir string) []*processTree{
		"a person": func(t testing.TB, dir string) []*processTree {
			return []*processTree{found(t, filepath.Join(dir, "src"), filepath.Join(dir, "src"), ":")}
		},
		"a desktop": func(t testing.TB, dir string) []*processTree {
			return []*processTree{found(t, t.TempDir(), t.TempDir(), "environment=DISPLAY=:0")}
		},
		"another worker": func(t testing.TB, dir string) []*processTree {
			return []*processTree{lives(t, dir, "worker-TASK-002-1705312000")}
		},
		"the orchestrator": func(t testing.TB, dir string) []*processTree {
			k := found(t, t.TempDir(), t.TempDir(), ":")
			write(t, dir, Base+"/"+orchestratorFiles[0], pidText(k.leader))
			return []*processTree{k}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := repository(t)
			sessions := append(other(t, dir), lives(t, dir, workerOne))
			p, now := open(t, dir), time.Now()
			quietly(p, sessions...)
			look(t, p, now)
			git(t, dir, "reset", "-q", "--hard", "HEAD~1")
			s := sameByHints(t, p, now.Add(time.Minute))
			if got := told(s); len(got) != 1 || !strings.HasPrefix(got[0], "outside medium project/.git/HEAD: ") || !strings.Contains(got[0], workerOne) ||
				strings.Contains(got[0], "worker-TASK-002") != (name == "another worker") || taskOf(t, s, "TASK-001").Violation != nil {
				t.Errorf("%q", got)
			}
		})
	}
}

// A worker's own work is no violation: commits and stashes in its work tree, which shares the repository, and ignored files.
func TestOwnWorkIsNoViolation(t *testing.T) {
	dir := repository(t)
	k, p, now := lives(t, dir, workerOne), open(t, dir), time.Now()
	quietly(p, k)
	look(t, p, now)
	workspace := filepath.Join(dir, home, "workspace")
	step := func(do func()) {
		t.Helper()
		do()
		if now = now.Add(time.Minute); len(told(look(t, p, now))) > 0 {
			t.Errorf("%q", told(look(t, p, now)))
		}
	}
	step(func() { write(t, dir, home+"/workspace/src/a.go", "mine\n"); git(t, workspace, "stash", "-q") })
	step(func() { git(t, workspace, "stash", "pop", "-q") })
	step(func() { git(t, workspace, "commit", "-qam", "mine") })
	step(func() { write(t, dir, "ignored", "x\n"); write(t, dir, Base+"/logs/activity.jsonl", "{}\n") })
	step(func() {
		protocoltest.Rewrite(filepath.Join(dir, kanbanPath), "Ship it", "Ship  it")
	})
}

// While no worker lives, the main work tree is not compared, and later no worker is blamed for changes from that time.
func TestNoComparisonWithoutWorkers(t *testing.T) {
	dir := repository(t)
	p, now := open(t, dir), time.Now()
	look(t, p, now)
	if p.boundary.tree != nil || len(p.Dirs()) > 6 {
		t.Errorf("nobody lives: %+v, %q", p.boundary.tree, p.Dirs())
	}
	write(t, dir, "src/a.go", "mine\n")
	k := lives(t, dir, workerOne)
	if got := told(look(t, p, now.Add(time.Minute))); len(got) > 0 || p.boundary.tree == nil {
		t.Errorf("changed before: %q", got)
	}
	if dirs := p.Dirs(); !slices.Contains(dirs, ".") || !slices.Contains(dirs, ".git") {
		t.Errorf("watches %q", dirs)
	}
	write(t, dir, "src/a.go", "its last deed\n")
	k.killLeader()
	kill(t, k.child)
	if got := told(look(t, p, now.Add(2*time.Minute))); len(got) != 1 || !strings.Contains(got[0], "it may be one of them") || p.boundary.tree != nil {
		t.Errorf("after its end: %q", got)
	}
	write(t, dir, "src/a.go", "mine again\n")
	if got := told(look(t, p, now.Add(3*time.Minute))); len(got) != 1 {
		t.Errorf("nobody lives: %q", got)
	}
}

// A work tree that git cannot read is reported as unwatched.
func TestBrokenRepository(t *testing.T) {
	dir := inHand(t)
	write(t, dir, ".git/HEAD", "nonsense\n")
	k, p := lives(t, dir, workerOne), open(t, dir)
	quietly(p, k)
	if got := told(look(t, p, time.Now())); len(got) != 1 || !strings.HasPrefix(got[0], "unwatched low project/.git: ") {
		t.Errorf("%q", got)
	}
}

// Protocol 002, On Violation: the session ends, violation_status.txt and violations.log are written, the task fails. With
// "mark" the session goes on. Each part is done once, also after a crash in between.
func TestViolationIsClosed(t *testing.T) {
	for _, action := range []string{Mark, End} {
		dir := repository(t)
		k := lives(t, dir, workerOne)
		p := New(dir, Options{Flock: flock, Violation: action})
		defer p.Close()
		quietly(p, k)
		now := time.Now()
		look(t, p, now)
		write(t, dir, "src/a.go", "two\n")
		s := look(t, p, now.Add(time.Minute))
		x := taskOf(t, s, "TASK-001")
		v := x.Violation
		if v == nil || v.Asked || (len(v.Processes) == 2) != (action == End) {
			t.Fatalf("%s: %+v", action, v)
		}
		c := about(protocol.VerbConclude, x)
		c.Agent, c.Code, c.Processes, c.Status = v.Worker, protocol.CodeViolation, v.Processes, "SIGTERM"
		c.Processes = append(c.Processes, protocol.Identity(killLater(t, fmt.Sprint(found(t, t.TempDir(), t.TempDir(), ":").leader.PID)))) // a stranger's
		stranger := c.Processes[len(c.Processes)-1]
		for range 2 {
			if err := p.Apply(t.Context(), c, now.Add(time.Minute)); err != nil {
				t.Fatalf("%s: %v", action, err)
			}
		}
		if action == End {
			waitGone(t, k.child)
		}
		if k.living() != (action == Mark) || proc.Check(proc.Identity(stranger)) == proc.Gone {
			t.Errorf("%s: the worker lives: %v, a stranger: %v", action, k.living(), proc.Check(proc.Identity(stranger)))
		}
		if !strings.Contains(text(t, dir, kanbanPath), "- [*] **[TASK-001]") || text(t, dir, home+"/"+violationFile) != "WORKSPACE_VIOLATION\n" ||
			strings.Count(text(t, dir, Base+"/"+violationsFile), workerOne+": src/a.go: it was changed") != 1 {
			t.Errorf("%s: %s%s%s", action, text(t, dir, kanbanPath), text(t, dir, home+"/"+violationFile), text(t, dir, Base+"/"+violationsFile))
		}
		if o := taskOf(t, look(t, p, now.Add(2*time.Minute)), "TASK-001").Outcome; o == nil || !strings.Contains(o.Failures[0].Message, workerOne+" left its workspace: src/a.go") {
			t.Errorf("%s: %+v", action, o)
		}
	}
}

// Without a proof of its violation no worker is stopped.
func TestNoStopWithoutProof(t *testing.T) {
	dir := repository(t)
	k, p := lives(t, dir, workerOne), open(t, dir)
	x := taskOf(t, look(t, p, time.Now()), "TASK-001")
	c := about(protocol.VerbConclude, x)
	c.Agent, c.Code, c.Processes, c.Status = workerOne, protocol.CodeViolation, []protocol.Identity{protocol.Identity(k.leader)}, "SIGTERM"
	if err := p.Apply(t.Context(), c, time.Now()); err == nil || !strings.Contains(err.Error(), "no longer any proof") || !k.living() || strings.Contains(text(t, dir, kanbanPath), "[*]") {
		t.Errorf("%v\n%s", err, text(t, dir, kanbanPath))
	}
}
