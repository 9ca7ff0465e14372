package run

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestHowItEnds(t *testing.T) {
	for _, c := range []struct {
		name, text   string
		code         int
		signal       string
		out, errText string
	}{
		{"well", "echo hello; echo there >&2", 0, "", "hello\n", "there\n"},
		{"badly", "exit 7", 7, "", "", ""},
		{"by a signal", "kill -USR1 $$", -1, "SIGUSR1", "", ""},
		{"by a signal without a name", "kill -40 $$", -1, "signal 40", "", ""},
		{"input ends at once", "cat; echo end", 0, "", "end\n", ""},
		{"its folder and the whole environment", `[ "$(pwd)" = "$HERE" ] && env | grep -v -e ^_= -e ^SHLVL= -e ^PWD= -e ^OLDPWD= | sort | sed s/=.*//`, 0, "", "HERE\nLC_ALL\nPATH\nSTEWARD_RUN\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := script(t, c.text)
			s.Env = append(s.Env, "HERE="+s.Dir)
			how := finish(t, s)
			if how.Code != c.code || how.Signal != c.signal || how.Stdout.Text != c.out || how.Stderr.Text != c.errText {
				t.Errorf("got %+v", how)
			}
			if how.Fault != "" || how.TimedOut || how.Stopped || how.Survivors != 0 || how.Unended != 0 || how.Confined {
				t.Errorf("got %+v", how)
			}
		})
	}
}

func TestInputAndBytesAsTheyAre(t *testing.T) {
	s := script(t, `cat; printf '%s|%s|%s' "$1" "$X" "$STEWARD_RUN"`)
	s.Argv = append(s.Argv, "sh", "arg\xff;$(id)")
	s.Env = append(s.Env, "X=\xfe", "STEWARD_RUN=forged")
	s.Stdin = []byte(strings.Repeat("x", 300<<10))
	s.Keep = 400 << 10
	how := finish(t, s)
	want := string(s.Stdin) + "arg\uFFFD;$(id)|\uFFFD|" + s.Mark
	if how.Stdout.Text != want || how.Stdout.Cut {
		t.Errorf("got %d bytes, ending in %q", how.Stdout.Bytes, how.Stdout.Text[max(0, len(how.Stdout.Text)-80):])
	}
	if n := int64(300<<10 + len("arg\xff;$(id)|\xfe|"+s.Mark)); how.Stdout.Bytes != n {
		t.Errorf("counted %d bytes, came %d", how.Stdout.Bytes, n)
	}
}

func TestInputNeedNotBeRead(t *testing.T) {
	s := script(t, "exit 0")
	s.Stdin = make([]byte, 4<<20)
	if how := finish(t, s); how.Code != 0 {
		t.Errorf("got %+v", how)
	}
}

func TestCannotBeStarted(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	os.Mkdir(filepath.Join(dir, "folder"), 0o755)
	chain := write("chain", "#!"+write("second", "#!/nowhere/python -u\n", 0o755)+"\n", 0o755)
	for _, c := range []struct {
		name   string
		argv   []string
		change func(*Spec)
		fault  string
		words  string
	}{
		{"missing", []string{dir + "/gone"}, nil, NotFound, dir + "/gone does not exist"},
		{"not in PATH", []string{"no-such-program"}, nil, NotFound, "no-such-program: not found in the PATH"},
		{"missing, relative", []string{"./gone"}, nil, NotFound, "/gone does not exist"},
		{"beneath a file", []string{write("file", "x", 0o644) + "/x"}, nil, NotFound, "does not exist"},
		{"interpreter missing", []string{write("a", "#!/nowhere/python -u\n", 0o755)}, nil, NotFound, `/a: its interpreter "/nowhere/python" does not exist`},
		{"interpreter of interpreter", []string{chain}, nil, NotFound, `/second: its interpreter "/nowhere/python" does not exist`},
		{"line ends of Windows", []string{write("b", "#!/bin/sh\r\necho\r\n", 0o755)}, nil, NotFound, "carriage return"},
		{"no line for an interpreter", []string{write("c", "echo hello\n", 0o755)}, nil, Format, "#! line"},
		{"empty", []string{write("d", "", 0o755)}, nil, Format, "#! line"},
		{"no x bit", []string{write("e", "#!/bin/sh\n", 0o644)}, nil, Permission, "not executable for this user (mode 0644)"},
		{"no x bit, in PATH", []string{"e"}, func(s *Spec) { s.Env = []string{"PATH=" + dir} }, Permission, "/e: it is not executable for this user"},
		{"interpreter without x bit", []string{write("f", "#!"+dir+"/e\n", 0o755)}, nil, Permission, "its interpreter"},
		{"a folder", []string{dir + "/folder"}, nil, Format, "is a folder"},
		{"working folder missing", []string{"/bin/sh"}, func(s *Spec) { s.Dir += "/gone" }, NotFound, "working folder"},
		{"working folder is a file", []string{"/bin/sh"}, func(s *Spec) { s.Dir = dir + "/a" }, NotFolder, "is not a folder"},
		{"NUL", []string{"/bin/sh", "a\x00b"}, nil, Other, "invalid argument"},
		{"too long", []string{"/bin/sh", strings.Repeat("x", 8<<20)}, nil, Other, "longer than the system allows"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := script(t, "")
			s.Argv = c.argv
			if c.change != nil {
				c.change(&s)
			}
			how := finish(t, s)
			if how.Fault != c.fault || !strings.Contains(how.Problem, c.words) || how.Code != -1 {
				t.Errorf("got %q: %q, code %d", how.Fault, how.Problem, how.Code)
			}
		})
	}
}

func TestProgramsAreFound(t *testing.T) {
	s := script(t, "")
	os.Mkdir(s.Dir+"/bin", 0o755)
	os.WriteFile(s.Dir+"/bin/tool", []byte("#!/bin/sh\necho \"$0\"\n"), 0o755)
	s.Env = []string{"PATH=:bin:/nowhere:" + s.Dir + "/bin"}
	for _, c := range []struct{ name, want string }{
		{"tool", s.Dir + "/bin/tool\n"}, {"bin/tool", s.Dir + "/bin/tool\n"}, {s.Dir + "/bin/tool", s.Dir + "/bin/tool\n"},
	} {
		s.Argv = []string{c.name}
		if how := finish(t, s); how.Stdout.Text != c.want {
			t.Errorf("%s: got %+v", c.name, how)
		}
	}
}

func TestSpecThatCannotBeMeant(t *testing.T) {
	for name, change := range map[string]func(*Spec){
		"no command":      func(s *Spec) { s.Argv = nil },
		"empty command":   func(s *Spec) { s.Argv[0] = "" },
		"relative folder": func(s *Spec) { s.Dir = "x" },
		"no folder":       func(s *Spec) { s.Dir = "" },
		"no mark":         func(s *Spec) { s.Mark = "" },
	} {
		s := script(t, "")
		change(&s)
		if _, err := start(t.Context(), role("shim"), s, patience); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestLimitStopsTheTree(t *testing.T) {
	s := script(t, `(trap "" TERM; sleep 1000 & wait; sleep 1000) & sleep 1000 & sleep 1000`)
	s.Limit, s.Grace = 300*time.Millisecond, 100*time.Millisecond
	how := finish(t, s)
	if !how.TimedOut || how.Stopped || how.Code != -1 || how.Signal == "" || how.Unended != 0 {
		t.Errorf("got %+v", how)
	}
}

func TestStop(t *testing.T) {
	s := script(t, `trap 'echo asked; exit 3' TERM; echo > up; while :; do sleep 0.01; done`)
	r := begin(t, s)
	appears(t, s.Dir+"/up")
	r.Stop()
	r.Stop()
	how, err := r.Wait()
	r.Stop()
	if err != nil || !how.Stopped || how.TimedOut || how.Code != 3 || how.Stdout.Text != "asked\n" {
		t.Errorf("got %+v, %v", how, err)
	}
}

func TestContextStops(t *testing.T) {
	s := script(t, `echo > up; sleep 1000`)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := start(ctx, role("shim"), s, patience)
	if err != nil {
		t.Fatal(err)
	}
	appears(t, s.Dir+"/up")
	cancel()
	if how, err := r.Wait(); err != nil || !how.Stopped || how.Signal != "SIGTERM" {
		t.Errorf("got %+v, %v", how, err)
	}
}

// TestStopAtOnce: a stop before the command has started must not corrupt the Spec.
func TestStopAtOnce(t *testing.T) {
	for range 5 {
		s := script(t, `sleep 1000`)
		s.Stdin = make([]byte, 1<<20)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r, err := start(ctx, role("shim"), s, patience)
		if err != nil {
			t.Fatal(err)
		}
		if how, err := r.Wait(); err != nil || !how.Stopped {
			t.Errorf("got %+v, %v", how, err)
		}
	}
}

func TestGigabyteCostsNothing(t *testing.T) {
	s := script(t, `yes abcdefg | head -c 1073741824; yes no | head -c 1000003 >&2; echo > done; until [ -e go ]; do sleep 0.01; done`)
	s.Log = s.Dir + "/log"
	r := begin(t, s)
	appears(t, s.Dir+"/done")
	if peak := peakMemory(t, r.Shim().PID); peak > 200<<20 {
		t.Errorf("the shim took %d MiB", peak>>20)
	}
	os.WriteFile(s.Dir+"/go", nil, 0o644)
	how, err := r.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if how.Stdout.Bytes != 1<<30 || how.Stderr.Bytes != 1000003 || !how.Stdout.Cut || !how.Stderr.Cut {
		t.Errorf("counted %d and %d", how.Stdout.Bytes, how.Stderr.Bytes)
	}
	if n := len(how.Stdout.Text); n < s.Keep || n > s.Keep+100 || !strings.HasPrefix(how.Stdout.Text, "abcdefg\n") || !strings.HasSuffix(how.Stdout.Text, "abcdefg\n") {
		t.Errorf("kept %d bytes", n)
	}
	if st, err := os.Stat(s.Log); err != nil || st.Size() != LogLimit || !strings.Contains(how.LogProblem, "full") {
		t.Errorf("log: %v, %v, %q", st, err, how.LogProblem)
	}
}

func TestLogNeverDisturbs(t *testing.T) {
	s := script(t, "echo out; echo err >&2")
	os.WriteFile(s.Dir+"/old", []byte("longer than what comes now"), 0o644)
	os.Symlink(s.Dir+"/old", s.Dir+"/link")
	for _, c := range []struct {
		log     string
		problem bool
	}{{s.Dir + "/new", false}, {s.Dir + "/gone/log", true}, {s.Dir, true}, {s.Dir + "/link", true}, {"/dev/null", true}, {s.Dir + "/old", false}} {
		s.Log = c.log
		how := finish(t, s)
		if how.Code != 0 || how.Stdout.Text != "out\n" || (how.LogProblem != "") != c.problem {
			t.Errorf("%s: %+v", c.log, how)
		}
		if text, _ := os.ReadFile(c.log); !c.problem && len(text) != len("out\nerr\n") {
			t.Errorf("%s: holds %q", c.log, text)
		}
	}
}

func TestUsageIsCounted(t *testing.T) {
	s := script(t, `i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done`)
	if how := finish(t, s); how.User <= 0 || how.MaxRSS < 1<<20 || how.MaxRSS > 1<<40 {
		t.Errorf("got %+v", how)
	}
}
