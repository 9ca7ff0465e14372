package push_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/livhana/steward/platform/push"
)

// TestMain lets the test binary act as the command. The environment is not passed on, so the arguments select the
// role.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "play" {
		play(os.Args[2], os.Args[3:])
		return
	}
	os.Exit(m.Run())
}

func play(what string, args []string) {
	switch what {
	case "probe": // behind a proxy
		n, err := push.NewNtfy(push.NtfyConfig{URL: args[0], Topic: "alerts"})
		if err == nil {
			err = n.Probe(context.Background())
		}
		if err != nil {
			fail(1, err.Error())
		}
	case "note": // records its input in a file
		stdin, _ := io.ReadAll(os.Stdin)
		dir, _ := os.Getwd()
		said := noted{Stdin: string(stdin), Dir: dir, Env: os.Environ(), Args: args[1:], Session: sessionOf(os.Getpid())}
		text, _ := json.Marshal(said)
		if os.WriteFile(args[0], text, 0o600) != nil {
			os.Exit(1)
		}
		fmt.Print(strings.Repeat("nobody reads this", 100_000))
	case "ignore": // ignores its input
	case "fail":
		fail(3, strings.Repeat("a long story\n", 1000)+"\x1b[31mno \x00route\r\nto the phone\n")
	case "hang":
		os.WriteFile(args[0], fmt.Append(nil, os.Getpid()), 0o600)
		time.Sleep(time.Hour)
	case "heed": // ends on SIGTERM with status 0
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, syscall.SIGTERM)
		os.WriteFile(args[0], fmt.Append(nil, os.Getpid()), 0o600)
		<-asked
		os.WriteFile(args[0]+".heeded", nil, 0o600)
	case "deaf": // ignores SIGTERM
		signal.Ignore(syscall.SIGTERM)
		os.WriteFile(args[0], fmt.Append(nil, os.Getpid()), 0o600)
		time.Sleep(time.Hour)
	case "leave": // leaves a child that holds all pipes, as args say
		leave(args)
	}
}

func fail(code int, words string) {
	os.Stderr.WriteString(words)
	os.Exit(code)
}

type noted struct {
	Stdin, Dir string
	Env, Args  []string
	Session    int
}

func command(t *testing.T, args ...string) *push.Command {
	t.Helper()
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	c, err := push.NewCommand(append([]string{self, "play"}, args...))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCommandGetsTheDocument(t *testing.T) {
	t.Setenv("GITHUB_TOKEN", secret)
	t.Setenv("https_proxy", "http://proxy.test:3128")
	t.Setenv("SSL_CERT_FILE", "/etc/certs")
	file := filepath.Join(t.TempDir(), "noted")
	doc := `{"title":"Git conflict"}` + strings.Repeat(" ", 1<<20) // larger than a pipe buffer
	if err := command(t, "note", file, "$HOME; rm -rf ~", "two words").Send(bounded(t), []byte(doc)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	var got noted
	if err != nil || json.Unmarshal(text, &got) != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if got.Stdin != doc || !slices.Equal(got.Args, []string{"$HOME; rm -rf ~", "two words"}) {
		t.Errorf("%d bytes, arguments %q", len(got.Stdin), got.Args)
	}
	if got.Dir != "/" {
		t.Errorf("it ran in %s", got.Dir)
	}
	if strings.Contains(fmt.Sprint(got.Env), secret) || !slices.Contains(got.Env, "https_proxy=http://proxy.test:3128") || !slices.Contains(got.Env, "SSL_CERT_FILE=/etc/certs") {
		t.Errorf("environment %q", got.Env)
	}
	if runtime.GOOS == "linux" && got.Session == sessionOf(os.Getpid()) {
		t.Error("it is in our session")
	}
}

func TestCommandMayIgnoreItsInput(t *testing.T) {
	if err := command(t, "ignore").Send(bounded(t), make([]byte, 4<<20)); err != nil {
		t.Error(err)
	}
}

func TestCommandThatFails(t *testing.T) {
	err := command(t, "fail").Send(bounded(t), []byte("{}"))
	if err == nil || !strings.HasSuffix(err.Error(), "no route; to the phone)") || !strings.Contains(err.Error(), "exit status 3") {
		t.Fatal(err)
	}
	if len(err.Error()) > 1200 || strings.ContainsAny(err.Error(), "\n\r\x00\x1b") {
		t.Errorf("%q", err)
	}
}

func TestCommandThatIsNotThere(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "none"), dir, plain, "no-such-program-anywhere"} {
		c, err := push.NewCommand([]string{path})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Probe(); err == nil {
			t.Errorf("%s: it is there", path)
		}
		if err := c.Send(bounded(t), nil); err == nil {
			t.Errorf("%s: it ran", path)
		}
	}
	for _, argv := range [][]string{nil, {""}, {"./send"}, {"~/bin/send"}, {"bin/send"}, {"/bin/true", "a\x00b"}} {
		if _, err := push.NewCommand(argv); err == nil {
			t.Errorf("%q is taken", argv)
		}
	}
	if err := command(t, "ignore").Probe(); err != nil {
		t.Error(err)
	}
	// A program may be installed later, and a relative PATH entry is ignored.
	t.Chdir(dir)
	t.Setenv("PATH", ".")
	if err := os.WriteFile("later.exe", []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	c, _ := push.NewCommand([]string{"later.exe"})
	if err := c.Probe(); err == nil {
		t.Error("found in the current folder")
	}
	t.Setenv("PATH", dir)
	if err := c.Probe(); err != nil {
		t.Error(err)
	}
}

// until returns a context that ends when the file exists, so that no test depends on how fast a program starts.
func until(t *testing.T, file string) (context.Context, func() int) {
	ctx, cancel := context.WithCancelCause(bounded(t))
	pid := make(chan int, 1)
	go func() {
		for ctx.Err() == nil {
			if text, err := os.ReadFile(file); err == nil && len(text) > 0 {
				n, _ := strconv.Atoi(string(text))
				pid <- n
				cancel(context.DeadlineExceeded)
			}
			time.Sleep(time.Millisecond)
		}
	}()
	return ctx, func() int { return <-pid }
}

func TestCommandThatHangsIsEnded(t *testing.T) {
	for _, what := range []string{"hang", "deaf"} {
		file := filepath.Join(t.TempDir(), "pid")
		ctx, pid := until(t, file)
		err := command(t, what, file).Send(ctx, []byte("{}"))
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", what, err)
		}
		if p := pid(); alive(p) {
			t.Errorf("%s: process %d lives", what, p)
		}
	}
	ctx, cancel := context.WithCancel(bounded(t))
	cancel()
	if err := command(t, "hang", "").Send(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestCommandIsAskedToEnd: a program gets SIGTERM before SIGKILL; exiting with 0 then does not count as delivered.
func TestCommandIsAskedToEnd(t *testing.T) {
	for range 5 { // on a busy machine the program may need longer than its time limit
		file := filepath.Join(t.TempDir(), "pid")
		ctx, _ := until(t, file)
		if err := command(t, "heed", file).Send(ctx, []byte("{}")); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if _, err := os.Stat(file + ".heeded"); err == nil {
			return
		}
	}
	t.Error("it was killed at once")
}

func sessionOf(pid int) int {
	sid, _ := unix.Getsid(pid)
	return sid
}

// alive does not count zombies, because reaping them is up to the system.
func alive(pid int) bool {
	if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
		rest := string(stat[strings.LastIndexByte(string(stat), ')')+1:])
		return !strings.HasPrefix(rest, " Z") && !strings.HasPrefix(rest, " X")
	}
	return runtime.GOOS != "linux" && syscall.Kill(pid, 0) == nil
}

// leave starts a child that holds all pipes, in the same group or in its own session, and then ends or stays.
func leave(args []string) {
	file, where, how := args[0], args[1], args[2]
	self, _ := os.Executable()
	cmd := exec.Command(self, "play", how, file)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: where == "away"}
	if err := cmd.Start(); err != nil {
		fail(1, err.Error())
	}
	for {
		if text, err := os.ReadFile(file); err == nil && len(text) > 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if where == "stay" {
		time.Sleep(time.Hour)
	}
}

// TestCommandThatLeavesAChildBehind: a process that a program leaves behind neither blocks Send nor is killed.
func TestCommandThatLeavesAChildBehind(t *testing.T) {
	for _, where := range []string{"here", "away"} {
		file := filepath.Join(t.TempDir(), "pid")
		begin := time.Now()
		if err := command(t, "leave", file, where, "hang").Send(bounded(t), make([]byte, 1<<20)); err != nil {
			t.Errorf("%s: %v", where, err)
		}
		text, err := os.ReadFile(file)
		pid, _ := strconv.Atoi(string(text))
		if err != nil || !alive(pid) {
			t.Errorf("%s: %v: the child that was left behind is gone", where, err)
			continue
		}
		if took := time.Since(begin); took > 50*time.Second {
			t.Errorf("%s: it took %s", where, took)
		}
		_ = syscall.Kill(pid, syscall.SIGKILL) // it sleeps for an hour, so its pid has not been reused
	}
}

// TestCommandThatHangsIsEndedWithItsGroup: at the deadline the whole group is killed, including a process that
// ignores SIGTERM.
func TestCommandThatHangsIsEndedWithItsGroup(t *testing.T) {
	for _, how := range []string{"hang", "deaf"} {
		file := filepath.Join(t.TempDir(), "pid")
		ctx, pid := until(t, file)
		if err := command(t, "leave", file, "stay", how).Send(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		for p, n := pid(), 0; alive(p); n++ {
			if n > 5000 {
				t.Fatalf("%s: process %d lives", how, p)
			}
			time.Sleep(time.Millisecond)
		}
	}
}
