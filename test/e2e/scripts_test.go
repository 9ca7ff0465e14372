package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/livhana/steward/test/rig"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) { rig.Main(m, nil) }

// TestScripts runs every script under testdata/script against the real program, from outside.
func TestScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("short: the scripts run the whole program, with its real waits")
	}
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               setUpScript,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"await": awaitCommand, "rewrite": rewriteCommand, "count": countCommand, "signal": signalCommand, "age": ageCommand, "fifo": fifoCommand, "stamp": stampCommand,
			"exits": exitsCommand,
		},
		Condition: func(cond string) (bool, error) {
			if tool, ok := strings.CutPrefix(cond, "tool:"); ok {
				_, err := exec.LookPath(tool)
				return err == nil, nil
			}
			return false, fmt.Errorf("unknown condition %s", cond)
		},
	})
}

// setUpScript gives each script its own home. Sockets need short paths, so they are placed elsewhere.
func setUpScript(env *testscript.Env) error {
	run, err := os.MkdirTemp("", "st")
	if err != nil {
		return err
	}
	env.Defer(func() { os.RemoveAll(run) })
	env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
	env.Setenv("XDG_RUNTIME_DIR", "")
	env.Setenv("STEWARD_STATE_DIR", filepath.Join(env.WorkDir, "state"))
	env.Setenv("STEWARD_SOCKET", filepath.Join(run, "s.sock"))
	env.Setenv("STEWARD_CONFIG", filepath.Join(env.WorkDir, "config.toml"))
	env.Setenv("T", "p/tmp/agent_status/codex_tasks")
	env.Setenv("A", "p/tmp/agent_status")
	quick := "[supervisor]\nlook_every = \"200ms\"\n[escalate]\nchannels = []\n[capacity]\ndimensions = [\"agent\"]\n[tasks]\njudge = \"30s\"\n"
	return os.WriteFile(filepath.Join(env.WorkDir, "config.toml"), []byte(quick), 0o600)
}

// awaitCommand: await [exec] CMD… waits until the command succeeds and its output matches the regular expression.
//
//	await FILE                 until the file exists        ! await FILE: until it is gone
//	await FILE REGEXP          until its content matches
//	await exec REGEXP CMD…     until the command's output matches
func awaitCommand(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: await FILE [REGEXP] | await exec REGEXP CMD…")
	}
	deadline := time.Now().Add(rig.Patience)
	last := ""
	for {
		ok := false
		switch {
		case args[0] == "exec":
			ok, last = matchExec(ts, args[1], args[2:])
		case len(args) == 1:
			_, err := os.Stat(ts.MkAbs(args[0]))
			ok = err == nil
		default:
			data, _ := os.ReadFile(ts.MkAbs(args[0]))
			last = string(data)
			ok = regexp.MustCompile("(?s)" + args[1]).Match(data)
		}
		if ok != neg {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("await %v: not within %v; last: %s", args, rig.Patience, last)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func matchExec(ts *testscript.TestScript, pattern string, args []string) (bool, string) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = ts.Getenv("WORK")
	for _, key := range []string{"HOME", "PATH", "STEWARD_STATE_DIR", "STEWARD_SOCKET", "STEWARD_CONFIG", "XDG_RUNTIME_DIR"} {
		cmd.Env = append(cmd.Env, key+"="+ts.Getenv(key))
	}
	if path := lookScriptPath(ts, args[0]); path != "" {
		cmd.Path, cmd.Err = path, nil
	}
	out, err := cmd.CombinedOutput()
	return err == nil && regexp.MustCompile("(?s)"+pattern).Match(out), string(out)
}

func lookScriptPath(ts *testscript.TestScript, name string) string {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if st, err := os.Stat(filepath.Join(dir, name)); err == nil && st.Mode()&0o111 != 0 {
			return filepath.Join(dir, name)
		}
	}
	return ""
}

// rewriteCommand: rewrite SRC DST puts a copy of SRC in DST's place by rename; with -inplace it truncates and writes.
func rewriteCommand(ts *testscript.TestScript, _ bool, args []string) {
	inPlace := args[0] == "-inplace"
	if inPlace {
		args = args[1:]
	}
	data := ts.ReadFile(args[0])
	dst := ts.MkAbs(args[1])
	if inPlace {
		ts.Check(os.WriteFile(dst, []byte(data), 0o644))
		return
	}
	tmp := dst + ".new"
	ts.Check(os.WriteFile(tmp, []byte(data), 0o644))
	ts.Check(os.Rename(tmp, dst))
}

// countCommand: count N REGEXP FILE checks the number of matches.
func countCommand(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := len(regexp.MustCompile(args[1]).FindAllString(ts.ReadFile(args[2]), -1))
	if got != want {
		ts.Fatalf("%q matches %d times in %s, want %d:\n%s", args[1], got, args[2], want, ts.ReadFile(args[2]))
	}
}

// signalCommand: signal NAME SIG sends a signal to a background program of the script, found by its pid file.
func signalCommand(ts *testscript.TestScript, _ bool, args []string) {
	pid, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(args[0])))
	ts.Check(err)
	sig := map[string]syscall.Signal{"KILL": syscall.SIGKILL, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT}[args[1]]
	if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		ts.Fatalf("signal %d: %v", pid, err)
	}
}

// ageCommand: age DURATION FILE… sets the files' times back.
func ageCommand(ts *testscript.TestScript, _ bool, args []string) {
	d, err := time.ParseDuration(args[0])
	ts.Check(err)
	at := time.Now().Add(-d)
	for _, file := range args[1:] {
		ts.Check(os.Chtimes(ts.MkAbs(file), at, at))
	}
}

var stampMark = regexp.MustCompile(`\{\{now([+-][0-9a-z.]+)?\}\}`)

// stampCommand: stamp FILE… fills in times like {{now-90s}}.
func stampCommand(ts *testscript.TestScript, _ bool, args []string) {
	for _, file := range args {
		text := stampMark.ReplaceAllStringFunc(ts.ReadFile(file), func(mark string) string {
			shift, _ := time.ParseDuration(stampMark.FindStringSubmatch(mark)[1])
			return time.Now().Add(shift).UTC().Format(time.RFC3339)
		})
		ts.Check(os.WriteFile(ts.MkAbs(file), []byte(text), 0o644))
	}
}

func fifoCommand(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(syscall.Mkfifo(ts.MkAbs(args[0]), 0o644))
}

// exitsCommand: exits CODE CMD… runs the command and checks its exit code. Its output is there for stdout and stderr.
func exitsCommand(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exits CODE CMD…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var ended *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &ended) {
		got = ended.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit %d, want %d", got, want)
	}
}
