//go:build linux

package torture

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/livhana/steward/test/rig"
)

// TestWorkerPairings: each side of protocol 000 once ours and once a program that knows only the document, with and
// without a daemon: every task is executed once, each side can read what the other wrote, and no heartbeat is lost.
func TestWorkerPairings(t *testing.T) {
	if out, err := exec.Command("python3", "-c", "import json").CombinedOutput(); err != nil {
		t.Skipf("python3 is needed: %v %s", err, out)
	}
	for _, daemon := range []bool{true, false} {
		for _, asks := range []string{"steward", "python"} {
			for _, works := range []string{"steward", "python"} {
				t.Run(fmt.Sprintf("%s asks, %s works, daemon %v", asks, works, daemon), func(t *testing.T) {
					t.Parallel()
					x := &pair{Rig: rig.New(t, workerRules), asks: asks, works: works}
					x.play(daemon)
				})
			}
		}
	}
}

const pairTasks = 5

type pair struct {
	*rig.Rig
	asks, works string
	script      string
	lastBeat    string // the Python executor's, as it wrote it
}

func (x *pair) play(daemon bool) {
	x.Boot("p")
	x.script = writeScript(x.Rig, "p", "work.sh", `echo "$1" >> runs`)
	if daemon {
		x.Start("p")
	}
	stop := x.begin()
	var ids []string
	for n := range pairTasks {
		ids = append(ids, rig.TaskID(n+1))
	}
	if x.asks == "python" {
		x.pollerAsks(ids)
	} else {
		x.stewardAsks(ids)
	}
	if daemon {
		x.Shows(`"codex-cursor"[^}]*"state": *"alive"`)
	}
	stop()
	if !daemon {
		x.Start("p") // which judges afterwards what was written without it
	}
	x.judge(ids)
}

// poller is one of the two programs of the document.
func (x *pair) poller(name string, args ...string) *exec.Cmd {
	program, err := filepath.Abs(filepath.Join("testdata/pollers", name))
	if err != nil {
		x.Fatal(err)
	}
	return x.Command("python3", append([]string{program, x.At("p"), "--poll", "0.2"}, args...)...)
}

// begin starts the executor, and gives what ends it.
func (x *pair) begin() (stop func()) {
	if x.works == "steward" {
		p := x.Spawn(workerCommand(x.Rig, "p"))
		return func() {
			_ = p.Process.Signal(os.Interrupt)
			<-p.Ended
		}
	}
	c := x.poller("executor.py")
	var out strings.Builder
	c.Stdout, c.Stderr = &out, x.Logs
	in, err := c.StdinPipe()
	if err != nil {
		x.Fatal(err)
	}
	p := x.Spawn(c)
	return func() {
		in.Close()
		<-p.Ended
		x.lastBeat = out.String()
	}
}

// stewardAsks submits all tasks at once, each with a wait of its own.
func (x *pair) stewardAsks(ids []string) {
	var all sync.WaitGroup
	for _, id := range ids {
		all.Go(func() {
			out, code := output(x, x.Command("steward", "task", "submit", "execute", "--project", "p", "--id", id, "--wait", "-o", "json", "--", x.script, id))
			var p resultPage
			if err := json.Unmarshal([]byte(out), &p); err != nil || code != 0 || p.TaskID != id || p.Status != "completed" {
				x.Errorf("submit --wait of %s: exit %d, %v: %s", id, code, err, out)
			}
		})
	}
	all.Wait()
}

// pollerAsks has the orchestrator of the document ask, and judge the results by the document's schema.
func (x *pair) pollerAsks(ids []string) {
	c := x.poller("orchestrator.py", append([]string{"--wait", fmt.Sprint(workPatience.Seconds()), x.script}, ids...)...)
	out, code := output(x, c)
	var report struct {
		Tasks map[string]struct {
			Status   string
			Breaches []string
		}
		Pulse struct {
			Reads, Missing, Torn, Backwards int
			Names                           []string
		}
		LastBeat string `json:"last_beat"`
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != 0 {
		x.Fatalf("the orchestrator ended with %d: %v: %s", code, err, out)
	}
	for _, id := range ids {
		if r := report.Tasks[id]; r.Status != "completed" || len(r.Breaches) > 0 {
			x.Errorf("%s: the orchestrator got %q, with breaches of the schema: %q", id, r.Status, r.Breaches)
		}
	}
	// A program that writes in place shows half a heartbeat at times, as the document's own code does; ours never.
	p := report.Pulse
	if p.Missing > 0 || p.Backwards > 0 || p.Torn > 0 && x.works == "steward" || !slices.Equal(p.Names, []string{rig.Codex}) || p.Reads == 0 {
		x.Errorf("what the executor's heartbeat has shown: %+v", p)
	}
	if !rig.Reads(x.At("p/tmp/agent_status/livhana_status/heartbeat.json"), `"last_heartbeat": "`+report.LastBeat+`"`) {
		x.Error("the orchestrator's last heartbeat is not in its place")
	}
}

// judge holds what lies there against what was promised.
func (x *pair) judge(ids []string) {
	got := linesOf(x.Rig, "p", "runs")
	slices.Sort(got)
	if !slices.Equal(got, ids) {
		x.Errorf("executed: %q, want each of %q once", got, ids)
	}
	for _, id := range ids {
		if p := endsAs(x.Rig, "p", id, "completed"); p.TaskID != id || !p.Result.Success || p.Source != rig.Codex {
			x.Errorf("result of %s: %+v", id, p)
		}
		if text := x.Steward("task", "show", id, "--project", "p"); !strings.Contains(text, "completed") {
			x.Errorf("task show %s: %s", id, text)
		}
	}
	x.judgeBeat()
	x.Until("steward has judged all of it", func() bool {
		s, err := x.Status()
		done := 0
		for _, id := range ids {
			if s.State("p", id) == "done" {
				done++
			}
		}
		return err == nil && done == len(ids)
	})
	s, _ := x.Status()
	for _, project := range s.Projects {
		for _, f := range project.Findings {
			x.Errorf("finding: %+v", f)
		}
		for _, f := range project.Faults {
			x.Errorf("fault: %+v", f)
		}
	}
	if left, _ := filepath.Glob(x.At("p/tmp/agent_status/steward/claims/*.json")); len(left) > 0 {
		x.Errorf("claims are left: %q", left)
	}
	x.judgeLog(ids)
}

// judgeBeat: the heartbeat of the executor is the one that it wrote last, and not of an hour ago.
func (x *pair) judgeBeat() {
	file := x.At("p/tmp/agent_status/codex_status/heartbeat.json")
	data, _ := os.ReadFile(file)
	var beat, last struct {
		Name   string    `json:"agent_name"`
		Status string    `json:"status"`
		At     time.Time `json:"last_heartbeat"`
		Tasks  []string  `json:"active_tasks"`
	}
	if err := json.Unmarshal(data, &beat); err != nil || beat.Name != rig.Codex || beat.Status != "idle" || len(beat.Tasks) > 0 || time.Since(beat.At) > workPatience {
		x.Errorf("the executor's heartbeat: %v: %s", err, data)
	}
	if x.works == "python" {
		if err := json.Unmarshal([]byte(x.lastBeat), &last); err != nil || !last.At.Equal(beat.At) {
			x.Errorf("the executor's last heartbeat was %s (%v); there is %s", x.lastBeat, err, data)
		}
	}
}

// judgeLog: each event of a task is in the log once, whichever program wrote it.
func (x *pair) judgeLog(ids []string) {
	count := func(event, id string) (n int) {
		f, err := os.Open(x.At("p/tmp/agent_status/shared/coordination_log.jsonl"))
		if err != nil {
			x.Fatal(err)
		}
		defer f.Close()
		for d := json.NewDecoder(f); ; {
			var l struct {
				Event string `json:"event_type"`
				Task  string `json:"task_id"`
			}
			if err := d.Decode(&l); err == io.EOF {
				return n
			} else if err != nil {
				x.Fatalf("the coordination log: %v", err)
			}
			if l.Event == event && l.Task == id {
				n++
			}
		}
	}
	for _, id := range ids {
		// Steward adds what the pollers do not log, after a moment; what it comes too late for may be missing.
		least := func(ours bool) int {
			if ours {
				return 1
			}
			return 0
		}
		for event, ours := range map[string]bool{"task_created": x.asks == "steward", "task_started": x.works == "steward", "task_completed": x.works == "steward"} {
			if n := count(event, id); n > 1 || n < least(ours) {
				x.Errorf("%s of %s stands in the log %d times", event, id, n)
			}
		}
	}
}
