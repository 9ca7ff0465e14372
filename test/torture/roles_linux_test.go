package torture

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/test/rig"
)

// The agents of the example flow of protocol 001. A run notes its beginning with its attempt, holds a kernel lock on its
// task while it works, and notes its end.
const roleScript = `
prompt=$(cat)
attempt=$(printf '%s\n' "$prompt" | sed -n 's/^This is attempt \([0-9]*\).*/\1/p')
echo "begin $STEWARD_TASK_ID ${attempt:-1} $STEWARD_ROLE" >>runs
exec 9>"busy-$STEWARD_TASK_ID"
flock -n 9 || echo "overlap $STEWARD_TASK_ID" >>runs
sleep 0.$(( $$ % 4 ))
echo "end $STEWARD_TASK_ID ${attempt:-1} $STEWARD_ROLE" >>runs
case "$STEWARD_ROLE" in
planner) echo '{"status":"completed","spec":"specs/a.md","summary":"wrote it"}' ;;
builder) steward task done "$STEWARD_TASK_ID" --summary built ;;
reviewer) echo '{"status":"approved","summary":"it is good"}' ;;
esac
`

// The example flow of protocol 001, carried out by roles while the daemon, the roles' workers, the shims and the agents are
// killed at any moment: every request is completed, no task has two runs at once, and no attempt of a task runs twice.
func TestTortureRoles(t *testing.T) {
	if testing.Short() {
		t.Skip("short: this kills real daemons")
	}
	flows, kills, killed := rig.Long(2, 20), rig.Long(15, 30), 0
	r := rig.New(t, "")
	project := r.At("p")
	if err := os.Mkdir(project, 0o700); err != nil {
		t.Fatal(err)
	}
	r.Write("agent.sh", roleScript)
	config := "[supervisor]\nlook_every = \"200ms\"\n[escalate]\nchannels = []\n[capacity]\ndimensions = [\"agent\"]\n" +
		"[tasks]\npresume = \"1s\"\nmax_attempts = 100\nretries_per_hour = 10000\n" +
		"[keep]\nplace = \"session\"\nbackoff = \"10ms\"\nmax_backoff = \"50ms\"\nburst = 1000\nstop = \"1s\"\n[[project]]\npath = \"" + project + "\"\n"
	for _, code := range []string{"AGENT_LOST", "RECOVERABLE"} {
		config += "[[retry]]\ncode = \"" + code + "\"\nprotocol = \"handoffs\"\naction = \"retry\"\nattempts = 100\ndelay = \"100ms\"\nthen = \"alert\"\n"
	}
	config += fmt.Sprintf("[[role]]\nname = \"orchestrator\"\nproject = %q\n", project)
	for _, role := range []string{"planner", "builder", "reviewer", "fixer"} {
		config += fmt.Sprintf("[[role]]\nname = %q\nproject = %q\ncommand = [\"sh\", %q]\n", role, project, r.At("agent.sh"))
	}
	r.Write("config.toml", config)
	t.Cleanup(func() { endMarked(t, project) })
	r.Steward("boot", "orchestrator", "--protocol", "handoffs", "--project", project)

	daemon := startKeeping(r)
	completed := func(id string) bool {
		return rig.Reads(filepath.Join(project, ".claude/handoffs/completed", "handoff-"+id+".json"), ".")
	}
	for flow := range flows {
		id := fmt.Sprintf("flow-%d", flow)
		r.Steward("task", "submit", "--protocol", "handoffs", "--project", project, "--to", "orchestrator", "--id", id, "Do the thing")
		for n := 0; n < kills && !completed(id); n++ {
			time.Sleep(time.Duration(rand.IntN(200)) * time.Millisecond)
			if rand.IntN(4) == 0 {
				daemon.Kill()
				daemon = startKeeping(r)
			} else if killOneOf(t, project) {
				killed++
			}
		}
		r.Until("the flow "+id+" is completed", func() bool { return completed(id) })
	}
	begun := map[string]int{}
	for line := range strings.Lines(string(content(filepath.Join(project, "runs")))) {
		if strings.HasPrefix(line, "overlap") {
			t.Errorf("two runs at once: %s", line)
		}
		if strings.HasPrefix(line, "begin") {
			if begun[line]++; begun[line] == 2 {
				t.Errorf("an attempt that ran twice: %s", line)
			}
		}
	}
	t.Logf("%d runs of %d flows, %d processes killed", len(begun), flows, killed)
	if len(begun) < 3*flows {
		t.Errorf("%d runs are too few", len(begun))
	}
	if out, _ := exec.Command("pgrep", "-f", project+" --drain").Output(); len(out) > 0 {
		r.Until("nothing runs while nothing waits", func() bool {
			out, _ := exec.Command("pgrep", "-f", project+" --drain").Output()
			return len(out) == 0
		})
	}
}

// killOneOf kills a process of a role in the project, if one runs: a worker, a shim, or one that the shim started.
func killOneOf(t *testing.T, project string) bool {
	all, err := proc.Marked("STEWARD_PROJECT", project)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		return false
	}
	return syscall.Kill(all[rand.IntN(len(all))].PID, syscall.SIGKILL) == nil
}
