package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"
)

// family starts a marked shell in its own session and waits until it is ready.
func family(t *testing.T, text string) (root Identity, mark string) {
	t.Helper()
	mark = fmt.Sprintf("%s-%d", t.Name(), os.Getpid())
	c := exec.Command("/bin/sh", "-c", text+"\necho ready; while :; do sleep 1000; done")
	c.Env = append(os.Environ(), MarkName+"="+mark)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		left, _ := descendants(root, mark, nil)
		for _, p := range left {
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
		}
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		_ = c.Wait()
	})
	if n, err := out.Read(make([]byte, 6)); n != 6 {
		t.Fatal(n, err)
	}
	if root, err = Inspect(c.Process.Pid); err != nil {
		t.Fatal(err)
	}
	return root, mark
}

// members waits until the tree has n processes.
func members(t *testing.T, root Identity, mark string, n int) {
	t.Helper()
	var found []Process
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if found, err = descendants(root, mark, nil); err == nil && len(found) == n {
			return
		}
	}
	t.Fatalf("%d of %d: %+v, %v", len(found), n, found, err)
}

func TestTreeFindsAllWays(t *testing.T) {
	// The members: the shell, its sleep, a marked orphan in its own session, and an unmarked orphan in the shell's
	// session.
	root, mark := family(t, `(setsid sleep 1000 >&- &); (env -i sleep 1000 >&- &)`)
	members(t, root, mark, 4)
	members(t, root, "", 3)
	members(t, Identity{}, mark, 4)
	if ended, left, err := EndTree(t.Context(), root, mark, patience); ended != 4 || left != 0 || err != nil {
		t.Errorf("got %d, %d, %v", ended, left, err)
	}
	members(t, root, mark, 0)
}

func TestEndTreeIsThorough(t *testing.T) {
	for name, text := range map[string]string{
		"deaf":                 `trap "" TERM; sleep 1000 >&- &`,
		"stopped":              `(setsid sh -c 'kill -STOP $$' >&- &)`,
		"forks while it ends":  `trap 'setsid sleep 1000 & setsid sleep 1000 & exit' TERM`,
		"answers, never stops": `trap 'sleep 1000 &' TERM`,
	} {
		t.Run(name, func(t *testing.T) {
			root, mark := family(t, text)
			if _, left, err := EndTree(t.Context(), root, mark, 200*time.Millisecond); left != 0 || err != nil {
				t.Errorf("left %d, %v", left, err)
			}
			members(t, root, mark, 0)
		})
	}
}

// TestEndTreeWithoutAMark: the root is gone after the first signal, and its orphaned children are ended too.
func TestEndTreeWithoutAMark(t *testing.T) {
	root, mark := family(t, `(trap "" TERM; exec setsid sleep 1000 >&-) & (trap "" TERM; exec sleep 1000 >&-) &`)
	members(t, root, mark, 4)
	if ended, left, err := EndTree(t.Context(), root, "", 300*time.Millisecond); ended != 4 || left != 0 || err != nil {
		t.Errorf("got %d, %d, %v", ended, left, err)
	}
	members(t, root, mark, 0)
}

func TestEndTreeSparesThisProcess(t *testing.T) {
	c := start(t, "quiet")
	defer c.reap()
	if ended, left, err := EndTree(t.Context(), inspectSelf(t), "", patience); ended != 1 || left != 0 || err != nil {
		t.Errorf("got %d, %d, %v", ended, left, err)
	}
}

// TestEndTreeSparesWhatALookerWithinHasStarted: a daemon that was started by hand from within an agent ends what is
// left of that agent, but none of its own processes.
func TestEndTreeSparesWhatALookerWithinHasStarted(t *testing.T) {
	root, mark := family(t, "")
	members(t, root, mark, 2) // the shell and its sleep
	start(t, "within", func(c *exec.Cmd) { c.Env = append(c.Env, MarkName+"="+mark) })
	members(t, root, mark, 1) // only the process that scans
}

func TestEndTreeSparesSuccessors(t *testing.T) {
	root, mark := family(t, "")
	for _, former := range []Identity{{}, {PID: root.PID}, {PID: root.PID, Start: root.Start - 1, Boot: root.Boot}, {PID: 1, Start: 1, Boot: root.Boot}} {
		if ended, left, err := EndTree(t.Context(), former, "another-"+mark, 0); ended != 0 || left != 0 || err != nil {
			t.Errorf("%+v: got %d, %d, %v", former, ended, left, err)
		}
	}
	members(t, root, mark, 2)
}

func TestEndTreeStopsWithItsContext(t *testing.T) {
	root, mark := family(t, `trap "" TERM`)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, left, err := EndTree(ctx, root, mark, patience); left < 1 || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %d, %v", left, err)
	}
	if _, left, err := EndTree(t.Context(), root, mark, 0); left != 0 || err != nil {
		t.Errorf("got %d, %v", left, err)
	}
}

func TestEntryInPieces(t *testing.T) {
	big := strings.Repeat("X=1234567", 2000)
	for text, want := range map[string]bool{
		"":                                     false,
		"A=1\x00":                              true,
		"A=1":                                  true,
		"B=2\x00A=1\x00C=3\x00":                true,
		"A=12\x00":                             false,
		"A=\x00A\x00=1\x00":                    false,
		"BA=1\x00":                             false,
		"B=A=1\x00":                            false,
		big + "\x00A=1\x00" + big + "\x00":     true,
		big + "A=1\x00" + big + "\x00A=11\x00": false,
	} {
		if got, empty := holdsEntry(strings.NewReader(text), "A=1"); got != want || empty != (text == "") {
			t.Errorf("%.20q: got %v, %v", text, got, empty)
		}
		if got, empty := holdsEntry(iotest.OneByteReader(strings.NewReader(text)), "A=1"); got != want || empty != (text == "") {
			t.Errorf("%.20q in single bytes: got %v, %v", text, got, empty)
		}
	}
}
