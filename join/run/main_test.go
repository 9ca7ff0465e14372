package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/platform/proc"
)

// patience bounds what a test waits for on a busy machine; no test passes by waiting that long.
const patience = 60 * time.Second

// The test binary also plays the shim and a worker: RUN_ROLE selects the role.
func TestMain(m *testing.M) {
	switch os.Getenv("RUN_ROLE") {
	case "":
		os.Exit(m.Run())
	case "shim":
		if err := Shim(os.Stdin, os.Stdout, time.Now); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "worker":
		playWorker()
	default:
		playOnLinux(os.Getenv("RUN_ROLE"))
	}
}

// playWorker runs the Spec in RUN_SPEC, prints the shim's PID, and then the outcome.
func playWorker() {
	var s Spec
	if err := json.Unmarshal([]byte(os.Getenv("RUN_SPEC")), &s); err != nil {
		panic(err)
	}
	r, err := start(context.Background(), role("shim"), s, patience)
	if err != nil {
		panic(err)
	}
	fmt.Println(r.Shim().PID)
	how, err := r.Wait()
	text, _ := json.Marshal(how)
	fmt.Printf("%s\n%v\n", text, err)
}

func role(name string) *exec.Cmd {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "RUN_ROLE="+name, "GORACE=atexit_sleep_ms=0")
	return c
}

// script is a Spec for a shell, in its own folder.
func script(t testing.TB, text string) Spec {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := Spec{
		Argv: []string{"/bin/sh", "-c", text}, Dir: dir, Env: []string{"PATH=" + standardPath, "LC_ALL=C"},
		Grace: patience, Keep: 64 << 10, Mark: fmt.Sprintf("test-%d-%s", os.Getpid(), filepath.Base(filepath.Dir(dir))+filepath.Base(dir)),
	}
	t.Cleanup(func() { nothingLeft(t, s) })
	return s
}

// nothingLeft fails if a process of the run is left, found by its mark, or by its working folder where that is visible.
func nothingLeft(t testing.TB, s Spec) {
	t.Helper()
	left, err := proc.Marked(proc.MarkName, s.Mark)
	if err != nil {
		t.Error(err)
	}
	all, err := proc.Table()
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	for _, p := range all {
		if dir, err := proc.Cwd(p.PID); err == nil && strings.TrimSuffix(dir, " (deleted)") == s.Dir {
			left = append(left, p)
		}
	}
	for _, p := range left {
		t.Errorf("process %d (%s) is left of the run", p.PID, p.Name)
		proc.Terminate(context.Background(), p.Identity, 0)
	}
}

func begin(t testing.TB, s Spec) *Running {
	t.Helper()
	r, err := start(context.Background(), role("shim"), s, patience)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func finish(t testing.TB, s Spec) Ended {
	t.Helper()
	how, err := begin(t, s).Wait()
	if err != nil {
		t.Fatal(err)
	}
	if how.End.Before(how.Start) || how.Start.IsZero() {
		t.Errorf("from %v to %v", how.Start, how.End)
	}
	return how
}

// appears waits for a file with text, which a command writes when it has started.
func appears(t testing.TB, path string) string {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if text, err := os.ReadFile(path); err == nil && strings.HasSuffix(string(text), "\n") {
			return strings.TrimSpace(string(text))
		}
	}
	t.Fatalf("%s did not appear", path)
	return ""
}
