package proc

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestProcessWithoutItsMainThreadLives(t *testing.T) {
	c := start(t, "threads")
	watchZombieLeader(t, c.pid())
	id := inspectChild(t, c)
	if got := Check(id); got != Alive {
		t.Fatalf("main thread ended, others work: %v, want alive", got)
	}
	c.kill()
	eventually(t, id, Gone)
}

// watchZombieLeader waits until /proc shows the leader as zombie; without that state the test above is meaningless.
func watchZombieLeader(t *testing.T, pid int) {
	t.Helper()
	for t.Context().Err() == nil {
		text, err := readSmall("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			t.Fatal(err)
		}
		if st, err := parseStat(text); err == nil && st.state == 'Z' {
			return
		}
	}
}

// asked lets an unprivileged process inspect this process.
func asked(t *testing.T, role string, flags uintptr) (state, fault string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to become somebody else")
	}
	id, err := Inspect(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	target, _ := json.Marshal(id)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PROC_ROLE="+role, "PROC_TARGET="+string(target))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	out, err := cmd.CombinedOutput()
	if err != nil || bytes.HasPrefix(out, []byte("skip")) {
		t.Skipf("%s %v", out, err)
	}
	state, fault, _ = strings.Cut(strings.TrimSpace(string(out)), "|")
	return state, fault
}

func TestForeignProcess(t *testing.T) {
	if state, fault := asked(t, "nobody", 0); state != "alive" || fault != "<nil>" {
		t.Fatalf("state %s, Inspect: %s", state, fault)
	}
}

func TestHiddenProcessIsNotGone(t *testing.T) {
	state, fault := asked(t, "hidden", syscall.CLONE_NEWNS)
	if state != "unknown" || !strings.Contains(fault, "no such file") || strings.Contains(fault, "no such process") {
		t.Fatalf("under hidepid: state %s, Inspect: %s", state, fault)
	}
}

func FuzzParseStat(f *testing.F) {
	self, _ := os.ReadFile("/proc/self/stat")
	f.Add(self)
	tail := " S 1 2 3 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 9 0 4711 0 0"
	for _, name := range []string{"sh", "a b", ") Z 1 (", "x)\n1 (y) R 0", ""} {
		f.Add([]byte("12 (" + name + ")" + tail))
	}
	f.Add([]byte("12 (sh) S 1"))
	f.Add([]byte(")"))
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, text []byte) {
		st, err := parseStat(text)
		if err != nil {
			return
		}
		if again, err := parseStat(append([]byte("1 (x) Z 0 ("), text...)); err != nil || again != st {
			t.Fatalf("what stands before the last parenthesis changed the answer: %+v, %+v, %v", st, again, err)
		}
	})
}

func TestParseStat(t *testing.T) {
	got, err := parseStat([]byte("12 (x) Z 9 (y) S 1 2 3 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 9 0 4711 0 0\n"))
	if want := (stat{state: 'S', threads: 9, start: 4711}); err != nil || got != want {
		t.Fatalf("got %+v, %v; want %+v", got, err, want)
	}
	for _, bad := range []string{"", "12 (x", "12 (x) S 1 2 3", "12 (x) SS" + strings.Repeat(" 1", 30), "12 (x) S" + strings.Repeat(" x", 30)} {
		if _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}
