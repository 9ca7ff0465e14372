package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/cmd/steward/holds"
	"github.com/livhana/steward/config"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/supervisor"
	"github.com/spf13/cobra"
)

const (
	taskA = "11111111-1111-4111-8111-111111111111"
	taskB = "22222222-2222-4222-8222-222222222222"
)

func taskPath(dir, id, ext string) string {
	return filepath.Join(dir, filepath.FromSlash(agentstatus.Base), "codex_tasks", "task_"+id+ext)
}

// held creates a project with tasks that a dead steward holds until the given times.
func held(t *testing.T, dir string, leases map[string]time.Time) {
	t.Helper()
	ad := daemon.Adapters[0]
	speaker := ad.Open(dir, config.Defaults(), daemon.GuardLock)
	defer speaker.Close()
	for _, agent := range []string{"livhana-layer1.1", "codex-cursor"} {
		if err := speaker.Prepare(t.Context(), protocol.Boot{Agent: agent, PID: os.Getpid(), Now: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	for id := range leases {
		request := map[string]any{"task_id": id, "request_type": "research", "priority": "high", "source_agent": "livhana-layer1.1", "target_agent": "codex-cursor",
			"created_at": time.Now().UTC().Format(time.RFC3339), "timeout_seconds": 300, "throttle_capacity": 0.8}
		data, err := json.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(taskPath(dir, id, ".request.json"), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now()
	snap := speaker.Observe(t.Context(), protocol.ScanOrder{Now: now})
	for _, task := range snap.Tasks {
		c := protocol.Change{Verb: protocol.VerbHold, Subject: snap.Subject(protocol.KindTask, task.ID), Reason: protocol.ReasonCapacity, Why: "full", Hold: protocol.HoldCapacity,
			Until: now.Add(time.Minute), ReleaseBy: leases[task.ID], Judged: protocol.Judged{Ref: task.Ref}}
		if err := speaker.Apply(t.Context(), c, now); err != nil {
			t.Fatal(err)
		}
		if !isHeld(dir, task.ID) {
			t.Fatalf("%s is not held", task.ID)
		}
	}
}

func isHeld(dir, id string) bool {
	_, heldErr := os.Stat(taskPath(dir, id, ".request.json.held"))
	_, openErr := os.Stat(taskPath(dir, id, ".request.json"))
	return heldErr == nil && openErr != nil
}

func TestCommandsFreeWhatOutlivedItsLease(t *testing.T) {
	dir := atHome(t)
	project := filepath.Join(dir, "cwd")
	held(t, project, map[string]time.Time{taskA: time.Now().Add(-time.Second), taskB: time.Now().Add(time.Hour)})
	code, _, errOut := invoke("agents")
	if code != cli.ExitNoDaemon || !strings.HasPrefix(errOut, "steward: no steward is running; released 1 task held past the lease\n") {
		t.Errorf("exit %d, %q", code, errOut)
	}
	if isHeld(project, taskA) || !isHeld(project, taskB) {
		t.Errorf("held: past its lease %v, within its lease %v", isHeld(project, taskA), isHeld(project, taskB))
	}
	if _, err := os.Stat(taskPath(project, taskA, ".deferred.json")); err == nil {
		t.Error("the notice is still there")
	}
	if n := holds.ReleaseStale(t.Context(), (&cli.App{}), ""); n != 0 {
		t.Errorf("freed %d more", n)
	}
}

// TestFreeStaleKnowsTheProjects covers the three ways in which a project is known.
func TestFreeStaleKnowsTheProjects(t *testing.T) {
	for name, c := range map[string]struct {
		config string
		mode   string // of the last run; "": it did not know the project
		freed  int
	}{
		"configured":             {config: "[[project]]\npath = \"PROJECT\"\n", freed: 1},
		"configured to observe":  {config: "[[project]]\npath = \"PROJECT\"\n[project.mode]\nagentstatus = \"observe\"\n"},
		"of the last run":        {mode: "act", freed: 1},
		"of both":                {config: "[[project]]\npath = \"PROJECT\"\n", mode: "act", freed: 1},
		"only observed lately":   {mode: "observe"},
		"unknown":                {},
		"known, with bad config": {config: "nonsense = 1\n", mode: "act", freed: 1},
	} {
		t.Run(name, func(t *testing.T) {
			dir := atHome(t)
			project := filepath.Join(dir, "elsewhere")
			if err := os.Mkdir(project, 0o755); err != nil {
				t.Fatal(err)
			}
			held(t, project, map[string]time.Time{taskA: time.Now().Add(-time.Second)})
			if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(strings.ReplaceAll(c.config, "PROJECT", project)), 0o600); err != nil {
				t.Fatal(err)
			}
			if c.mode != "" {
				last := status.Document{Report: supervisor.Report{Projects: []supervisor.ProjectReport{{Name: "elsewhere", Path: project,
					Mode: map[string]string{"agentstatus": c.mode, "future": "act"}}}}}
				if err := status.WriteSnapshot(filepath.Join(dir, "state", "status.json"), last); err != nil {
					t.Fatal(err)
				}
			}
			if n := holds.ReleaseStale(t.Context(), (&cli.App{}), ""); n != c.freed || isHeld(project, taskA) != (c.freed == 0) {
				t.Errorf("freed %d, want %d; held: %v", n, c.freed, isHeld(project, taskA))
			}
		})
	}
}

func TestReleaseWithoutADaemon(t *testing.T) {
	later := time.Now().Add(time.Hour)
	for _, c := range []struct {
		args     string
		code     int
		out, err string
		a, b     bool // still held
	}{
		{args: "release", out: "released cwd:task/" + taskA + " (no steward is running)\nreleased cwd:task/" + taskB + " (no steward is running)\n"},
		{args: "release " + taskA, out: "released cwd:task/" + taskA + " (no steward is running)\n", b: true},
		{args: "release cwd:task/" + taskB + " -o json", out: "{\n  \"verb\": \"release\",\n  \"released\": [\n    \"cwd:task/" + taskB + "\"\n  ],\n  \"failed\": []\n}\n", a: true},
		{args: "release nobody", code: cli.ExitNoSubject, err: "there is no such task or agent", a: true, b: true},
		{args: "release agent/" + taskA, code: cli.ExitNoSubject, a: true, b: true},
		{args: "release codex-cursor", code: cli.ExitRefused, err: "it is not held", a: true, b: true},
	} {
		t.Run(c.args, func(t *testing.T) {
			project := filepath.Join(atHome(t), "cwd")
			held(t, project, map[string]time.Time{taskA: later, taskB: later})
			code, out, errOut := invoke(strings.Fields(c.args)...)
			if code != c.code || out != c.out || !strings.Contains(errOut, c.err) || (code == 0) != (errOut == "") {
				t.Errorf("exit %d, want %d; %q; %q", code, c.code, out, errOut)
			}
			if isHeld(project, taskA) != c.a || isHeld(project, taskB) != c.b {
				t.Errorf("held: %v, %v; want %v, %v", isHeld(project, taskA), isHeld(project, taskB), c.a, c.b)
			}
		})
	}
}

func TestReleaseOfAnAgentWithoutADaemon(t *testing.T) {
	project := filepath.Join(atHome(t), "cwd")
	held(t, project, nil)
	ad := daemon.Adapters[0]
	speaker := ad.Open(project, config.Defaults(), daemon.GuardLock)
	defer speaker.Close()
	subject := protocol.Subject{Kind: protocol.KindAgent, ID: "codex-cursor"}
	if err := speaker.Apply(t.Context(), protocol.Change{Verb: protocol.VerbPause, Subject: subject, Why: "debugging"}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if code, out, errOut := invoke("release"); code != 0 || out != "queue empty (no steward is running)\n" {
		t.Errorf("release of all tasks: exit %d, %q, %q", code, out, errOut)
	}
	if code, out, errOut := invoke("release", "codex-cursor"); code != 0 || out != "released cwd:agent/codex-cursor (no steward is running)\n" {
		t.Errorf("exit %d, %q, %q", code, out, errOut)
	}
	snap := speaker.Observe(t.Context(), protocol.ScanOrder{Now: time.Now()})
	if agent, ok := snap.Agent("codex-cursor"); !ok || agent.Held != "" {
		t.Errorf("agent %+v", agent)
	}
}

func TestReleaseOfANameThatSeveralHave(t *testing.T) {
	dir := atHome(t)
	config := ""
	for _, name := range []string{"one", "two"} {
		project := filepath.Join(dir, name)
		if err := os.Mkdir(project, 0o755); err != nil {
			t.Fatal(err)
		}
		held(t, project, map[string]time.Time{taskA: time.Now().Add(time.Hour)})
		config += "[[project]]\npath = \"" + project + "\"\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errOut := invoke("release", taskA); code != cli.ExitRefused || !strings.Contains(errOut, "project:kind/id") {
		t.Errorf("exit %d, %s", code, errOut)
	}
	if code, _, errOut := invoke("release", "two:task/"+taskA); code != 0 || isHeld(filepath.Join(dir, "two"), taskA) || !isHeld(filepath.Join(dir, "one"), taskA) {
		t.Errorf("exit %d, %s", code, errOut)
	}
}

// TestEveryCommandReleasesWhatOutlivedItsLease: after steward died, the first command that a user or an agent runs
// releases its expired holds; only the commands of leavesHolds do not.
func TestEveryCommandReleasesWhatOutlivedItsLease(t *testing.T) {
	seen := 0
	eachCommand(newRootCommand((&cli.App{})), func(c *cobra.Command) {
		if !holds.Releases(c) {
			return
		}
		seen++
		t.Run(c.CommandPath(), func(t *testing.T) {
			dir := atHome(t)
			project, args := filepath.Join(dir, "cwd"), strings.Fields(c.CommandPath())[1:]
			if c.Flags().Lookup("project") != nil { // a project known only from the flag
				project = filepath.Join(dir, "named")
				if err := os.Mkdir(project, 0o755); err != nil {
					t.Fatal(err)
				}
				args = append(args, "--project", project)
			}
			held(t, project, map[string]time.Time{taskA: time.Now().Add(-time.Second), taskB: time.Now().Add(time.Hour)})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			root := newRootCommand((&cli.App{Out: io.Discard, Err: io.Discard}))
			found, rest, err := root.Find(args)
			if err != nil || found.ParseFlags(rest) != nil {
				t.Fatal(err)
			}
			found.SetContext(ctx)
			for p := found; p != nil; p = p.Parent() { // as cobra does: the nearest parent counts
				if p.PersistentPreRunE != nil {
					if err := p.PersistentPreRunE(found, nil); err != nil {
						t.Fatal(err)
					}
					break
				}
			}
			if isHeld(project, taskA) || !isHeld(project, taskB) {
				t.Errorf("held: past its lease %v, within its lease %v", isHeld(project, taskA), isHeld(project, taskB))
			}
		})
	})
	if seen < 25 {
		t.Errorf("only %d commands release anything", seen)
	}
}

func eachCommand(c *cobra.Command, visit func(*cobra.Command)) {
	if c.Runnable() && !c.HasSubCommands() {
		visit(c)
	}
	for _, sub := range c.Commands() {
		eachCommand(sub, visit)
	}
}

func TestFailOpenEndsWithItsContext(t *testing.T) {
	project := filepath.Join(atHome(t), "cwd")
	held(t, project, map[string]time.Time{taskA: time.Now().Add(-time.Second)})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = holds.ReleaseStale(ctx, (&cli.App{}), "") // it must return, whether or not the task is released
}
