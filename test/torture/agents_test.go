//go:build linux

package torture

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/livhana/steward/test/rig"

	"github.com/livhana/steward/join/keep"
	"github.com/livhana/steward/platform/proc"
	"golang.org/x/sys/unix"
)

// Many kept agents under a real daemon that is killed at any moment, once in a while together with some of them: none is
// ever doubled, none is lost, and the next daemon takes them on at once. STEWARD_LONG=1: 100 agents, 20 kills.
func TestTortureKeptAgents(t *testing.T) {
	n, rounds := 20, 5
	if os.Getenv("STEWARD_LONG") != "" {
		n, rounds = 100, 20
	} else if testing.Short() {
		t.Skip("short: this kills real daemons")
	}
	r := rig.New(t, "")
	r.Boot("p")
	project := r.At("p")
	config := "[escalate]\nchannels = []\n[capacity]\ndimensions = [\"agent\"]\n[keep]\nplace = \"session\"\nbackoff = \"10ms\"\nmax_backoff = \"10ms\"\nburst = 1000\n" +
		"[[project]]\npath = \"" + project + "\"\n"
	var names []string
	for i := range n {
		name := fmt.Sprintf("agent-%03d", i)
		names = append(names, name)
		config += fmt.Sprintf("[[agent]]\nname = %q\nproject = %q\ncommand = [\"sleep\", \"900\"]\n", name, project)
	}
	r.Write("config.toml", config)
	t.Cleanup(func() { endMarked(t, project) })

	daemon := startKeeping(r)
	allOnce(r, project, names)
	before := lifeOf(r, project)
	for round := range rounds {
		victims := 0
		if round%2 == 1 { // some agents go together with the daemon
			victims = n / 5
			for _, name := range names[:victims] {
				_ = syscall.Kill(before[name], syscall.SIGKILL)
			}
			time.Sleep(time.Duration(round) * 300 * time.Microsecond)
		}
		daemon.Kill()
		noneTwice(r, project)
		daemon = startKeeping(r)
		allOnce(r, project, names)
		after := lifeOf(r, project)
		for _, name := range names[victims:] {
			if before[name] != after[name] {
				t.Errorf("round %d: %s was %d and is %d, and nobody touched it", round, name, before[name], after[name])
			}
		}
		before = after
	}
	tellAdoption(r, n)
}

// Killed while an agent is between its fork and its exec, where it bears no mark: the next daemon is not turned away,
// waits for it, and takes it on. The kernel lets the exec wait while the test has a lease on the program.
func TestKilledBetweenForkAndExec(t *testing.T) {
	r := rig.New(t, "")
	r.Boot("p")
	project, program := r.At("p"), r.At("agent.sh")
	r.Write("agent.sh", "#!/bin/sh\nexec sleep 900\n")
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	r.Write("config.toml", fmt.Sprintf("[escalate]\nchannels = []\n[capacity]\ndimensions = [\"agent\"]\n[keep]\nplace = \"session\"\n"+
		"[[project]]\npath = %q\n[[agent]]\nname = \"a\"\nproject = %q\ncommand = [%q]\n", project, project, program))
	t.Cleanup(func() { endMarked(t, project) })
	lease, err := os.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Close()
	if _, err := unix.FcntlInt(lease.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skip("skipped: no leases here: ", err)
	}
	daemon := r.Spawn(r.Command("steward", "run"))
	r.Until("the agent is forked", func() bool {
		asked, _ := unix.FcntlInt(lease.Fd(), unix.F_GETLEASE, 0)
		return asked != unix.F_WRLCK
	})
	daemon.Kill()
	next := r.Spawn(r.Command("steward", "run"))
	r.Pause(500 * time.Millisecond) // it looks for what its predecessor has left
	if !next.Alive() {
		t.Error("the next daemon was turned away")
	}
	lease.Close()
	r.Until("the next daemon answers", func() bool { return !next.Alive() || r.Answers() })
	allOnce(r, project, []string{"a"})
	r.Until("it is on record", func() bool {
		record, _ := filepath.Glob(filepath.Join(r.State, keep.Folder, "*.json"))
		return len(record) == 1 && regexp.MustCompile(fmt.Sprintf(`"pid": ?%d\b`, lifeOf(r, project)["a"])).Match(content(record[0]))
	})
	for range 10 {
		r.Pause(20 * time.Millisecond)
		allOnce(r, project, []string{"a"})
	}
}

func content(path string) []byte {
	data, _ := os.ReadFile(path)
	return data
}

// startKeeping is start for a daemon whose projects stand in the configuration.
func startKeeping(r *rig.Rig) *rig.Child {
	r.Helper()
	p := r.Spawn(r.Command("steward", "run"))
	r.Until("the daemon answers", func() bool { return !p.Alive() || r.Answers() })
	return p
}

// keptProcesses counts the living processes of each agent of a project.
func keptProcesses(t testing.TB, project string) map[string][]int {
	t.Helper()
	found, err := proc.Marked("STEWARD_PROJECT", project)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]int{}
	for _, p := range found {
		env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.PID))
		for entry := range bytes.SplitSeq(env, []byte{0}) {
			if name, ok := strings.CutPrefix(string(entry), "STEWARD_AGENT="); ok && proc.Check(p.Identity) != proc.Gone {
				all[name] = append(all[name], p.PID)
			}
		}
	}
	return all
}

func noneTwice(r *rig.Rig, project string) map[string][]int {
	r.Helper()
	all := keptProcesses(r, project)
	for name, pids := range all {
		if len(pids) > 1 {
			r.Fatalf("doubled: %s is %v", name, pids)
		}
	}
	return all
}

func allOnce(r *rig.Rig, project string, names []string) {
	r.Helper()
	r.Until("every agent lives", func() bool { return len(noneTwice(r, project)) == len(names) })
}

func lifeOf(r *rig.Rig, project string) map[string]int {
	r.Helper()
	one := map[string]int{}
	for name, pids := range noneTwice(r, project) {
		one[name] = pids[0]
	}
	return one
}

var lookedAt = regexp.MustCompile(`msg="agents looked at" agents=\d+ took=(\S+)`)

// tellAdoption prints what the daemons say of their adoptions; the first start adopts none.
func tellAdoption(r *rig.Rig, n int) {
	data, _ := os.ReadFile(r.Logs.Name())
	var took []time.Duration
	for _, m := range lookedAt.FindAllSubmatch(data, -1)[1:] {
		d, _ := time.ParseDuration(string(m[1]))
		took = append(took, d)
	}
	if len(took) == 0 {
		r.Fatal("no daemon said that it has looked at its agents")
	}
	slices.Sort(took)
	r.Logf("%d agents taken on %d times: p50 %v, most %v", n, len(took), took[len(took)/2], took[len(took)-1])
}

// endMarked ends what a test has left behind.
func endMarked(t testing.TB, project string) {
	for range 100 {
		found, err := proc.Marked("STEWARD_PROJECT", project)
		if err != nil || len(found) == 0 {
			return
		}
		for _, p := range found {
			_ = proc.Signal(p.Identity, "SIGKILL")
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Error("some agents would not end")
}

// A terminal belongs to the command alone: what is typed reaches it, an interrupt ends it and not its registration, and a
// stop and a continue go to both.
func TestExecLeavesTheTerminalToTheCommand(t *testing.T) {
	if _, err := exec.LookPath("script"); err != nil {
		t.Skip("skipped: script(1) is missing")
	}
	r := rig.New(t, "[capacity]\ndimensions = [\"agent\"]\n[keep]\nstop = \"200ms\"\n")
	if err := os.MkdirAll(r.At("p"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.Write("tui.sh", `trap 'echo interrupted; exit 3' INT
test -t 0 && test -t 1 && echo a terminal $(ps -o tpgid= -o pgid= -p $$ | awk '{print ($1==$2)}')
read line; echo got $line
while :; do sleep 0.05; done
`)
	c := r.Command("script", "-qefc", "trap : INT; steward exec --project p --agent tui -- sh tui.sh; echo code=$?", filepath.Join(r.Dir, "typescript"))
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Spawn(c)
	says := func(what string) {
		r.Until(what, func() bool {
			data, _ := os.ReadFile(r.At("typescript"))
			return strings.Contains(string(data), what)
		})
	}
	says("a terminal 1")
	fmt.Fprintln(in, "typed words")
	says("got typed words")
	_, _ = in.Write([]byte{3}) // ^C
	says("interrupted")
	says("code=3")
	registry, _ := os.ReadFile(r.At("p/tmp/agent_status/shared/agent_registry.json"))
	if !regexp.MustCompile(`"tui": \{[^}]*"status": "idle"`).Match(registry) {
		t.Errorf("the user's own interrupt is taken for a failure: %s", registry)
	}
}
