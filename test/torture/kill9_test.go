package torture

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/test/rig"

	"github.com/livhana/steward/escalate"
)

// quickRules are the document's rules with delays that a test can wait for.
const quickRules = `
[supervisor]
look_every = "200ms"
[escalate]
channels = []
[capacity]
calm = "100ms"
[tasks]
settle = "300ms"
retries_per_hour = 100000
[[retry]]
code = "FILE_NOT_FOUND"
action = "retry"
attempts = 2
delay = "200ms"
then = "dead"
[[retry]]
code = "TIMEOUT"
action = "retry"
attempts = 2
delay = "100ms"
then = "dead"
[[retry]]
code = "CAPACITY_EXCEEDED"
action = "defer"
attempts = 3
delay = "300ms"
then = "alert"
`

// tortureRules look less often: on a full machine three looks of 200 ms go by unlooked, which counts as a sleep, after which
// overdue retries are let out one by one.
var tortureRules = strings.Replace(quickRules, `"200ms"`, `"2s"`, 1)

// script is what a task does at each attempt, and how it must end.
type script struct {
	outcomes []string
	final    string // the result's status
	state    string // steward's verdict
	runs     int
}

var tortures = []script{
	{[]string{"completed"}, "completed", "done", 1},
	{[]string{"FILE_NOT_FOUND", "completed"}, "completed", "done", 2},
	{[]string{"FILE_NOT_FOUND"}, "failed", "dead", 2},
	{[]string{"deferred", "completed"}, "completed", "done", 2},
	{[]string{"GIT_CONFLICT:fatal"}, "failed", "failed", 1},
	{[]string{"timeout", "completed"}, "completed", "done", 2},
}

// torture is a daemon that is killed again and again while two clients of different manners work.
type torture struct {
	*rig.Rig
	projects []string
	scripts  map[string]script // by project/id
	verdict  verdict
	// tend looks after the daemon while the test waits; nil: it is left alone.
	tend func()
}

type verdict struct{ kills, tasks, runs, held, over, lost, repeated int }

func TestTortureKill9(t *testing.T) {
	t.Parallel()
	kills := 40
	if os.Getenv("STEWARD_LONG") == "1" {
		kills = 2000
	}
	x := &torture{Rig: rig.New(t, tortureRules), projects: []string{"literal", "naming"}, scripts: map[string]script{}}
	for _, manner := range x.projects {
		x.Boot(manner)
		x.brand(manner)
		codex := x.Command("codex", "-manner", manner, "-project", x.At(manner), "-poll", "250ms", "-for", "24h")
		codex.Dir, codex.Stdout, codex.Stderr = x.At(manner), io.Discard, io.Discard
		x.Spawn(codex)
	}
	x.verdict.kills = kills
	for n := range kills {
		x.murder(n)
	}
	x.roominess(0.95)
	x.Start(x.projects...)
	x.rest()
	x.judge()
	v := x.verdict
	switch { // on a machine that others fill, the clients are quicker than steward for as long as few are killed
	case v.held == 0 && kills > 40:
		t.Error("nothing was ever held: the test has proved less than it says")
	case v.held == 0:
		t.Log("nothing was ever held: the machine is too full")
	}
	t.Logf("kills %d, tasks %d, runs %d, holds %d, over limit %d, lost %d, repeated alerts %d", v.kills, v.tasks, v.runs, v.held, v.over, v.lost, v.repeated)
}

const brand = `"fleet": {"owner":"ops","odd":1.0}`

// brand puts another program's keys into the registry.
func (x *torture) brand(project string) {
	file := x.At(project, "tmp/agent_status/shared/agent_registry.json")
	data, err := os.ReadFile(file)
	if err != nil {
		x.Fatal(err)
	}
	text := strings.Replace(string(data), `"agents": {`, brand+`, "agents": {`, 1)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		x.Fatal(err)
	}
}

// submit adds a task to each project. Every third asks for more room than there is at times.
func (x *torture) submit(n int) {
	throttle := 1.0
	if n%3 == 0 {
		throttle = 0.8
	}
	for i, project := range x.projects {
		s := tortures[(n+i)%len(tortures)]
		id := rig.TaskID(n)
		x.scripts[project+"/"+id] = s
		x.Put(x.Task(project, id, ".request.json"), rig.RequestOf(id, throttle, s.outcomes...))
		x.verdict.tasks++
	}
}

// roominess sets what the agents say of their free capacity.
func (x *torture) roominess(free float64) {
	for _, project := range x.projects {
		x.Write(filepath.Join(project, "free"), fmt.Sprint(free))
	}
}

// murder starts a daemon and kills it. Every other one is killed some time after it began to serve, and finds its tasks
// coming; the rest die some time after their start, and find them there.
func (x *torture) murder(n int) {
	x.roominess([]float64{0.1, 0.95}[n/4%2]) // free; 0.1 is over the document's threshold of 0.8 used
	serving := n%2 == 0
	if !serving {
		x.submit(n)
	}
	p := x.Run(x.projects...)
	if serving {
		x.Until("the daemon listens", func() bool {
			conn, err := net.Dial("unix", x.Socket)
			if err == nil {
				conn.Close()
			}
			return err == nil || !p.Alive()
		})
		x.submit(n)
	}
	x.Pause(50*time.Millisecond + rand.N(350*time.Millisecond))
	if !p.Alive() {
		x.Fatalf("kill %d: the daemon had ended by itself", n)
	}
	p.Kill()
}

// awaits is until, and tends the daemon meanwhile.
func (x *torture) awaits(what string, ok func() bool) {
	x.Helper()
	x.Until(what, func() bool {
		if x.tend != nil {
			x.tend()
		}
		return ok()
	})
}

// rest waits until every task is at its end, as the files say. On a machine that others fill, the operator releases tasks.
func (x *torture) rest() {
	patient := time.Now().Add(rig.Patience / 2)
	for open := x.open(); open > 0; { // as long as it goes on, it may take its time
		last := open
		x.awaits(fmt.Sprintf("one more of %d open tasks has come to its end", open), func() bool {
			if time.Now().After(patient) {
				x.letAllGo()
			}
			open = x.open()
			return open < last
		})
	}
	x.awaits("steward sees no open task", func() bool {
		p, err := x.Status()
		open := 0
		for _, task := range p.Tasks {
			if s := x.scripts[task.Project+"/"+task.ID]; task.State != s.state {
				open++
			}
		}
		return err == nil && open == 0
	})
	// What it sees stands on its page before the incident is on disk, and an incident that could not be written is written
	// half a minute later. One that never comes is the judge's.
	for patient := time.Now().Add(2 * rig.Patience); !x.called() && time.Now().Before(patient); x.Pause(20 * time.Millisecond) {
		if x.tend != nil {
			x.tend()
		}
	}
}

// open counts the tasks that have not come to their end.
func (x *torture) open() (n int) {
	for key, s := range x.scripts {
		project, id, _ := strings.Cut(key, "/")
		if !x.over(project, id, s) {
			n++
		}
	}
	return n
}

// letAllGo is the operator's hand for everything that is held.
func (x *torture) letAllGo() {
	for key := range x.scripts {
		project, id, _ := strings.Cut(key, "/")
		if rig.There(x.Task(project, id, ".request.json.held")) {
			_ = x.Command("steward", "release", project+":task/"+id).Run()
		}
	}
}

// over reports whether a task's files are as its script ends.
func (x *torture) over(project, id string, s script) bool {
	return rig.Reads(x.Task(project, id, ".result.json"), `"status": "`+s.final+`"`) && rig.There(x.Task(project, id, ".request.json")) &&
		!rig.There(x.Task(project, id, ".request.json.held")) && !rig.There(x.Task(project, id, ".deferred.json")) &&
		rig.There(x.Attempts(project, fmt.Sprintf("%s.%d.result.json", id, s.runs-1))) == (s.runs > 1) &&
		rig.There(x.Attempts(project, id+".dead.json")) == (s.state == "dead")
}

// judge holds what lies on disk against what was promised.
func (x *torture) judge() {
	runs := map[string]int{}
	for _, project := range x.projects {
		data, _ := os.ReadFile(x.At(project, "runs.log"))
		for line := range strings.Lines(string(data)) {
			id, _, _ := strings.Cut(line, " ")
			runs[project+"/"+id]++
			x.verdict.runs++
		}
		if !rig.Reads(x.At(project, "tmp/agent_status/shared/agent_registry.json"), regexp.QuoteMeta(brand)) {
			x.Errorf("%s: a foreign key of the registry is gone or was rewritten", project)
		}
		left, _ := filepath.Glob(x.At(project, "tmp/agent_status/codex_tasks/*"))
		for _, file := range left {
			if strings.HasSuffix(file, ".held") || strings.HasSuffix(file, ".deferred.json") {
				x.Errorf("left behind: %s", file)
			}
		}
		x.judgeLog(project)
	}
	for key, s := range x.scripts {
		project, id, _ := strings.Cut(key, "/")
		x.judgeTask(project, id, s, runs[key])
	}
	x.judgeIncidents()
}

func (x *torture) judgeTask(project, id string, s script, runs int) {
	if !rig.Reads(x.Task(project, id, ".result.json"), `"status": "`+s.final+`"`) || !rig.There(x.Task(project, id, ".request.json")) {
		x.verdict.lost++
		x.Errorf("%s/%s: lost: its request is there: %v; its result should be %s", project, id, rig.There(x.Task(project, id, ".request.json")), s.final)
	}
	if dead := rig.There(x.Attempts(project, id+".dead.json")); dead != (s.state == "dead") {
		x.Errorf("%s/%s: dead letter: %v, want %v", project, id, dead, !dead)
	}
	twice := false
	taken, _ := filepath.Glob(x.Attempts(project, id+".*.sched.json"))
	for _, file := range taken {
		twice = twice || rig.Reads(file, `"may_have_run_twice": *true`)
	}
	if runs > s.runs && !twice || runs > s.runs+1 {
		x.verdict.over++
		x.Errorf("%s/%s: ran %d times, the rules allow %d\n%s", project, id, runs, s.runs, x.story(project, id))
	}
	if runs < s.runs {
		x.Errorf("%s/%s: ran %d times, its script has %d", project, id, runs, s.runs)
	}
	if !twice && len(taken) != s.runs-1 {
		x.Errorf("%s/%s: issued again %d times, want %d", project, id, len(taken), s.runs-1)
	}
}

// story is everything that is known of a task: its ledger, and the lines about it in both logs.
func (x *torture) story(project, id string) string {
	var b strings.Builder
	files, _ := filepath.Glob(x.Attempts(project, id+".*"))
	for _, file := range files {
		data, _ := os.ReadFile(file)
		fmt.Fprintf(&b, "%s: %s\n", filepath.Base(file), data)
	}
	for _, file := range []string{x.Logs.Name(), x.At(project, "tmp/agent_status/shared/coordination_log.jsonl")} {
		data, _ := os.ReadFile(file)
		for line := range strings.Lines(string(data)) {
			if strings.Contains(line, id) {
				b.WriteString(line)
			}
		}
	}
	return b.String()
}

// once lists the life events that a task has once.
var once = []string{"task_created", "task_started", "task_completed", "task_failed", "task_dead"}

func (x *torture) judgeLog(project string) {
	data, _ := os.ReadFile(x.At(project, "tmp/agent_status/shared/coordination_log.jsonl"))
	count := map[string]int{}
	for line := range bytes.Lines(data) {
		var l struct {
			Event string `json:"event_type"`
			Task  string `json:"task_id"`
		}
		if err := json.Unmarshal(line, &l); err != nil {
			x.Errorf("%s: torn log line: %q", project, line)
		}
		count[l.Event+" "+l.Task]++
		if l.Event == "task_deferred" {
			x.verdict.held++
		}
	}
	for _, event := range once {
		for n := range x.verdict.kills {
			if c := count[event+" "+rig.TaskID(n)]; c > 1 {
				x.Errorf("%s: %d lines %s for %s", project, c, event, rig.TaskID(n))
			}
		}
	}
}

// eachIncident reads all that the human was told; broken hears of what cannot be read.
func (x *torture) eachIncident(see func(i escalate.Incident, task string), broken func(file string, err error)) {
	files, _ := filepath.Glob(filepath.Join(x.State, "incidents", "*.json"))
	for _, file := range files {
		data, _ := os.ReadFile(file)
		var i escalate.Incident
		if err := json.Unmarshal(data, &i); err != nil {
			broken(file, err)
			continue
		}
		_, id, _ := strings.Cut(i.About, ":")
		see(i, i.Project+"/"+strings.TrimPrefix(id, "task/"))
	}
}

// called reports whether each failure has called.
func (x *torture) called() bool {
	calls := map[string]bool{}
	x.eachIncident(func(_ escalate.Incident, task string) { calls[task] = true }, func(string, error) {})
	for key, s := range x.scripts {
		if s.final == "failed" && !calls[key] {
			return false
		}
	}
	return true
}

// judgeIncidents checks that each failure called once, twice at most, and nothing else did.
func (x *torture) judgeIncidents() {
	calls := map[string]int{}
	x.eachIncident(func(i escalate.Incident, task string) {
		calls[task] += i.Count
		x.verdict.repeated += i.Count - 1
		if i.Count > 2 {
			x.Errorf("incident %s (%s) was raised %d times", i.Key, i.Summary, i.Count)
		}
	}, func(file string, err error) { x.Errorf("incident %s: %v", file, err) })
	for key, s := range x.scripts {
		if (calls[key] > 0) != (s.final == "failed") {
			x.Errorf("%s should end %s; its incidents count %d", key, s.final, calls[key])
		}
	}
}
