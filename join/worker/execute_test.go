package worker

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/join/task"
	"github.com/livhana/steward/protocol/agentstatus"
)

func TestArgumentsArriveAsTheyAre(t *testing.T) {
	s := newSite(t)
	args := []string{"a b", "$(touch pwned)", "`touch pwned`", "; touch pwned", "* ? [a]", "'\"\\", "", "--", "-n", "ä\n\ttab", "$HOME", "> pwned"}
	script := s.script("scripts/show.sh", `for a; do printf '%s\037' "$a"; done`)
	r := s.run(request(task.Execute, execute(script, args...)))
	if r.Status != statusCompleted || !r.Body.Success || len(r.Errors) != 0 {
		t.Fatalf("got %s %+v", r.Status, r.Errors)
	}
	if got := strings.Split(strings.TrimSuffix(r.Body.Stdout, "\037"), "\037"); !slices.Equal(got, args) {
		t.Errorf("got %q, want %q", got, args)
	}
	if s.read("pwned") != "" || s.read("scripts/pwned") != "" {
		t.Error("an argument was executed")
	}
	for _, key := range []string{"exit_code", "wall_seconds", "cpu_seconds", "max_rss_mb", "output_bytes", "survivors"} {
		if _, ok := number(r.Body.Metrics[key]); !ok {
			t.Errorf("metrics.%s is %v", key, r.Body.Metrics[key])
		}
	}
	if r.Body.Output == "" || !strings.Contains(s.read(must(filepath.Rel(s.dir, r.Body.Output))), "pwned") {
		t.Errorf("the output was not kept in %q", r.Body.Output)
	}
	if r.Source != agent || r.Completed.IsZero() || r.Body.Summary == "" || r.Capacity < 0 || r.Capacity > 1 {
		t.Errorf("got %+v", r)
	}
}

func must(s string, err error) string {
	if err != nil {
		panic(err)
	}
	return s
}

func TestFolderEnvironmentAndInput(t *testing.T) {
	s := newSite(t)
	t.Setenv("SECRET_TOKEN", "hush")
	t.Setenv("LC_TEST", "yes")
	t.Setenv("NOTIFY_SOCKET", "/run/x")
	script := s.script("env.sh", "pwd; env; wc -c")
	if err := os.Mkdir(filepath.Join(s.dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	p := execute(script)
	p["working_directory"] = "sub"
	q := request(task.Execute, p)
	r := s.run(q, func(o *Options) {
		o.Environment, o.Environ = []string{"PATH", "LC_*", "NOTIFY_*"}, os.Environ()
	})
	out := r.Body.Stdout
	for _, want := range []string{filepath.Join(s.dir, "sub") + "\n", "LC_TEST=yes\n", "STEWARD_TASK_ID=" + q.TaskID + "\n", "STEWARD_PROJECT=" + s.dir + "\n",
		"STEWARD_TASK_TYPE=execute\n", "STEWARD_REQUEST=" + requestFile(s.dir, q.TaskID) + "\n", "PATH=", "\n0\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in %q", want, out)
		}
	}
	for _, none := range []string{"SECRET_TOKEN", "NOTIFY_SOCKET", "HOME=", "STEWARD_DRY_RUN"} {
		if strings.Contains(out, none) {
			t.Errorf("%s reached the command: %q", none, out)
		}
	}
}

func TestEachRunHasItsTemporaryFiles(t *testing.T) {
	s := newSite(t)
	temp := t.TempDir()
	t.Setenv("TMPDIR", "/elsewhere")
	script := s.script("temp.sh", `ls -ld "$TMPDIR" | cut -c1-10; ls -A "$TMPDIR"; echo "$TMPDIR"; [ "$TMP $TEMP" = "$TMPDIR $TMPDIR" ] || echo others
mkdir "$TMPDIR/closed" && echo x > "$TMPDIR/closed/file" && ln -s "$PWD" "$TMPDIR/closed/away" && chmod 500 "$TMPDIR/closed" && echo x > "$TMPDIR/file"; kill -KILL $$`)
	seen := map[string]bool{}
	for range 2 {
		r := s.run(request(task.Execute, execute(script)), func(o *Options) { o.Environment, o.Environ, o.Temp = []string{"PATH", "TMP*"}, os.Environ(), temp })
		mode, dir, _ := strings.Cut(strings.TrimSpace(r.Body.Stdout), "\n")
		if mode != "drwx------" || filepath.Dir(dir) != temp || seen[dir] {
			t.Errorf("got %q", r.Body.Stdout)
		}
		seen[dir] = true
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 || s.read("temp.sh") == "" {
		t.Errorf("left: %v, %v", left, err)
	}
	lost := s.run(request(task.Execute, execute(script)), func(o *Options) { o.Temp = filepath.Join(temp, "missing") })
	if e := theError(t, lost, statusFailed, codeExecution); !strings.Contains(e.Message, "temporary files") {
		t.Errorf("got %+v", e)
	}
}

// TestConfinedCommandsDoNotInheritTheWayOut: a confined command must not inherit the addresses of services that could
// write on its behalf.
func TestConfinedCommandsDoNotInheritTheWayOut(t *testing.T) {
	own := []string{"PATH=/bin", "XDG_RUNTIME_DIR=/run/user/1", "DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/1/bus", "XDG_DATA_HOME=/data", "STEWARD_SOCKET=/s", "STEWARD_RUN=other", "STEWARD_TASK_ID=other"}
	allowed := []string{"PATH", "XDG_*", "DBUS_SESSION_BUS_ADDRESS", "STEWARD_*"}
	task := []string{"STEWARD_TASK_ID=this"}
	if got, want := environment(own, allowed, task, true), []string{"PATH=/bin", "XDG_DATA_HOME=/data", "STEWARD_SOCKET=/s", "STEWARD_TASK_ID=this"}; !slices.Equal(got, want) {
		t.Errorf("confined: %q", got)
	}
	if got, want := environment(own, allowed, task, false), append(slices.Clone(own[:5]), task...); !slices.Equal(got, want) {
		t.Errorf("not confined: %q", got)
	}
}

func TestErrorsByCode(t *testing.T) {
	s := newSite(t)
	s.write("plain.sh", "#!/bin/sh\n", 0o644)
	s.write("noline.sh", "echo hello\n", 0o755)
	s.write("lost.sh", "#!/no/such/interpreter\n", 0o755)
	s.write("windows.sh", "#!/bin/sh\r\necho\r\n", 0o755)
	s.script("fail.sh", "echo some words >&2; exit 3")
	s.script("kill.sh", "kill -KILL $$")
	s.script("syntax.sh", "cd /\n:\nnonsense_command_x || exit 1")
	s.script("merge.sh", "echo 'Auto-merging plain.sh'; echo 'CONFLICT (content): Merge conflict in plain.sh'; echo 'Automatic merge failed; fix conflicts and then commit the result.'; exit 1")
	s.script("limit.sh", "echo \"You've hit your usage limit · resets 3pm (UTC)\" >&2; exit 1")
	s.script("full.sh", "echo 'write: No space left on device' >&2; exit 1")
	for _, c := range []struct {
		script, status, code, severity, message, file string
		line                                          int
	}{
		{"none.sh", statusFailed, codeNotFound, severityError, "none.sh does not exist", "none.sh", 0},
		{".", statusFailed, codeExecution, severityError, "is a folder", ".", 0},
		{"plain.sh", statusFailed, codePermission, severityError, "chmod +x", "plain.sh", 0},
		{"noline.sh", statusFailed, codeExecution, severityError, "#!/bin/sh", "noline.sh", 1},
		{"lost.sh", statusFailed, codeNotFound, severityError, `its interpreter "/no/such/interpreter" does not exist`, "lost.sh", 1},
		{"windows.sh", statusFailed, codeNotFound, severityError, "carriage return", "windows.sh", 1},
		{"fail.sh", statusFailed, codeExecution, severityError, "fail.sh ended with exit code 3: some words", "", 0},
		{"kill.sh", statusFailed, codeExecution, severityError, "ended by SIGKILL, perhaps by the kernel because memory ran out", "", 0},
		{"syntax.sh", statusFailed, codeExecution, severityError, "nonsense_command_x", "syntax.sh", 4},
		{"merge.sh", statusFailed, codeConflict, severityFatal, "CONFLICT (content): Merge conflict in plain.sh", "plain.sh", 0},
		{"limit.sh", statusFailed, codeLimited, severityWarning, "resets 3pm", "", 0},
		{"full.sh", statusFailed, codeDiskFull, severityError, "No space left on device", "", 0},
		{"../out.sh", statusFailed, codePermission, severityError, "outside the project", "../out.sh", 0},
	} {
		t.Run(c.script, func(t *testing.T) {
			s.t = t
			path := c.script
			if !strings.HasPrefix(path, "..") {
				path = filepath.Join(s.dir, path)
			}
			e := theError(t, s.run(request(task.Execute, execute(path))), c.status, c.code)
			want := c.file
			if want != "" && !strings.HasPrefix(want, "..") {
				want = filepath.Join(s.dir, want)
			}
			if e.Severity != c.severity || !strings.Contains(e.Message, c.message) || e.File != want || e.Line != c.line {
				t.Errorf("got %+v, want %s %q %s:%d", e, c.severity, c.message, want, c.line)
			}
		})
	}
}

func TestTheSmallerLimitStopsTheWholeTree(t *testing.T) {
	s := newSite(t)
	// The script ignores SIGTERM, and so does its child in another session.
	script := s.script("stubborn.sh", `trap '' TERM
setsid sh -c 'trap "" TERM; echo $$ > child; while :; do sleep 1; done' &
while :; do sleep 1; done`)
	p := execute(script)
	p["timeout_seconds"] = 1.0
	r := s.run(request(task.Execute, p))
	e := theError(t, r, statusTimeout, codeTimeout)
	if e.Severity != severityError || !strings.Contains(e.Message, "limit of 1.0 s") {
		t.Errorf("got %+v", e)
	}
	s.gone("child")
}

// gone fails unless the process whose PID is in the file has ended.
func (s *site) gone(file string) {
	s.t.Helper()
	pid := strings.TrimSpace(s.read(file))
	if pid == "" {
		s.t.Fatalf("%s was never written", file)
	}
	s.await("process "+pid+" ends", func() bool {
		text, err := os.ReadFile("/proc/" + pid + "/stat")
		return err != nil || strings.Contains(string(text), ") Z ")
	})
}

func TestWhatForksAwayIsEndedWithItsTask(t *testing.T) {
	s := newSite(t)
	r := s.run(request(task.Execute, execute(s.script("fork.sh", `(setsid sh -c 'echo $$ > child; sleep 1000' >/dev/null 2>&1 &) ; while [ ! -s child ]; do sleep 0.01; done`))))
	if r.Status != statusCompleted || r.Body.Metrics["survivors"] == int64(0) || !strings.Contains(r.Body.Summary, "left behind") {
		t.Errorf("got %s, %v survivors, %q", r.Status, r.Body.Metrics["survivors"], r.Body.Summary)
	}
	s.gone("child")
}

func TestAFloodIsCountedNotKept(t *testing.T) {
	s := newSite(t)
	id := s.submit(request(task.Execute, execute(s.script("flood.sh", `echo first; yes "$(printf '\033[31mred')" | head -c 30000000; echo last`))))
	s.drain()
	r := s.result(id)
	if r.Status != statusCompleted || !strings.HasPrefix(r.Body.Stdout+"first", "first") || !strings.HasSuffix(r.Body.Stdout, "last\n") {
		t.Errorf("got %s, ends in %q", r.Status, r.Body.Stdout[max(0, len(r.Body.Stdout)-50):])
	}
	if n, _ := number(r.Body.Metrics["output_bytes"]); n != float64(30000000+len64("first\nlast\n")) {
		t.Errorf("%v bytes were counted", n)
	}
	if doc := s.read("tmp/agent_status/codex_tasks/task_" + id + ".result.json"); len(doc) > 1<<20 {
		t.Errorf("the result has %d bytes: no reader of ours takes it", len(doc))
	}
	if info, err := os.Stat(r.Body.Output); err != nil || info.Size() > 11<<20 {
		t.Errorf("the kept output: %v, %v", info, err)
	}
}

func TestAResultOfControlCharactersStaysReadable(t *testing.T) {
	s := newSite(t)
	id := s.submit(request(task.Execute, execute(s.script("bells.sh", `head -c 3000000 /dev/zero | tr '\000' '\001'; echo last`))))
	s.drain(func(o *Options) { o.Output = 256 << 10 })
	r := s.result(id)
	if doc := s.read("tmp/agent_status/codex_tasks/task_" + id + ".result.json"); len(doc) > 1<<20 || r.Status != statusCompleted || !strings.HasSuffix(r.Body.Stdout, "last\n") {
		t.Errorf("the result has %d bytes, says %s and ends in %q", len(doc), r.Status, r.Body.Stdout[max(0, len(r.Body.Stdout)-10):])
	}
}

func len64(s string) int64 { return int64(len(s)) }

func TestNothingOfAnOutputThatIsNotToBeCapturedIsKept(t *testing.T) {
	s := newSite(t)
	p := execute(s.script("secret.sh", "echo hush-hush; echo hush-hush >&2; exit 4"))
	p["capture_output"] = false
	id := s.submit(request(task.Execute, p))
	s.drain()
	theError(t, s.result(id), statusFailed, codeExecution)
	if doc := string(s.detail(id).ResultRaw); strings.Contains(doc, "hush") || !strings.Contains(doc, "exit code 4") {
		t.Errorf("got %s", doc)
	}
	if files, _ := filepath.Glob(filepath.Join(s.dir, "tmp/agent_status/steward/output/*")); len(files) > 0 {
		t.Errorf("kept: %v", files)
	}
}

func TestWhatWasMadeAndChanged(t *testing.T) {
	s := newSite(t)
	for _, name := range []string{"old.txt", "same.txt", "touched.txt", "gone.txt"} {
		s.write(name, "before", 0o644)
	}
	script := s.script("make.sh", "mkdir -p out; echo x > out/new.txt; printf after! > old.txt; touch touched.txt; rm gone.txt; printf 'BEFORE' > same.txt; printf before > same.txt")
	r := s.run(request(task.Execute, execute(script), func(r *agentstatus.Request) {
		r.Payload.Artifacts = []string{"out/new.txt", filepath.Join(s.dir, "same.txt"), "never.txt", "/etc/passwd"}
		r.Payload.Modify = []string{filepath.Join(s.dir, "old.txt"), filepath.Join(s.dir, "same.txt"), filepath.Join(s.dir, "touched.txt"), filepath.Join(s.dir, "gone.txt")}
	}))
	if want := []string{filepath.Join(s.dir, "out/new.txt")}; !slices.Equal(r.Body.Artifacts, want) {
		t.Errorf("artifacts %q, want %q", r.Body.Artifacts, want)
	}
	if want := []string{filepath.Join(s.dir, "old.txt"), filepath.Join(s.dir, "gone.txt")}; !slices.Equal(r.Body.Modified, want) {
		t.Errorf("modified %q, want %q", r.Body.Modified, want)
	}
}

func TestADryRunRunsNothing(t *testing.T) {
	s := newSite(t)
	script := s.script("act.sh", "touch acted")
	p := execute(script, "a b")
	p["dry_run"] = true
	r := s.run(request(task.Execute, p))
	if r.Status != statusCompleted || r.Body.Metrics["dry_run"] != true || !strings.Contains(r.Body.Summary, "act.sh 'a b'") || !strings.Contains(r.Body.Summary, "there and executable") {
		t.Errorf("got %s %q %v", r.Status, r.Body.Summary, r.Body.Metrics)
	}
	p["script_path"] = filepath.Join(s.dir, "none.sh")
	if r = s.run(request(task.Execute, p)); r.Status != statusCompleted || !strings.Contains(r.Body.Summary, "but "+filepath.Join(s.dir, "none.sh")+" does not exist") {
		t.Errorf("got %s %q", r.Status, r.Body.Summary)
	}
	act := func(o *Options) {
		o.Deploy, o.Research = []string{script}, []string{script}
	}
	deploy := map[string]any{"service_name": "voice", "environment": "staging", "dry_run": true}
	if r = s.run(request(task.Deploy, deploy), act); r.Status != statusCompleted || !strings.Contains(r.Body.Summary, "would run") || r.Body.Metrics["dry_run"] != true {
		t.Errorf("got %s %q", r.Status, r.Body.Summary)
	}
	if r = s.run(request(task.Research, map[string]any{"query": "why", "dry_run": true}), act); r.Status != statusCompleted {
		t.Errorf("got %s %q", r.Status, r.Body.Summary)
	}
	q := map[string]any{"query": "why", "dry_run": true, "search_paths": []any{"/etc"}}
	theError(t, s.run(request(task.Research, q), act), statusFailed, codePermission)
	if _, err := os.Stat(filepath.Join(s.dir, "acted")); err == nil {
		t.Error("something was run")
	}
	rehearsal := s.script("rehearse.sh", `[ "$STEWARD_DRY_RUN" = 1 ] && echo "plan: 3 changes"`)
	if r = s.run(request(task.Deploy, deploy), act, func(o *Options) { o.DeployDryRun = []string{rehearsal} }); r.Body.Summary != "plan: 3 changes" || r.Body.Metrics["dry_run"] != true {
		t.Errorf("got %q %v", r.Body.Summary, r.Body.Metrics)
	}
}

func TestBoundsOfTime(t *testing.T) {
	m := planner{Settings: Settings{Timeout: 300 * time.Second, MaxTimeout: 3600 * time.Second}}
	for _, c := range []struct {
		seconds float64
		want    time.Duration
	}{{0, 300 * time.Second}, {-1, 300 * time.Second}, {60, time.Minute}, {1e300, time.Hour}} {
		if got := m.limit(c.seconds); got != c.want {
			t.Errorf("%v: got %v, want %v", c.seconds, got, c.want)
		}
	}
}
