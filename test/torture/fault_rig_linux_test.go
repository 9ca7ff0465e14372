//go:build linux

package torture

import (
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/test/rig"

	"github.com/livhana/steward/escalate"
)

// ordeal is the real daemon over a real project folder with a real client at work while something is broken for them. At
// its end the same laws hold whatever it was: see laws.
type ordeal struct {
	*torture
	agent *rig.Child // the client, unless the test has one of its own
	next  int        // number of the next task
	given map[string]given
	// stays is the text of a fault that may remain.
	stays string
	// killed: steward died or was ended on the way, so one alert may have been repeated.
	killed bool
	// each: every thread of the daemon meets with the same error once, so one fault may come back and be told again.
	each bool
	// deaths are the agents that may be called dead: livhana never beats.
	deaths []string
}

// given is a foreign file with its original content.
type given struct {
	text string
	mode fs.FileMode
}

const ordealProject = "p"

// ordealRules hold tasks back for their agent's sake only: what else the machine does decides nothing. The heartbeat's
// limits are the usual ones, so that a loaded machine makes no agent late, unless a test is about silence.
const ordealRules = quickRules + `
[[retry]]
code = "LATER"
action = "retry"
attempts = 2
delay = "4s"
then = "dead"
`

// faultRules returns the ordeal's rules with further settings of [capacity] and [escalate], and further tables.
func faultRules(tables string) string {
	text := strings.Replace(ordealRules, "[capacity]\n", "[capacity]\ndimensions = [\"agent\"]\n", 1)
	return strings.Replace(text, "[escalate]\n", "[escalate]\nfault_after = \"1s\"\n", 1) + tables
}

func newOrdeal(t testing.TB, config string) *ordeal {
	t.Helper()
	return ordealIn(rig.New(t, config))
}

// ordealIn boots the project of a rig, in which a disk may be mounted already, and lays files that no program may touch.
func ordealIn(r *rig.Rig) *ordeal {
	r.Helper()
	x := &ordeal{torture: &torture{Rig: r, projects: []string{ordealProject}, scripts: map[string]script{}}, given: map[string]given{}, deaths: []string{"livhana-layer1.1"}}
	x.Boot(ordealProject)
	x.brand(ordealProject)
	x.lay("notes.md", "# ours\r\nno newline at the end", 0o640)
	x.lay("src/data.bin", "\x00\xff\xfe{", 0o755)
	x.lay("tmp/agent_status/codex_tasks/README", "{not json", 0o600)
	x.lay("tmp/agent_status/shared/roster.json", `{ "b":1,"a" : 1.0 }`, 0o644)
	x.roominess(0.95)
	return x
}

// lay writes a foreign file.
func (x *ordeal) lay(name, text string, mode fs.FileMode) {
	x.Helper()
	file := x.At(ordealProject, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		x.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		x.Fatal(err)
	}
	x.given[file] = given{text, mode}
}

// hire starts the client.
func (x *ordeal) hire() {
	x.Helper()
	codex := x.Command("codex", "-manner", "naming", "-project", x.At(ordealProject), "-poll", "100ms", "-for", "24h")
	codex.Dir, codex.Stdout, codex.Stderr = x.At(ordealProject), io.Discard, io.Discard
	x.agent = x.Spawn(codex)
	x.Until("the agent beats", func() bool { return rig.There(x.At(ordealProject, "tmp/agent_status/codex_status/heartbeat.json")) })
}

// order submits the given number of tasks, cycling through the scripts.
func (x *ordeal) order(count int) {
	x.Helper()
	for range count {
		x.submit(x.next)
		x.next++
	}
	x.verdict.kills = x.next // by which the judge numbers the tasks
}

// later submits a task whose second attempt comes four seconds after the first.
func (x *ordeal) later() (id string) {
	x.Helper()
	id = rig.TaskID(x.next)
	s := script{[]string{"LATER"}, "failed", "dead", 2}
	x.scripts[ordealProject+"/"+id] = s
	x.Put(x.Task(ordealProject, id, ".request.json"), rig.RequestOf(id, 1, s.outcomes...))
	x.next++
	x.verdict.tasks, x.verdict.kills = x.verdict.tasks+1, x.next
	return id
}

// filed reports whether the first attempt's result is on record, so that the retry waits for its time.
func (x *ordeal) filed(id string) bool {
	return rig.There(x.Attempts(ordealProject, id+".1.result.json"))
}

// traced starts a daemon under the tracer, and waits until it serves or has died of what is done to it.
func (x *ordeal) traced(strace, inject string) *rig.Child {
	x.Helper()
	calls, _, _ := strings.Cut(inject, ":")
	// -D: the daemon is the child itself and not its tracer's, so that it can be ended by its number.
	c := x.Command(strace, "-D", "-f", "-o", os.DevNull, "-e", "trace="+calls, "-e", "inject="+inject, "steward", "run", "--project", ordealProject)
	p := x.Spawn(c)
	x.Until("the daemon serves, or has died", func() bool { return !p.Alive() || x.Answers() })
	return p
}

// tracer finds strace, where it works.
func tracer(t *testing.T) string {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed")
	}
	if out, err := exec.Command(strace, "-f", "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		t.Skipf("strace does not work here: %s", out)
	}
	return strace
}

// laws waits for rest under the daemon that runs, and then holds everything against what was promised: every task at the
// one end that its script has, none run twice unless marked, no file torn, nothing of others changed, nobody who lives
// called dead, the human told once, and nothing left of the fault.
func (x *ordeal) laws() {
	x.Helper()
	x.rest()
	x.awaits("no fault is left", x.faultless)
	x.awaits("every result is on record", x.recorded)
	x.judge()
	x.whole(x.At(ordealProject, "tmp"))
	x.whole(x.State)
	x.untouched()
	x.nobodyDied()
	x.toldOnce()
}

// recorded reports whether every result that ended a task has its copy in the attempts. At rest no retry is to come.
func (x *ordeal) recorded() bool {
	results, _ := filepath.Glob(x.Task(ordealProject, "*", ".result.json"))
	for _, file := range results {
		id := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "task_"), ".result.json")
		if !rig.There(x.Attempts(ordealProject, id+".final.json")) {
			return false
		}
	}
	return true
}

func (x *ordeal) faultless() bool {
	s, err := x.Status()
	if err != nil || len(s.Projects) != 1 {
		return false
	}
	for _, f := range s.Projects[0].Faults {
		if x.stays == "" || !strings.Contains(f.Problem, x.stays) {
			return false
		}
	}
	return true
}

// whole finds torn files.
func (x *ordeal) whole(dir string) {
	x.Helper()
	x.walk(dir, func(file string, data []byte) {
		switch {
		case x.given[file].text != "":
		case strings.HasSuffix(file, ".json"), strings.HasSuffix(file, ".deferred"), strings.HasSuffix(file, ".held"):
			if !json.Valid(data) {
				x.Errorf("torn: %s: %q", file, data)
			}
		case strings.HasSuffix(file, ".jsonl"):
			for line := range bytes.Lines(data) {
				if !json.Valid(line) || line[len(line)-1] != '\n' {
					x.Errorf("torn: %s: %q", file, line)
				}
			}
		}
	})
}

// walk reads every file below a folder; what vanishes meanwhile is skipped.
func (x *ordeal) walk(dir string, see func(file string, data []byte)) {
	x.Helper()
	_ = filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(file)
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil {
			x.Errorf("%v", err)
		}
		see(file, data)
		return nil
	})
}

// untouched compares foreign files with their original content, and each task's request with the submitted one.
func (x *ordeal) untouched() {
	x.Helper()
	for file, g := range x.given {
		data, err := os.ReadFile(file)
		st, serr := os.Stat(file)
		if err != nil || serr != nil || string(data) != g.text || st.Mode().Perm() != g.mode {
			x.Errorf("%s was touched: %q, %v %v", file, data, err, serr)
		}
	}
	for key, s := range x.scripts {
		project, id, _ := strings.Cut(key, "/")
		if s.runs == 1 && !rig.Reads(x.Task(project, id, ".request.json"), `"timeout_seconds": 300\b`) {
			x.Errorf("the request of %s was changed though it was issued once", id)
		}
	}
}

// nobodyDied checks that no living agent was ever declared dead.
func (x *ordeal) nobodyDied() {
	x.Helper()
	for _, e := range readJournal(x.torture.Rig) {
		if e.State == "dead" && strings.Contains(e.Subject, ":agent/") && !slices.ContainsFunc(x.deaths, func(name string) bool { return strings.HasSuffix(e.Subject, name) }) {
			x.Errorf("%s was called dead, and lives: %s", e.Subject, e.Text)
		}
	}
}

// incidents are all incidents reported to the operator.
func (x *ordeal) incidents() []escalate.Incident {
	files, _ := filepath.Glob(filepath.Join(x.State, "incidents", "*.json"))
	var list []escalate.Incident
	for _, file := range files {
		var i escalate.Incident
		if data, err := os.ReadFile(file); err == nil && json.Unmarshal(data, &i) == nil {
			list = append(list, i)
		}
	}
	return list
}

// toldOnce: while steward lives, nothing is told twice, but for a fault that two threads met with one after the other. That
// each failed task was told of at all, and nothing more than twice, is the judge's.
func (x *ordeal) toldOnce() {
	x.Helper()
	for _, i := range x.incidents() {
		again := x.killed || x.each && strings.Contains(i.Summary+i.Detail, "input/output")
		if i.Count > 1 && !again {
			x.Errorf("told %d times of %s (%s)", i.Count, i.Key, i.Summary)
		}
	}
}

// toldOf reports whether an incident's text matches, whatever its present state.
func (x *ordeal) toldOf(pattern string) bool {
	return slices.ContainsFunc(x.incidents(), func(i escalate.Incident) bool { return rig.Found(i.Summary+"\n"+i.Detail, pattern) == nil })
}

// said reports whether the daemons' log matches.
func (x *ordeal) said(pattern string) bool { return rig.Reads(x.Logs.Name(), pattern) }

// shape is the end state of the project without what differs from run to run: which files there are, and what became of
// each task. Of the log, in which there is only what steward was there to see, the judge knows that nothing stands twice.
func (x *ordeal) shape() []string {
	var lines []string
	base := x.At(ordealProject, "tmp")
	x.walk(base, func(file string, data []byte) {
		name, _ := filepath.Rel(base, file)
		if strings.HasPrefix(filepath.Base(name), ".steward-") || strings.HasSuffix(name, ".tmp") {
			return // a draft that a crash left is swept after some minutes; the client makes some all the time
		}
		if name == "agent_status/steward/capacity.json" {
			return // published at a pace of its own: one that could not be written comes with the next
		}
		var d struct{ Status, Action, Rule, Code string }
		if strings.Contains(name, "task_") || strings.Contains(name, "attempts") {
			_ = json.Unmarshal(data, &d)
		}
		lines = append(lines, strings.TrimSpace(strings.Join([]string{name, d.Status, d.Action, d.Rule, d.Code}, " ")))
	})
	return lines
}

// openDescriptors counts the files that a process has open at rest: it opens some for a moment all the time.
func openDescriptors(p *rig.Child) int {
	fewest := 1 << 20
	for range 40 {
		list, _ := os.ReadDir("/proc/" + strconv.Itoa(p.Process.Pid) + "/fd")
		fewest = min(fewest, len(list))
		time.Sleep(10 * time.Millisecond)
	}
	return fewest
}

// pidText is a pid as text.
func pidText(p *rig.Child) string { return strconv.Itoa(p.Process.Pid) }

// enlist boots an agent whose process is on record.
func (x *ordeal) enlist(name string, p *rig.Child) {
	x.Helper()
	x.Steward("boot", name, "--protocol", "agentstatus", "--project", ordealProject, "--pid", pidText(p))
}
