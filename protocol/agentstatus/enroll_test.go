package agentstatus

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Workers that share a name speak for one agent until the last worker has left.
func TestSharedPost(t *testing.T) {
	c := newCrew(t)
	me := c.client()
	enroll := func(n int, p Registration) error {
		p.Agent, p.Process = codex, worker(n)
		return me.Enroll(t.Context(), p, c.now)
	}
	leave := func(n int, l Leaving) {
		t.Helper()
		if err := me.Leave(t.Context(), codex, worker(n), l, c.now); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(enroll(1, Registration{Shared: true, Claims: true}), enroll(2, Registration{Shared: true, Claims: true})); err != nil {
		t.Fatal(err)
	}
	if err := enroll(3, Registration{}); !errors.Is(err, ErrTaken) {
		t.Errorf("a name in use was given away: %v", err)
	}
	a := findAgent(t, c.look(), codex)
	if a.Process != worker(2) || len(a.Others) != 1 || a.Others[0] != worker(1) || !a.Claims {
		t.Errorf("two workers: %+v", a)
	}
	leave(2, Leaving{Why: "stopped"})
	if a = findAgent(t, c.look(), codex); a.Process != worker(1) || len(a.Others) != 0 || a.Left != "" {
		t.Errorf("one left: %+v", a)
	}
	leave(2, Leaving{Failed: true}) // a second time, too late
	leave(77, Leaving{Why: "it was never here"})
	if a = findAgent(t, c.look(), codex); a.Process != worker(1) || a.Ending != "" {
		t.Errorf("left twice: %+v", a)
	}
	leave(1, Leaving{Why: "stopped"})
	a = findAgent(t, c.look(), codex)
	if a.Left != "stopped" || !a.Idle || a.Process.PID != 0 || a.Recorded != "idle" || a.Status != "idle" || a.PID != 0 {
		t.Errorf("all left: %+v", a)
	}
	if err := enroll(4, Registration{Shared: true}); err != nil {
		t.Fatal(err)
	}
	c.gone.Store(worker(4), true)
	if err := enroll(5, Registration{}); err != nil { // a dead agent's name is free
		t.Error(err)
	}
	leave(5, Leaving{Failed: true, Why: "exit code 3"})
	if a = findAgent(t, c.look(), codex); a.Process != worker(5) || a.Ending != "exit code 3" || a.Left != "" {
		t.Errorf("failed: %+v", a)
	}
}

// The command that starts a worker, and the worker itself, enroll the same process: neither undoes what the other
// stated.
func TestEnrolledTwice(t *testing.T) {
	for name, order := range map[string][]Registration{
		"keeper first": {{Agent: codex, Process: worker(1), Keeper: worker(9), Kept: true}, {Agent: codex, Process: worker(1), Shared: true, Claims: true}},
		"worker first": {{Agent: codex, Process: worker(1), Shared: true, Claims: true}, {Agent: codex, Process: worker(1), Keeper: worker(9), Kept: true}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrew(t)
			me := c.client()
			for _, post := range order {
				if err := me.Enroll(t.Context(), post, c.now); err != nil {
					t.Fatal(err)
				}
				if err := me.Beat(codex, Beat{Status: "busy"}, c.now); err != nil {
					t.Fatal(err)
				}
			}
			a := findAgent(t, c.look(), codex)
			if a.Keeper != worker(9) || !a.Claims || a.Process != worker(1) || len(a.Others) != 0 || a.Status != "busy" {
				t.Errorf("record: %+v", a)
			}
			if beat := c.file("codex_status/heartbeat.json"); beat[keptBy] != nil {
				t.Errorf("the worker beats itself, and steward would go on: %v", beat)
			}
		})
	}
}

// Steward writes the heartbeat of an agent that leaves it to steward, until the agent writes its own.
func TestKeptHeartbeat(t *testing.T) {
	c := newCrew(t)
	me := c.client()
	const agent = "claude"
	keeper := worker(9)
	if err := me.Enroll(t.Context(), Registration{Agent: agent, Process: worker(1), Keeper: keeper, Kept: true}, c.now); err != nil {
		t.Fatal(err)
	}
	if a := findAgent(t, c.look(), agent); !a.Kept || a.Keeper != keeper {
		t.Errorf("record: %+v", a)
	}
	p := New(c.dir, Options{})
	defer p.Close()
	keep := func() map[string]any {
		t.Helper()
		c.now = c.now.Add(30 * time.Second)
		p.Observe(t.Context(), protocol.ScanOrder{Now: c.now})
		if err := p.Keep(map[string]time.Duration{agent: 90 * time.Second, "nobody": 0, "../x": 0}, c.now); err != nil {
			t.Fatal(err)
		}
		return c.file(agent + "_status/heartbeat.json")
	}
	stamp := func(at time.Time) string { return jsonfile.FormatTime(at) }
	if beat := keep(); beat["last_heartbeat"] != stamp(c.now) || beat["uptime_seconds"] != 90.0 {
		t.Errorf("kept: %v", beat)
	}
	// It says what the agent works on, as far as claims show it.
	id := c.submit(ask(NewTaskID(), func(r *Request) { r.Target = agent }))
	work, err := me.Open(t.Context(), agent, c.now)
	if err != nil || len(work) != 1 {
		t.Fatalf("open: %v, %+v", err, work)
	}
	if err := me.Claim(t.Context(), work[0], Claim{Agent: agent, Worker: worker(1), Mark: "m"}, c.now); err != nil {
		t.Fatal(err)
	}
	if beat := keep(); beat["status"] != "busy" || fmt.Sprint(beat["active_tasks"]) != "["+id+"]" {
		t.Errorf("with a task: %v", beat)
	}
	if err := me.Unclaim(t.Context(), id, c.now); err != nil {
		t.Fatal(err)
	}
	if beat := keep(); beat["status"] != "idle" || fmt.Sprint(beat["active_tasks"]) != "[]" {
		t.Errorf("without a task: %v", beat)
	}
	own := []byte(`{"agent_name":"claude","status":"busy","last_heartbeat":"2025-10-22T21:30:00Z"}`)
	if err := os.WriteFile(filepath.Join(c.dir, Base, agent+"_status/heartbeat.json"), own, 0o644); err != nil {
		t.Fatal(err)
	}
	if beat := keep(); beat["last_heartbeat"] != "2025-10-22T21:30:00Z" {
		t.Errorf("an agent's own heartbeat was touched: %v", beat)
	}
	if _, err := os.Stat(filepath.Join(c.dir, Base, "nobody_status")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nobody: %v", err)
	}
}

// A worker that shares the name of a booted process writes the heartbeat while it works. When the worker leaves, the
// daemon again writes the heartbeat for the booted process.
func TestKeptAgainAfterAWorker(t *testing.T) {
	c := newCrew(t)
	me := c.client()
	p := New(c.dir, Options{})
	defer p.Close()
	if err := p.Prepare(t.Context(), protocol.Boot{Agent: codex, PID: worker(1).PID, Process: worker(1), Now: c.now}); err != nil {
		t.Fatal(err)
	}
	if err := me.Enroll(t.Context(), Registration{Agent: codex, Process: worker(2), Shared: true, Claims: true}, c.now); err != nil {
		t.Fatal(err)
	}
	if err := me.Beat(codex, Beat{Status: "idle"}, c.now); err != nil {
		t.Fatal(err)
	}
	if beat := c.file("codex_status/heartbeat.json"); beat[keptBy] != nil {
		t.Errorf("the worker beats itself: %v", beat)
	}
	if err := me.Leave(t.Context(), codex, worker(2), Leaving{Why: "stopped"}, c.now); err != nil {
		t.Fatal(err)
	}
	if a := findAgent(t, c.look(), codex); !a.Kept || !a.Beat.Kept || a.Process != worker(1) {
		t.Errorf("after the worker: %+v", a)
	}
}

// A request that is read and written again keeps its content; a retry with a longer timeout also raises the timeout
// in its parameters.
func TestNumbersAndLimits(t *testing.T) {
	text := strings.Replace(requestText, `"parameters": {`, `"parameters": {"timeout_seconds": 120, "big": 9007199254740993, "list": [1, 2.5], `, 1)
	r, err := CheckRequest([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonfile.Encode(r)
	if err != nil || !strings.Contains(string(doc), `"big": 9007199254740993`) || !strings.Contains(string(doc), "2.5") {
		t.Fatalf("%v\n%s", err, doc)
	}
	grown, err := withTimeout(doc, 2*time.Duration(r.Timeout)*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	again, err := CheckRequest(grown)
	if err != nil || again.Timeout != 2*r.Timeout || fmt.Sprint(again.Payload.Parameters["timeout_seconds"]) != "240" {
		t.Errorf("%v: %v, %v", err, again.Timeout, again.Payload.Parameters)
	}
	a, _ := jsonfile.Parse(doc)
	b, _ := jsonfile.Parse(grown)
	if decodeRequest(a).payload != decodeRequest(b).payload {
		t.Error("a retry with more time counts as other work")
	}
}

func TestOldOutputGoes(t *testing.T) {
	c := newCrew(t)
	me := c.client()
	var files []string
	for n := range 3 {
		file, err := me.OutputFile(NewTaskID(), 1, c.now)
		if err == nil {
			err = os.WriteFile(file, []byte("x"), 0o644)
		}
		at := c.now.Add(-time.Duration(n) * 24 * time.Hour)
		if err = errors.Join(err, os.Chtimes(file, at, at)); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	foreign := filepath.Join(filepath.Dir(files[0]), "notes.txt")
	if err := errors.Join(os.WriteFile(foreign, nil, 0o644), os.Chtimes(foreign, time.Unix(0, 0), time.Unix(0, 0))); err != nil {
		t.Fatal(err)
	}
	if err := me.SweepOutput(c.now.Add(-36*time.Hour), c.now); err != nil {
		t.Fatal(err)
	}
	for i, file := range append(files, foreign) {
		if _, err := os.Stat(file); (err == nil) != (i != 2) {
			t.Errorf("%s: %v", file, err)
		}
	}
}
