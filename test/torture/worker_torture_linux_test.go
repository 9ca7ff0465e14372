//go:build linux

package torture

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/test/rig"
)

// mill is a project whose tasks record each of their runs: its begin, its end, and whether another run of the same task
// was under way. The lock of a run is the kernel's, held by everything that the run has started.
type mill struct {
	*rig.Rig
	ids     []string
	workers []*rig.Child
	script  string
	kills   int
	busy    int // kills that fell into a run
}

func newMill(t *testing.T, config string) *mill {
	if _, err := exec.LookPath("flock"); err != nil {
		t.Skip("flock (util-linux) is needed")
	}
	m := &mill{Rig: rig.New(t, config)}
	m.Boot("p")
	for _, dir := range []string{"runs", "locks"} {
		if err := os.Mkdir(m.At("p", dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m.script = writeScript(m.Rig, "p", "work.sh", `exec 9> "locks/$1"
flock -n 9 || echo "$1 runs twice at the same time" >> overlaps
echo "begin $STEWARD_TASK_ID" >> "runs/$1"
sleep "$2"
echo "end $STEWARD_TASK_ID" >> "runs/$1"`)
	return m
}

// submit adds tasks of 10 to 50 ms, and now and then a long and urgent one, which would meet its own retry if it outlived
// its worker. No two have the same payload: a newer request with the same one would supersede the retries of the older.
func (m *mill) submit(n int) {
	for range n {
		id := rig.TaskID(len(m.ids) + 1)
		m.ids = append(m.ids, id)
		d := executeOf(id, m.script, id, fmt.Sprintf("0.%03d", 10+rand.N(41)))
		if len(m.ids)%24 == 3 {
			d["priority"] = "critical"
			with(d, "args", []string{id, "5"})
		}
		m.Put(m.Task("p", id, ".request.json"), d)
	}
}

// hire starts the workers.
func (m *mill) hire(n int) {
	for range n {
		m.workers = append(m.workers, m.Spawn(workerCommand(m.Rig, "p")))
	}
}

// murder kills a worker at a random moment, every other time one that has a task in hand, and puts another one in its
// place.
func (m *mill) murder() {
	m.Pause(50*time.Millisecond + rand.N(250*time.Millisecond))
	n := rand.N(len(m.workers))
	w := m.workers[n]
	if m.kills%2 == 0 {
		for deadline := time.Now().Add(2 * time.Second); !m.busyNow(w) && time.Now().Before(deadline); {
			m.Pause(time.Millisecond)
		}
		m.Pause(rand.N(40 * time.Millisecond))
	}
	if !w.Alive() {
		m.Fatalf("a worker had ended by itself: %v", w.ProcessState)
	}
	if m.busyNow(w) {
		m.busy++
	}
	w.Kill()
	m.kills++
	m.workers[n] = m.Spawn(workerCommand(m.Rig, "p"))
}

// busyNow reports whether a worker has a task in hand.
func (m *mill) busyNow(w *rig.Child) bool {
	claims, _ := filepath.Glob(m.At("p/tmp/agent_status/steward/claims/*.json"))
	for _, file := range claims {
		if rig.Reads(file, fmt.Sprintf(`"worker":\s*\{\s*"pid":\s*%d,`, w.Process.Pid)) {
			return true
		}
	}
	return false
}

// open counts the tasks that have not come to an end that stands.
func (m *mill) open(final func(resultPage) bool) (n int) {
	for _, id := range m.ids {
		data, err := os.ReadFile(m.Task("p", id, ".result.json"))
		var p resultPage
		if err != nil || json.Unmarshal(data, &p) != nil || !final(p) || !rig.There(m.Task("p", id, ".request.json")) {
			n++
		}
	}
	return n
}

// rest waits for the end of all tasks; as long as it goes on, it may take its time.
func (m *mill) rest(final func(resultPage) bool) {
	for open := m.open(final); open > 0; {
		last := open
		slowly(m.Rig, fmt.Sprintf("one more of %d open tasks has come to its end", last), func() bool {
			open = m.open(final)
			return open < last
		})
	}
	slowly(m.Rig, "no claim is left", func() bool {
		left, _ := filepath.Glob(m.At("p/tmp/agent_status/steward/claims/*.json"))
		return len(left) == 0
	})
	for _, w := range m.workers {
		if !w.Alive() {
			m.Errorf("a worker had ended by itself: %v", w.ProcessState)
		}
		_ = w.Process.Signal(os.Interrupt)
		<-w.Ended
	}
}

func completed(p resultPage) bool { return p.Status == "completed" }

// runs are how often a task was begun and ended.
func (m *mill) runs(id string) (begun, ended int) {
	data, _ := os.ReadFile(m.At("p/runs", id))
	return strings.Count(string(data), "begin "+id), strings.Count(string(data), "end "+id)
}

// lost counts the attempts of a task that are on record as lost with their worker.
func (m *mill) lost(id string) (n int) {
	files, _ := filepath.Glob(m.Attempts("p", id+".*.result.json"))
	for _, file := range append(files, m.Task("p", id, ".result.json")) {
		if rig.Reads(file, `"code": *"AGENT_LOST"`) {
			n++
		}
	}
	return n
}

// judge holds what lies there against what was promised.
func (m *mill) judge() {
	again, lost := 0, 0
	for _, id := range m.ids {
		begun, ended := m.runs(id)
		gone := m.lost(id)
		lost += gone
		again += max(0, begun-1)
		p := readResult(m.Rig, "p", id)
		switch {
		case p.TaskID != id || p.Status != "completed" && p.code() != "AGENT_LOST":
			m.Errorf("%s ended %+v", id, p)
		case p.Status == "completed" && ended == 0:
			m.Errorf("%s is completed, and was never run to its end", id)
		}
		// A worker may die between its claim and the begin of the run, and between the end and the result.
		if begun > 1+gone {
			m.Errorf("%s was begun %d times; %d attempts are on record as lost", id, begun, gone)
		}
		if late, _ := filepath.Glob(m.Attempts("p", id+".*.late.json")); len(late) > 0 {
			m.Errorf("%s has results beside the one that stands: %q", id, late)
		}
	}
	if data, err := os.ReadFile(m.At("p/overlaps")); err == nil {
		m.Errorf("overlaps:\n%s", data)
	}
	for _, pattern := range []string{"codex_tasks/*.held", "codex_tasks/*.deferred.json", "codex_tasks/*.progress.json"} {
		if left, _ := filepath.Glob(m.At("p/tmp/agent_status", pattern)); len(left) > 0 {
			m.Errorf("left behind: %q", left)
		}
	}
	if results, _ := filepath.Glob(m.Task("p", "*", ".result.json")); len(results) != len(m.ids) {
		m.Errorf("%d results for %d tasks", len(results), len(m.ids))
	}
	if m.kills > 0 && (m.busy == 0 || lost == 0) {
		m.Errorf("of %d kills %d fell into a run, and %d attempts were lost: the test has proved less than it says", m.kills, m.busy, lost)
	}
	m.Logf("tasks %d, kills %d (%d of a worker with a task), attempts lost %d, begun again %d", len(m.ids), m.kills, m.busy, lost, again)
}

// TestWorkerTwoOfOneName: two workers serve one agent, and each task is executed once.
func TestWorkerTwoOfOneName(t *testing.T) {
	for name, daemon := range map[string]bool{"with a daemon": true, "alone": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMill(t, workerRules)
			m.submit(rig.Long(40, 500))
			if daemon {
				m.Start("p")
			}
			m.hire(2)
			m.rest(completed)
			m.judge()
			for _, id := range m.ids {
				if begun, ended := m.runs(id); begun != 1 || ended != 1 {
					t.Errorf("%s was begun %d times and ended %d times", id, begun, ended)
				}
			}
		})
	}
}

// TestWorkerTorture: two workers are killed again and again while they work, and a daemon reissues what is lost with
// them. Every task ends in one result, completed; none runs twice at a time, and twice at all only where an attempt is
// on record as lost.
func TestWorkerTorture(t *testing.T) {
	t.Parallel()
	m := newMill(t, workerRules)
	m.Start("p")
	m.hire(2)
	kills, tasks := rig.Long(8, 50), rig.Long(60, 500)
	for n := range kills {
		m.submit(tasks*(n+1)/kills - len(m.ids))
		m.murder()
	}
	m.rest(completed)
	m.judge()
}

// TestWorkerTortureAlone is the same without a daemon: nothing is reissued, so no task runs twice, and what a
// worker took with it is concluded by the others.
func TestWorkerTortureAlone(t *testing.T) {
	t.Parallel()
	m := newMill(t, workerRules)
	m.hire(2)
	kills, tasks := rig.Long(5, 30), rig.Long(40, 300)
	for n := range kills {
		m.submit(tasks*(n+1)/kills - len(m.ids))
		m.murder()
	}
	m.rest(func(p resultPage) bool { return p.Status != "" })
	m.judge()
}
