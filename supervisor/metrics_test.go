package supervisor

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor/decide"
)

func subjectOf(kind protocol.Kind, id string) protocol.Subject {
	return protocol.Subject{Project: "shop", Protocol: "agentstatus", Kind: kind, ID: id}
}

// measuredPicture is one project with a task that was lost, an agent, a broken file, and no reading of the files.
func measuredPicture() *State {
	agent, lost, odd := subjectOf(protocol.KindAgent, "codex"), subjectOf(protocol.KindTask, "1"), subjectOf(protocol.KindTask, "2")
	return &State{
		View: decide.View{
			Load: capacity.Load{CPU: protocol.Used(0.25), Memory: protocol.Used(0), Disk: protocol.Used(0.5)},
			Snapshots: []protocol.Snapshot{
				{Project: "shop", Protocol: "agentstatus", Agents: []protocol.Agent{{Name: "codex"}}, Tasks: []protocol.Task{{Request: protocol.Request{ID: "1"}}, {Request: protocol.Request{ID: "2"}}},
					Faults: []protocol.Fault{{Path: "a.json"}, {Path: "b.json"}}},
				{Project: "site", Protocol: "agentstatus", Agents: []protocol.Agent{{Name: "codex"}}},
				{Project: "site", Protocol: "mailbox"},
			},
		},
		Plan: decide.Plan{
			Agents: decide.BookOf(map[protocol.Subject]heartbeat.Verdict{agent: {State: protocol.AgentDead},
				{Project: "site", Protocol: "agentstatus", Kind: protocol.KindAgent, ID: "codex"}: {State: protocol.AgentDead}}),
			Tasks: decide.BookOf(map[protocol.Subject]decide.TaskVerdict{lost: {State: protocol.TaskFailed}, odd: {State: protocol.TaskDeferred, Cause: protocol.Cause{Reason: protocol.ReasonCapacity}}}),
			Memory: decide.Memory{Agents: decide.BookOf(map[protocol.Subject]heartbeat.Memory{agent: {Uptime: heartbeat.Uptime{Observed: 40 * time.Second, Covered: 10 * time.Second}},
				{Project: "site", Protocol: "agentstatus", Kind: protocol.KindAgent, ID: "codex"}: {Uptime: heartbeat.Uptime{Observed: 10 * time.Second, Covered: 10 * time.Second}}})},
		},
		Projects: []ProjectStatus{{Name: "shop"}, {Name: "site", Problem: &protocol.Fault{Problem: "the folder does not answer"}}},
	}
}

func measured(picture *State) (*prometheus.Registry, *Metrics) {
	reg := prometheus.NewPedanticRegistry()
	m := NewMetrics(reg, "1.2.3")
	m.Serve(func() *State { return picture }, func() map[string]rules.Head {
		return map[string]rules.Head{"a": {State: rules.Raised, Severity: protocol.Critical}, "b": {State: rules.Raised, Severity: protocol.Critical},
			"c": {State: rules.Resolved, Severity: protocol.Low}}
	}, func() int { return 17 })
	return reg, m
}

// has checks that every line stands in the scrape, and that none of the absent words does.
func has(t *testing.T, reg prometheus.Gatherer, want, absent []string) {
	t.Helper()
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	if answer.Code != http.StatusOK {
		t.Fatal(answer.Body)
	}
	scrape := answer.Body.String()
	for _, line := range want {
		if !strings.Contains(scrape, line+"\n") {
			t.Errorf("the scrape lacks %q", line)
		}
	}
	for _, word := range absent {
		if strings.Contains(scrape, word) {
			t.Errorf("the scrape has %q", word)
		}
	}
	if t.Failed() {
		t.Log(scrape)
	}
}

func TestGaugesShowThePicture(t *testing.T) {
	reg, _ := measured(measuredPicture())
	has(t, reg, []string{
		`steward_load_ratio{dimension="cpu"} 0.25`,
		`steward_load_ratio{dimension="memory"} 0`, // known to be 0, which is not the same as unknown
		`steward_agents{protocol="agentstatus",state="dead"} 2`,
		`steward_agents{protocol="agentstatus",state="alive"} 0`,
		`steward_agents{protocol="mailbox",state="hung"} 0`,
		`steward_tasks{protocol="agentstatus",state="deferred"} 1`,
		`steward_tasks{protocol="agentstatus",state="failed"} 1`,
		`steward_tasks{protocol="agentstatus",state="running"} 0`,
		`steward_task_reasons{protocol="agentstatus",reason="capacity",state="deferred"} 1`,
		`steward_locks{protocol="agentstatus",state="stale"} 0`,
		`steward_incidents{severity="critical",state="open"} 2`,
		`steward_incidents{severity="low",state="resolved"} 1`,
		`steward_incidents{severity="high",state="acked"} 0`,
		`steward_heartbeat_uptime_ratio{protocol="agentstatus"} 0.4`,
		`steward_faults{protocol="agentstatus"} 2`,
		`steward_faults{protocol="mailbox"} 0`,
		`steward_faults{protocol="all"} 1`,
		`steward_watch_descriptors 17`,
		`steward_build_info{version="1.2.3"} 1`,
	}, []string{`dimension="files"`, `uptime_ratio{protocol="mailbox"}`})
}

func TestEveryStateIsExported(t *testing.T) {
	reg, _ := measured(measuredPicture())
	for name, want := range map[string]int{"steward_agents": 2 * len(agentStates), "steward_tasks": 2 * len(taskStates), "steward_locks": 2 * 3,
		"steward_incidents": 5 * 3} {
		if got, err := testutil.GatherAndCount(reg, name); err != nil || got != want {
			t.Errorf("%s has %d series, want %d (%v)", name, got, want, err)
		}
	}
}

func TestScrapeBeforeTheFirstLook(t *testing.T) {
	reg, _ := measured(nil)
	has(t, reg, []string{`steward_build_info{version="1.2.3"} 1`, `steward_watch_descriptors 17`}, []string{"steward_load_ratio{", "steward_agents{"})
	bare := prometheus.NewPedanticRegistry()
	NewMetrics(bare, "1.2.3")
	has(t, bare, []string{`steward_build_info{version="1.2.3"} 1`}, []string{"steward_watch_descriptors", "steward_incidents{"})
}

func TestMetricsAreClean(t *testing.T) {
	reg, m := measured(measuredPicture())
	exercise(m)
	problems, err := testutil.GatherAndLint(reg)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// exercise calls every method once, so that every metric has a series.
func exercise(m *Metrics) {
	task, agent := subjectOf(protocol.KindTask, "1"), subjectOf(protocol.KindAgent, "codex")
	m.look(20 * time.Millisecond)
	m.decision(time.Millisecond)
	m.change(protocol.Change{Verb: protocol.VerbHold, Reason: protocol.ReasonCapacity}, nil)
	m.change(protocol.Change{Verb: protocol.VerbRetry, Reason: protocol.ReasonRule}, errors.New("disk full"))
	m.Delivered("desktop", "shown")
	m.Delivered("pager", "a word that the channel made up")
	m.observe(decide.Memory{Agents: decide.BookOf(map[protocol.Subject]heartbeat.Memory{agent: {Uptime: heartbeat.Uptime{Beats: 1}}})},
		decide.Memory{Agents: decide.BookOf(map[protocol.Subject]heartbeat.Memory{agent: {Uptime: heartbeat.Uptime{Beats: 2, LastGap: 25 * time.Second}}}),
			Tasks: decide.BookOf(map[protocol.Subject]decide.TaskMemory{task: {TaskHistory: decide.TaskHistory{Counted: "completed", Latency: 12 * time.Second}}})})
}

func TestCounters(t *testing.T) {
	reg, m := measured(nil)
	exercise(m)
	has(t, reg, []string{
		`steward_changes_total{reason="capacity",verb="hold"} 1`,
		`steward_deliveries_total{channel="desktop",result="shown"} 1`,
		`steward_deliveries_total{channel="other",result="other"} 1`,
		`steward_look_seconds_sum 0.02`,
		`steward_decision_seconds_count 1`,
		`steward_heartbeat_gap_seconds_sum{protocol="agentstatus"} 25`,
		`steward_task_latency_seconds_sum{protocol="agentstatus"} 12`,
		`steward_task_results_total{outcome="completed",protocol="agentstatus"} 1`,
	}, []string{`verb="retry"`, "pager"})
}

func TestObserveCountsEachThingOnce(t *testing.T) {
	one, two, agent := subjectOf(protocol.KindTask, "1"), subjectOf(protocol.KindTask, "2"), subjectOf(protocol.KindAgent, "codex")
	agents := func(m heartbeat.Memory) decide.Book[heartbeat.Memory] {
		return decide.BookOf(map[protocol.Subject]heartbeat.Memory{agent: m})
	}
	tasks := decide.BookOf[decide.TaskMemory]
	type list = map[protocol.Subject]decide.TaskMemory
	ended := func(outcome string, latency time.Duration) decide.TaskMemory {
		return decide.TaskMemory{TaskHistory: decide.TaskHistory{Counted: outcome, Latency: latency}}
	}
	both := tasks(list{one: ended("failed", 10*time.Second), two: ended("completed", 20*time.Second)})
	steps := []decide.Memory{
		{Agents: agents(heartbeat.Memory{Uptime: heartbeat.Uptime{Beats: 1, LastGap: time.Hour}}), Tasks: tasks(list{one: {}})}, // the first beat has no gap
		{Agents: agents(heartbeat.Memory{Uptime: heartbeat.Uptime{Beats: 2, LastGap: 30 * time.Second}}), Tasks: both},
		{Agents: agents(heartbeat.Memory{Uptime: heartbeat.Uptime{Beats: 2, LastGap: 30 * time.Second}}), Tasks: both},
		{Agents: agents(heartbeat.Memory{Uptime: heartbeat.Uptime{Beats: 3, LastGap: 31 * time.Second}}), Tasks: tasks(list{one: ended("completed", 60*time.Second)})},
		{Tasks: tasks(list{two: ended("failed", 0)})}, // it does not say when it was asked for
	}
	reg, m := measured(nil)
	old := decide.Memory{}
	for _, next := range steps {
		m.observe(old, next)
		old = next
	}
	has(t, reg, []string{
		`steward_heartbeat_gap_seconds_count{protocol="agentstatus"} 2`,
		`steward_heartbeat_gap_seconds_sum{protocol="agentstatus"} 61`,
		`steward_task_latency_seconds_count{protocol="agentstatus"} 3`,
		`steward_task_latency_seconds_sum{protocol="agentstatus"} 90`,
		`steward_task_latency_seconds_bucket{protocol="agentstatus",le="20"} 2`,
		`steward_task_results_total{outcome="completed",protocol="agentstatus"} 2`,
		`steward_task_results_total{outcome="failed",protocol="agentstatus"} 2`,
	}, nil)
}

func BenchmarkObserve(b *testing.B) {
	agents, tasks := map[protocol.Subject]heartbeat.Memory{}, map[protocol.Subject]decide.TaskMemory{}
	for i := range 100 {
		agents[subjectOf(protocol.KindAgent, string(rune('a'+i)))] = heartbeat.Memory{Uptime: heartbeat.Uptime{Beats: 9}}
		tasks[subjectOf(protocol.KindTask, string(rune('a'+i)))] = decide.TaskMemory{TaskHistory: decide.TaskHistory{Counted: "completed"}}
	}
	m, old, next := NewMetrics(prometheus.NewRegistry(), ""), decide.Memory{Agents: decide.BookOf(agents), Tasks: decide.BookOf(tasks)}, decide.Memory{Agents: decide.BookOf(agents), Tasks: decide.BookOf(tasks)}
	for b.Loop() {
		m.observe(old, next)
	}
}
