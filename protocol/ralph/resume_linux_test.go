package ralph

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/protocoltest"
)

// resumed is a project with one failed task, and a resume command.
func resumed(t testing.TB, wait time.Duration, command ...string) (string, *Project) {
	t.Helper()
	dir := lay(t, file(kanbanPath, kanban(line("*", "TASK-001", "x")))+file(home+"/prd.md", "x\n"))
	return dir, reopened(t, dir, wait, command...)
}

func reopened(t testing.TB, dir string, wait time.Duration, command ...string) *Project {
	t.Helper()
	p := open(t, dir)
	p.opts.Resume, p.write.resumes.moment = command, wait
	return p
}

func read(t testing.TB, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// await waits until a file that a command writes is complete.
func await(t testing.TB, path ...string) string {
	t.Helper()
	for range 30_000 {
		if text, err := os.ReadFile(filepath.Join(path...)); err == nil && strings.HasSuffix(string(text), "\n") {
			return strings.TrimSpace(string(text))
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("%v was not written", path)
	return ""
}

// The command gets the ids as whole words, the path of steward's record of the answer, little else of steward's
// environment, and its own session.
func TestResumeCommandIsStarted(t *testing.T) {
	for _, v := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "STEWARD_SECRET", "AWS_SECRET_ACCESS_KEY"} {
		t.Setenv(v, "/nowhere")
	}
	t.Setenv("LC_TIME", "C")
	const script = `pwd > where; env > sees; ps -o sid= -p $$ > session; echo $$ > number; ls -l /proc/self/fd > open; cat > input; echo "$@" > words`
	dir, p := resumed(t, time.Minute, "sh", "-c", script, "it", "a {task}{task} ;", "{worker}")
	now := time.Now()
	c := decided(t, look(t, p, now), answerRetry, now)
	if err := p.Apply(t.Context(), c, now); err != nil {
		t.Fatal(err)
	}
	if got := await(t, dir, "words"); got != "a TASK-001TASK-001 ; "+workerOne {
		t.Errorf("it was told %q", got)
	}
	if got := await(t, dir, "where"); got != p.real {
		t.Errorf("it runs in %s, not %s", got, p.real)
	}
	if number := await(t, dir, "number"); strings.TrimSpace(await(t, dir, "session")) != number || number == strconv.Itoa(os.Getpid()) {
		t.Errorf("%s leads no session", number)
	}
	for l := range strings.Lines(await(t, dir, "open")) {
		if strings.Contains(l, p.real) && !strings.Contains(l, resumeLog("TASK-001")) && !strings.Contains(l, "/open") {
			t.Errorf("it has open: %s", l)
		}
	}
	for v := range strings.Lines(await(t, dir, "sees")) {
		name, value, _ := strings.Cut(strings.TrimSpace(v), "=")
		if !slices.Contains(inheritedNames, name) && !slices.Contains([]string{"LC_TIME", "STEWARD_ANSWER", "PWD", "OLDPWD", "SHLVL", "_"}, name) && !strings.HasPrefix(name, "LC_") {
			t.Errorf("it sees %s", v)
		}
		if name == "STEWARD_ANSWER" && !strings.Contains(read(t, value), `"rationale": "because"`) {
			t.Errorf("the answer is not at %s", value)
		}
	}
	if kanbanOf(t, dir) != kanban(line("*", "TASK-001", "x")) {
		t.Errorf("the kanban is the program's:\n%s", kanbanOf(t, dir))
	}
	if info, err := os.Stat(filepath.Join(dir, Base, resumeLog("TASK-001"))); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its log: %v, %v", info, err)
	}
}

// A command that fails at once is reported and not run again for the same answer; another answer runs it again. The
// finding ends with the failure.
func TestResumeCommandFails(t *testing.T) {
	for name, c := range map[string]struct {
		command []string
		want    string
	}{
		"missing":       {[]string{"no-such-program-anywhere", "{task}"}, "executable file not found"},
		"missing path":  {[]string{"bin/none", "{task}"}, "no such file"},
		"not runnable":  {[]string{"./" + kanbanPath, "{task}"}, "permission denied"},
		"exit code":     {[]string{"sh", "-c", "echo once >> runs; echo busy; echo no worker $0 >&2; exit 3", "{task}"}, "sh: exit status 3 (no worker TASK-001)"},
		"signal":        {[]string{"sh", "-c", "echo once >> runs; kill -9 $$", "{task}"}, "sh: signal: killed"},
		"silent":        {[]string{"sh", "-c", "echo once >> runs; false", "{task}"}, "sh: exit status 1"},
		"odd words":     {[]string{"sh", "-c", "exit 1; {tusk}"}, "{tusk} means nothing"},
		"no such place": {[]string{"sh", "-c", "exit 1"}, "nothing says what to resume"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, p := resumed(t, time.Minute, c.command...)
			now := time.Now()
			s := look(t, p, now)
			first := decided(t, s, answerRetry, now)
			for range 2 {
				for _, p := range []*Project{p, reopened(t, dir, time.Minute, c.command...)} {
					if err := p.Apply(t.Context(), first, now); !errors.Is(err, ErrResume) || errors.Is(err, protocol.ErrConflict) || !strings.Contains(err.Error(), c.want) {
						t.Errorf("got %v, want %q", err, c.want)
					}
				}
			}
			if text, err := os.ReadFile(filepath.Join(dir, "runs")); err == nil && string(text) != "once\n" {
				t.Errorf("it ran again: %q", text)
			}
			s = sameByHints(t, p, now)
			if f := findingOf(s, "resume"); f == nil || f.Severity != protocol.High || !strings.Contains(f.Text, c.want) || f.Subject.ID != "TASK-001" {
				t.Errorf("finding %+v", f)
			}
			p = reopened(t, dir, time.Minute, "touch", "ran-{task}")
			if err := p.Apply(t.Context(), decided(t, s, answerRetry, now.Add(time.Second)), now); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Join(dir, "ran-TASK-001")); err != nil {
				t.Error("another answer does not try again")
			}
			if f := findingOf(look(t, p, now), "resume"); f != nil {
				t.Errorf("it has just been started: %+v", f)
			}
		})
	}
}

func TestResumeNeedsAWorkersFolder(t *testing.T) {
	for _, worker := range []string{"", "worker-TASK-001-plan-1705312000", "worker-TASK-001-$(reboot)", "worker-TASK-001-a b"} {
		dir := lay(t, file(kanbanPath, kanban(line("*", "TASK-001", "x"))))
		if worker != "" {
			write(t, dir, Base+"/"+workersDir+"/"+worker+"/prd.md", "x\n")
		}
		p, now := reopened(t, dir, time.Minute, "touch", "ran-{worker}"), time.Now()
		err := p.Apply(t.Context(), decided(t, look(t, p, now), answerRetry, now), now)
		if !errors.Is(err, ErrResume) || !strings.Contains(err.Error(), "no worker's folder is there for TASK-001") {
			t.Errorf("%q: %v", worker, err)
		}
		if ran, _ := filepath.Glob(filepath.Join(dir, "ran-*")); len(ran) > 0 {
			t.Errorf("%q: ran %v", worker, ran)
		}
	}
}

// A command that continues is not waited for, outlives the adapter, and is the only command of its task. If it ends
// without effect, the user is told. A process that it leaves running counts as the command.
func TestResumeCommandGoesOn(t *testing.T) {
	for name, script := range map[string]string{
		"hangs":           `echo $$ > number; exec sleep 300`,
		"leaves children": `sleep 300 & echo $! > number; exit 0`,
	} {
		t.Run(name, func(t *testing.T) {
			dir, p := resumed(t, 50*time.Millisecond, "sh", "-c", script, "{task}")
			now := time.Now()
			s := look(t, p, now)
			c := decided(t, s, answerRetry, now)
			if err := p.Apply(t.Context(), c, now); err != nil {
				t.Fatal(err)
			}
			id := killLater(t, await(t, dir, "number"))
			p.Close()
			p = reopened(t, dir, time.Minute, "touch", "ran-{task}")
			if err := p.Apply(t.Context(), c, now); err != nil {
				t.Errorf("the same answer: %v", err)
			}
			other := decided(t, s, answerRetry, now.Add(time.Second))
			if err := p.Apply(t.Context(), other, now); !errors.Is(err, protocol.ErrConflict) || !strings.Contains(err.Error(), "still runs") {
				t.Errorf("another answer meanwhile: %v", err)
			}
			later := now.Add(2 * defaultGrace)
			if f := findingOf(look(t, p, later), "resume"); f != nil {
				t.Errorf("it still runs: %+v", f)
			}
			if proc.Check(id) != proc.Alive && proc.Check(id) != proc.Stopped {
				t.Errorf("it is %v", proc.Check(id))
			}
			kill(t, id)
			if f := findingOf(look(t, p, now.Add(defaultGrace/2)), "resume"); f != nil {
				t.Errorf("the program may still write: %+v", f)
			}
			if f := findingOf(look(t, p, later), "resume"); f == nil || f.Severity != protocol.High || !strings.Contains(f.Text, "still marked [*]") {
				t.Errorf("nothing came of it: %+v", f)
			}
			if err := protocoltest.Rewrite(filepath.Join(dir, kanbanPath), "- [*]", "- [=]"); err != nil {
				t.Fatal(err)
			}
			if f := findingOf(look(t, p, later.Add(time.Second)), "resume"); f != nil {
				t.Errorf("the program has it in hand: %+v", f)
			}
			if err := protocoltest.Rewrite(filepath.Join(dir, kanbanPath), "- [=]", "- [*]"); err != nil {
				t.Fatal(err)
			}
			if f := findingOf(look(t, p, later.Add(2*time.Second)), "resume"); f != nil {
				t.Errorf("it failed anew, which is another story: %+v", f)
			}
		})
	}
}

// If steward stops while it waits for the command, the command continues.
func TestResumeSurvivesTheEndOfSteward(t *testing.T) {
	dir, p := resumed(t, time.Hour, "sh", "-c", `echo $$ > number; exec sleep 300`, "{task}")
	now := time.Now()
	c := decided(t, look(t, p, now), answerRetry, now)
	ctx, stop := context.WithCancel(t.Context())
	go func() { await(t, dir, "number"); stop() }()
	if err := p.Apply(ctx, c, now); err != nil {
		t.Fatal(err)
	}
	if id := killLater(t, await(t, dir, "number")); proc.Check(id) == proc.Gone || !strings.Contains(onRecord(dir), `"state": "started"`) {
		t.Errorf("%v\n%s", proc.Check(id), onRecord(dir))
	}
}

// After a crash between the record and the command, the command is run, unless the files or its lock show that it ran.
func TestCrashBeforeTheResumeCommand(t *testing.T) {
	for name, c := range map[string]struct {
		marker, record string
		ran            bool
	}{
		"nothing shows it": {"*", "*", true},
		"in hand again":    {"=", "*", false},
		"done meanwhile":   {"x", "*", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir, p := resumed(t, time.Minute, "touch", "ran-{task}")
			now := time.Now()
			change := decided(t, look(t, p, now), answerRetry, now)
			n := answerOf(change)
			n.Marker = c.record
			p.Begin(now)
			if err := p.Guarded(t.Context(), func() error { return p.write.record("TASK-001", n, stateTaken) }); err != nil {
				t.Fatal(err)
			}
			write(t, dir, kanbanPath, kanban(line(c.marker, "TASK-001", "x")))
			p = reopened(t, dir, time.Minute, "touch", "ran-{task}")
			if err := p.Apply(t.Context(), change, now.Add(time.Hour)); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Join(dir, "ran-TASK-001")); (err == nil) != c.ran || !strings.Contains(onRecord(dir), `"state": "started"`) {
				t.Errorf("ran %v\n%s", err == nil, onRecord(dir))
			}
		})
	}
}

// A command's log is kept short, even while the command continues to write to it.
func TestResumeLogIsBounded(t *testing.T) {
	dir, p := resumed(t, 50*time.Millisecond, "sh", "-c", `yes line | head -c 3000000; echo $$ > number; while test ! -e on; do sleep 0.01; done; echo the end; echo > said; exec sleep 300`, "{task}")
	log, now := filepath.Join(dir, Base, resumeLog("TASK-001")), time.Now()
	if err := p.Apply(t.Context(), decided(t, look(t, p, now), answerRetry, now), now); err != nil {
		t.Fatal(err)
	}
	killLater(t, await(t, dir, "number"))
	if len(read(t, log)) < 3_000_000 {
		t.Fatal("the log is short by itself")
	}
	look(t, p, now)
	write(t, dir, "on", "")
	for _, err := os.Stat(filepath.Join(dir, "said")); err != nil; _, err = os.Stat(filepath.Join(dir, "said")) {
		time.Sleep(time.Millisecond)
	}
	if text := read(t, log); len(text) != keptLog+len("the end\n") || !strings.HasSuffix(text, "line\nthe end\n") {
		t.Errorf("%d bytes, the end is %.40q", len(text), text[max(0, len(text)-40):])
	}
}

func TestResumeLogLeadsNowhereElse(t *testing.T) {
	for what, spoil := range map[string]func(from, to string) error{"link": os.Symlink, "name": os.Link} {
		dir, p := resumed(t, time.Minute, "sh", "-c", "echo said", "{task}")
		now := time.Now()
		c := decided(t, look(t, p, now), answerRetry, now)
		write(t, dir, "secret", "secret\n")
		write(t, dir, Base+"/steward/x", "")
		if err := spoil(filepath.Join(dir, "secret"), filepath.Join(dir, Base, resumeLog("TASK-001"))); err != nil {
			t.Fatal(err)
		}
		err := p.Apply(t.Context(), c, now)
		if read(t, dir, "secret") != "secret\n" || what == "link" && err == nil {
			t.Errorf("%s: %v, it holds %q", what, err, read(t, dir, "secret"))
		}
	}
}

// Protocol 002, Recovery: lost work is resumed once by the program's own command, also if the program has given up or says that
// the end is final; the task is marked as failed only if that did not help. Until then it is not lost.
func TestLostWorkIsResumedOnce(t *testing.T) {
	for name, state := range map[string]string{"": "", "used up its attempts": `{"attempts": 5}`, "too many conflicts": `{"terminal": true, "terminal_reason": "too many conflicts"}`} {
		dir := lay(t, file(kanbanPath, kanban(line("=", "TASK-001", "x")))+file(home+"/agent.pid", nobody))
		if state != "" {
			write(t, dir, home+"/resume-state.json", state)
		}
		p := reopened(t, dir, time.Minute, "sh", "-c", "echo $0 >>runs", "{task}")
		now := time.Now()
		lost := taskOf(t, look(t, p, now), "TASK-001")
		if lost.Lost == "" || !strings.Contains(lost.Lost, name) {
			t.Fatalf("%s: %q", name, lost.Lost)
		}
		if err := p.Apply(t.Context(), about(protocol.VerbConclude, lost), now); err != nil || read(t, dir, "runs") != "TASK-001\n" || !strings.Contains(read(t, dir, kanbanPath), "[=]") {
			t.Fatalf("%s: %v\n%s", name, err, read(t, dir, kanbanPath))
		}
		s := sameByHints(t, p, now.Add(time.Second))
		if f := findingOf(s, "resume_pending"); taskOf(t, s, "TASK-001").Lost != "" || f == nil || !strings.Contains(f.Text, "steward has started the resume command") || !strings.Contains(f.Text, name) {
			t.Errorf("%s, under way: %+v", name, f)
		}
		later := now.Add(2 * defaultGrace)
		lost = taskOf(t, look(t, p, later), "TASK-001")
		for range 2 {
			if err := p.Apply(t.Context(), about(protocol.VerbConclude, lost), later); lost.Lost == "" || err != nil {
				t.Fatalf("%s: %q, %v", name, lost.Lost, err)
			}
		}
		if read(t, dir, "runs") != "TASK-001\n" || !strings.Contains(read(t, dir, kanbanPath), "[*]") {
			t.Errorf("%s: it did not help: %s%s", name, read(t, dir, "runs"), read(t, dir, kanbanPath))
		}
	}
}

// A resume command that fails at once does not delay the mark.
func TestFailedResumeIsMarkedAtOnce(t *testing.T) {
	dir := lay(t, file(kanbanPath, kanban(line("=", "TASK-001", "x")))+file(home+"/agent.pid", nobody))
	p := reopened(t, dir, time.Minute, "sh", "-c", "exit 3", "{task}")
	now := time.Now()
	if err := p.Apply(t.Context(), about(protocol.VerbConclude, taskOf(t, look(t, p, now), "TASK-001")), now); err != nil || !strings.Contains(read(t, dir, kanbanPath), "[*]") {
		t.Errorf("%v\n%s", err, read(t, dir, kanbanPath))
	}
}

// A person's retry uses the program's own command, each time that it is asked for.
func TestRetryRunsTheResumeCommand(t *testing.T) {
	dir, p := resumed(t, time.Minute, "sh", "-c", "echo $0 >>runs", "{task}")
	now := time.Now()
	for n := range 2 {
		if err := p.Apply(t.Context(), about(protocol.VerbRequeue, taskOf(t, look(t, p, now), "TASK-001")), now.Add(time.Duration(n)*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	if got := read(t, dir, "runs"); got != "TASK-001\nTASK-001\n" || !strings.Contains(read(t, dir, kanbanPath), "[*]") {
		t.Errorf("%q\n%s", got, read(t, dir, kanbanPath))
	}
}

// The end of the orchestrator says how many tasks wait for another one.
func TestTasksWaitForTheOrchestrator(t *testing.T) {
	dir := lay(t, file(kanbanPath, kanban(line("=", "TASK-001", "x"), line(" ", "TASK-002", "x"), line(" ", "TASK-003", "x")+"\n  - Dependencies: TASK-001", line("P", "TASK-004", "x")))+
		file(home+"/agent.pid", nobody)+file(Base+"/"+orchestratorFiles[0], nobody))
	a, ok := look(t, open(t, dir), time.Now()).Agent(orchestratorName)
	if !ok || a.Presence != protocol.PresenceGone || !strings.HasSuffix(a.Evidence, "is gone; tasks that wait for it: 1 to do, 1 lost") {
		t.Errorf("%+v", a)
	}
}
