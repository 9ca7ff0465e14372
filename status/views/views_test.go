package views

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/livhana/steward/status/terminal"

	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/supervisor"
)

var update = flag.Bool("update", false, "write the golden files of testdata/view anew")

var noon = time.Date(2025, 10, 22, 12, 0, 0, 0, time.UTC)

func before(d time.Duration) time.Time { return noon.Add(-d) }

func at(t time.Time) *time.Time { return &t }

func pointer[T any](v T) *T { return &v }

const longID = "7c0e2f5a-3b1d-4f7e-9a51-5d1c8e7f2a10"

func sampleIncidents() []escalate.Incident {
	return []escalate.Incident{
		{Key: "3fa9c2d400000001", Severity: protocol.Critical, State: rules.Raised, Count: 3, First: before(time.Hour), Last: before(30 * time.Second),
			Content: escalate.Content{Blocking: true, Summary: "Critical error: Git conflict detected. Your input needed.",
				Detail: "services/billing/main.go:42: merge conflict with main", Project: "sot", About: "sot:task/" + longID, Agent: "codex-cursor",
				Options: []rules.Option{{ID: "retry", Label: "Run it again"}}},
			Origin:     escalate.Origin{Code: "GIT_CONFLICT"},
			Deliveries: []escalate.Delivery{{Channel: "desktop", Result: "shown", At: before(29 * time.Second), OK: true}}},
		{Key: "3fa9c2d4ffffffff", Severity: protocol.Medium, State: rules.Acked, Count: 1, First: before(26 * time.Hour), Last: before(26 * time.Hour),
			Closing: escalate.Closing{AckedUntil: noon.Add(time.Hour)},
			Content: escalate.Content{Summary: "The gate is shut for 10 minutes", Project: "sot", About: "machine/gate"}},
	}
}

func sampleTasks() []supervisor.TaskReport {
	return []supervisor.TaskReport{
		{Project: "sot", Protocol: "agentstatus", ID: longID, State: protocol.TaskRunning, Agent: "codex-cursor", Type: "deploy", Priority: protocol.PriorityHigh, Attempt: 2,
			Progress: &supervisor.ProgressReport{Percent: 40, Step: "push", At: before(5 * time.Second)}, Why: "codex-cursor names it in active_tasks"},
		{Project: "sot", Protocol: "agentstatus", ID: "t-2", State: protocol.TaskDeferred, Reason: protocol.ReasonCapacity, Agent: "codex-cursor", Type: "research", Attempt: 1,
			NotBefore: at(noon.Add(45 * time.Second)), Why: "memory is at 93 %, over the limit of 80 %; it waits until there is room, whatever else may happen meanwhile"},
		{Project: "sot", Protocol: "agentstatus", ID: "t-3", State: protocol.TaskDone, Agent: "codex-cursor", Attempt: 1, Why: "completed"},
		{Project: "sot", Protocol: "agentstatus", ID: "t-4", State: protocol.TaskDead, Agent: "codex-cursor", Attempt: 2, Why: "no attempt is left"},
	}
}

func sampleAgents() []supervisor.AgentReport {
	return []supervisor.AgentReport{
		{Project: "sot", Protocol: "agentstatus", Name: "codex-cursor", State: protocol.AgentAlive, LastBeat: at(before(3 * time.Second)), SilentSeconds: 3.1,
			Usage: &supervisor.UsageReport{Cores: pointer(0.44), Memory: 210 << 20, Processes: 3, Files: 990, FileLimit: 1024},
			PID:   pointer(4711), Status: "busy", Used: protocol.Used(0.2), Tasks: []string{longID}, Why: "it beats"},
		{Project: "sot", Protocol: "agentstatus", Name: "livhana-layer1.1", State: protocol.AgentDead, LastBeat: at(before(5 * time.Minute)), SilentSeconds: 300,
			Status: "active\x1b[31m", Error: "disk_ok is false", Why: "no heartbeat for 300 s and no other sign of life"},
		{Project: "sot", Protocol: "agentstatus", Name: "planner", State: protocol.AgentStarting},
	}
}

func sampleLoad() supervisor.LoadReport {
	return supervisor.LoadReport{Used: protocol.Used(0.41), Binding: "memory", CPU: protocol.Used(0.3), Memory: protocol.Used(0.41), Disk: protocol.Used(0.4), Unknown: []string{"files"}}
}

func sampleStatus() status.Document {
	fault := protocol.Fault{Path: "tmp/agent_status/shared/agent_registry.json", Problem: "it is not JSON: line 3,\x1b[2J column 7", Since: before(time.Minute)}
	finding := supervisor.FindingReport{Subject: "sot:task/t-2", Code: "schema", Field: "priority", Severity: protocol.Low, Text: "priority: \"urgent\" is none of low, medium, high, critical", Path: "tmp/agent_status/codex_tasks/task_t-2.request.json"}
	ways := []status.Channel{{Name: "desktop", OK: true, At: noon}, {Name: "speech", Problem: "speak: no voice is installed", At: noon}, {Name: "ntfy"}}
	return status.Document{Self: status.Self{Version: "1.2.3"}, Incidents: sampleIncidents(), Channels: ways, Report: supervisor.Report{
		Started: before(3 * time.Hour), LastLook: before(2 * time.Second), Looks: 1234, Load: sampleLoad(),
		Projects: []supervisor.ProjectReport{
			{Name: "sot", Path: "/home/jesse/LivHana-SoT", Protocols: []string{"agentstatus"}, Mode: map[string]string{"agentstatus": "act"},
				Faults: []protocol.Fault{fault}, Findings: []supervisor.FindingReport{finding, finding, finding, finding}},
			{Name: "site", Path: "/home/jesse/site", Protocols: []string{"agentstatus"}, Mode: map[string]string{"agentstatus": "observe"}, Notes: []string{"paused: I move files"}},
			{Name: "empty", Path: "/home/jesse/empty"},
		},
		Agents: sampleAgents(), Tasks: sampleTasks(),
		Locks: []supervisor.LockReport{{Project: "sot", Protocol: "ralph", Resource: "state", Holder: "ralph-1", State: protocol.LockStale, Expires: at(before(time.Minute))}},
		Done: []supervisor.Done{{At: before(12 * time.Second), Verb: "hold", Subject: "sot:task/t-2", Why: "memory is at 93 %, over the limit of 80 %"},
			{At: before(40 * time.Minute), Verb: "retry", Subject: "sot:task/" + longID, Why: "FILE_NOT_FOUND: rule code=FILE_NOT_FOUND"}},
	}}
}

func sampleJournal() []status.Entry {
	return []status.Entry{
		{At: before(26 * time.Hour), Kind: "verdict", Subject: "sot:agent/codex-cursor", State: "late", Text: "no heartbeat for 46 s"},
		{At: before(90 * time.Second), Kind: "change", Subject: "sot:agent/codex-cursor", Verb: "mark", Reason: "silent", Text: "no heartbeat for 91 s", Change: &status.Change{Status: "error"}},
		{At: before(80 * time.Second), Kind: "change", Subject: "sot:task/t-2", Verb: "release", Text: "there is room", Error: "the files changed since they were judged"},
		{At: before(70 * time.Second), Kind: "alert", Subject: "sot:agent/codex-cursor", Verb: "alert", Incident: "3fa9c2d400000001", Text: "codex-cursor is silent"},
		{At: before(60 * time.Second), Kind: "note", Subject: "machine/clock", Text: "woke up\x1b[2J after 3 h"},
	}
}

func sampleCapacity() status.Capacity {
	return status.Capacity{At: at(noon), Load: sampleLoad(), Threshold: 0.4, Running: 2,
		Cores: 4, MemoryBytes: 16 << 30, Because: map[string]string{"memory": "control group\x1b of this service"}, ExhaustedSeconds: 25,
		Promised: supervisor.Promised{CPU: protocol.Used(0.55), Memory: protocol.Used(0.41)},
		Claims: []supervisor.ClaimReport{{Subject: "sot:task/t-1", Since: before(2 * time.Minute), Taken: at(before(time.Minute)), Cores: 0.4, MemoryBytes: 700 << 20, Learnt: true, MeasuredCores: pointer(0.3), MeasuredMemory: pointer(uint64(90 << 20))},
			{Subject: "sot:task/t-3", Since: before(3 * time.Second), Cores: 1, MemoryBytes: 1 << 30}},
		Consumers: []protocol.Consumer{{PID: 4711, Name: "node", CPU: 1.54, Memory: 2 << 30, Agent: "codex-cursor"}, {PID: 12, Name: "rust\x07c", CPU: 0.5, Memory: 300 << 20, Files: 120}},
		Gates:     []status.Gate{{Dimension: "memory", Since: before(5 * time.Minute), Waiting: 1}, {Dimension: "agent", Agent: "codex-cursor", Since: before(10 * time.Second), Waiting: 2}},
		Held: []status.Held{{Subject: "sot:task/t-2", Agent: "codex-cursor", Priority: protocol.PriorityHigh, Reason: "capacity_exceeded", Since: at(before(5 * time.Minute)),
			NotBefore: at(noon.Add(45 * time.Second)), Why: "memory is at 93 %, over the limit of 80 %"}}}
}

func sampleExplanations() map[string]status.Explanation {
	task, agent, incident := sampleTasks()[0], sampleAgents()[1], sampleIncidents()[0]
	return map[string]status.Explanation{
		"explain-agent": {Subject: "sot:agent/livhana-layer1.1", Kind: protocol.KindAgent, Agent: &agent, Incidents: sampleIncidents()[1:], Journal: sampleJournal(),
			AgentEvidence: &status.AgentEvidence{Reason: "silent", Since: at(before(3 * time.Minute)), Proof: true, Silent: 300, Late: 45, Dead: 90, Beats: 12,
				LastGap: 5, Longest: 31, Observed: 7200, Covered: 7000, Process: pointer(4711), Recorded: "error", Held: ""}},
		"explain-task": {Subject: "sot:task/" + longID, Kind: protocol.KindTask, Task: &task,
			TaskEvidence: &status.TaskEvidence{FirstSeen: at(before(time.Hour)), Created: at(before(time.Hour)), Running: at(before(time.Minute)), Named: "active_tasks", Timeout: 300,
				Directive: "Deploy it,\nplease", Hold: &status.HoldFact{Reason: "retry", Since: at(before(time.Minute)), NotBefore: at(noon.Add(time.Minute)), ReleaseBy: at(noon.Add(30 * time.Second))},
				Outcome: &status.Outcome{Status: "failed", At: at(before(2 * time.Minute)), Agent: "codex-cursor", Summary: "no such file",
					Failures: []protocol.Failure{{Code: "FILE_NOT_FOUND", Message: "scripts/START.sh", Severity: "error", File: "scripts/START.sh", Line: 1}}},
				Takings: []protocol.Attempt{{N: 1, Action: "retry", Code: "FILE_NOT_FOUND", Rule: "code=FILE_NOT_FOUND", Due: before(time.Minute), Twice: true}}}},
		"explain-lock": {Subject: "sot:lock/state", Kind: protocol.KindLock, Lock: &supervisor.LockReport{Resource: "state", Holder: "ralph-1", State: protocol.LockStale, Expires: at(before(time.Minute))},
			LockEvidence: &status.LockEvidence{Holder: "ralph-1", Process: pointer(99), Acquired: at(before(time.Hour))}},
		"explain-incident": {Subject: "incident/3fa9c2d400000001", Kind: protocol.KindIncident, Incident: &incident, Journal: sampleJournal()[3:4]},
		"explain-past":     {Subject: "sot:task/gone", Kind: protocol.KindTask, Journal: sampleJournal()[2:3]},
	}
}

// shown renders as a command would, for a screen of that width; 0 is a file.
func shown[T any](render func(*terminal.Page, T), doc T, width int) string {
	p := &terminal.Page{Width: width, Now: noon}
	if width == 0 {
		p.Width = 1 << 30
	}
	render(p, doc)
	return p.String()
}

func TestRendering(t *testing.T) {
	goals := goalList{Goals: []supervisor.Goal{
		{Name: "task_success_rate", Value: pointer(0.9712), Target: "> 0.95", OK: true}, {Name: "average_task_latency_seconds", Value: pointer(41.5), Target: "< 30"},
		{Name: "heartbeat_uptime", Target: "> 0.999", OK: true, Note: "nothing to judge by yet"}}}
	two := sampleAgents()
	two[1].Project = "site"
	texts := map[string]string{
		"status-100":     shown(Status, sampleStatus(), 100),
		"status-60":      shown(Status, sampleStatus(), 60),
		"status-file":    shown(Status, sampleStatus(), 0),
		"status-empty":   shown(Status, status.Document{Self: status.Self{Version: "1.2.3"}, Report: supervisor.Report{Started: before(time.Minute), LastLook: noon, Looks: 1}}, 100),
		"agents":         shown(Agents, agentList{Agents: sampleAgents()}, 100),
		"agents-two":     shown(Agents, agentList{Agents: two}, 0),
		"tasks":          shown(Tasks, TaskList{sampleTasks()}, 130),
		"tasks-80":       shown(Tasks, TaskList{sampleTasks()}, 80),
		"locks":          shown(Locks, lockList{Locks: sampleStatus().Locks}, 100),
		"incidents":      shown(Incidents, incidentList{sampleIncidents()}, 100),
		"incidents-80":   shown(Incidents, incidentList{manyIncidents()}, 80),
		"incidents-file": shown(Incidents, incidentList{manyIncidents()}, 0),
		"goals":          shown(Goals, goals, 100),
		"log":            shown(Log, journal{sampleJournal()}, 100),
		"capacity":       shown(Capacity, sampleCapacity(), 100),
		"capacity-none":  shown(Capacity, status.Capacity{}, 100),
		"nothing":        shown(Agents, agentList{}, 100) + shown(Tasks, TaskList{}, 100) + shown(Locks, lockList{}, 100) + shown(Incidents, incidentList{}, 100),
	}
	for name, e := range sampleExplanations() {
		texts[name] = shown(Explanation, e, 100)
	}
	for name, got := range texts {
		t.Run(name, func(t *testing.T) {
			assertHarmless(t, got)
			compare(t, filepath.Join("testdata", "view", name+".txt"), got)
		})
	}
}

func compare(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (write it anew with -update):\n%s\nwant:\n%s", file, got, want)
	}
}

// manyIncidents are of two projects, more and less grave, and one has been reworded.
func manyIncidents() []escalate.Incident {
	list := sampleIncidents()
	list = append(list, list[0], list[0])
	list[2].Key, list[2].Project, list[2].About, list[2].Count, list[2].Severity = "77c0aa00", "site", "site:plea/q-1", 1, protocol.High
	list[2].Rev, list[2].Opened, list[2].Asked = 3, 1, 3
	list[3].Key, list[3].Agent, list[3].About, list[3].State = "88c0aa00", "an-agent-with-a-long-name", "sot:task/t-7", rules.Snoozed
	return list
}

// TestIncidentsFitTheScreen tests that a row is a line of 80 characters at most, whatever its content.
func TestIncidentsFitTheScreen(t *testing.T) {
	for _, line := range strings.Split(shown(Incidents, incidentList{manyIncidents()}, 80), "\n") {
		if n := terminal.Cells(line); n > 80 {
			t.Errorf("a line takes %d cells: %s", n, line)
		}
	}
}

func TestFindingsAreSentences(t *testing.T) {
	for _, c := range [][3]string{
		{"request_type", "request_type is missing", "the field request_type is missing"},
		{"messages[0].type", "type is missing", "the field type is missing"},
		{"context.session_id", "context.session_id must be a string, not null", "the field context.session_id must be a string, not null"},
		{"priority", "priority: \"urgent\" is none of low, high", "the field priority: \"urgent\" is none of low, high"},
		{"type", "types differ", "types differ"},
		{"", "task-1 was rejected", "task-1 was rejected"},
	} {
		if got := problemWords(c[0], c[1]); got != c[2] {
			t.Errorf("%q: %q, want %q", c[1], got, c[2])
		}
	}
	if got := SubjectWords("sot:task/" + longID); got != "task 7c0e2f5a" {
		t.Errorf("the subject reads %q", got)
	}
}

func TestShortIDsTellApart(t *testing.T) {
	ids := []string{"7c0e2f5a-3b1d-4f7e-9a51-5d1c8e7f2a10", "7c0e2f5a-3c1d-4f7e-9a51-5d1c8e7f2a10", "TASK-001", ""}
	short := shortIDs(ids)
	for i, want := range []string{"7c0e2f5a-3b", "7c0e2f5a-3c", "TASK-001", ""} {
		if got := short(ids[i]); got != want {
			t.Errorf("%s is shown as %s, want %s", ids[i], got, want)
		}
	}
}

func TestTasksFitANarrowScreen(t *testing.T) {
	tasks := sampleTasks()
	tasks[0].ID, tasks[1].ID = "7c0e2f5a-3b1d-4f7e-9a51-5d1c8e7f2a11", longID
	tasks[0].Created, tasks[1].Created, tasks[2].Created = at(before(time.Hour)), at(before(time.Minute)), at(before(time.Second))
	tasks[3].Project = "site"
	tasks[3].Agent = "an-agent-with-a-very-long-name"
	got := shown(Tasks, TaskList{tasks}, 80)
	for _, line := range strings.Split(got, "\n") {
		if n := terminal.Cells(line); n > 80 {
			t.Errorf("a line takes %d cells: %s", n, line)
		}
	}
	newer, older, ended := strings.Index(got, longID), strings.Index(got, tasks[0].ID), strings.Index(got, "t-3")
	if newer < 0 || older < newer || ended < older {
		t.Errorf("want the open tasks first and the newest of them on top, told apart by their ids:\n%s", got)
	}
	tasks[0].ID = "t-1"
	if got := shown(Tasks, TaskList{tasks}, 80); strings.Contains(got, longID) || !strings.Contains(got, longID[:8]) || !strings.Contains(got, "memory is at 93 %, over") {
		t.Errorf("want a short id and a readable reason:\n%s", got)
	}
	if got := shown(Tasks, TaskList{tasks}, 0); !strings.Contains(got, longID) || !strings.Contains(got, tasks[1].Why) {
		t.Errorf("a list for a file is shortened:\n%s", got)
	}
}

func TestIncidentKeysStayApart(t *testing.T) {
	for _, c := range []struct {
		keys []string
		want int
	}{
		{nil, 8}, {[]string{"0123456789abcdef"}, 8}, {[]string{"0123456789abcdef", "0123456789abcdee"}, 16},
		{[]string{"short", "0123456789abcdef"}, 8}, {[]string{"twice000", "twice000"}, 8}, {[]string{"01234567aaaa", "01234567bbbb"}, 9},
	} {
		if got := distinctLength(c.keys); got != c.want {
			t.Errorf("distinctLength(%q) = %d, want %d", c.keys, got, c.want)
		}
	}
}

// FuzzView prints the pages of a daemon's documents with any content.
func FuzzView(f *testing.F) {
	for _, doc := range []any{sampleStatus(), sampleCapacity(), agentList{Agents: sampleAgents()}, TaskList{sampleTasks()}, journal{sampleJournal()}, sampleExplanations()["explain-task"]} {
		raw, err := json.Marshal(doc)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw, 80)
	}
	f.Add([]byte(`{"incidents":[{"key":"\u001b[2Jx","options":null,"deliveries":[{}]}],"projects":[{}],"held":[{}],"gates":[{}],"consumers":[{}]}`), 1)
	f.Add([]byte(`{"goals":[{"value":null},{"value":1e300}],"locks":[{}],"log":[{"change":{}}]}`), 40)
	f.Fuzz(func(t *testing.T, raw []byte, width int) {
		p := &terminal.Page{Width: 1 + max(width, -width)%300, Now: noon}
		try(p, raw, Status)
		try(p, raw, Capacity)
		try(p, raw, Explanation)
		try(p, raw, Agents)
		try(p, raw, Tasks)
		try(p, raw, Locks)
		try(p, raw, Incidents)
		try(p, raw, Goals)
		try(p, raw, Log)
		try(p, raw, Carried)
		assertHarmless(t, p.String())
	})
}

func try[T any](p *terminal.Page, raw []byte, render func(*terminal.Page, T)) {
	var doc T
	if json.Unmarshal(raw, &doc) == nil {
		render(p, doc)
	}
}

// assertHarmless fails on anything but text and line ends.
func assertHarmless(t *testing.T, s string) {
	t.Helper()
	if !utf8.ValidString(s) {
		t.Errorf("%q is not UTF-8", s)
	}
	for _, r := range s {
		if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
			t.Errorf("%q holds %U", s, r)
			return
		}
	}
}
