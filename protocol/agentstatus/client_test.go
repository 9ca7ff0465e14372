package agentstatus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// crew is a project with any number of clients, each with its own view of the disk.
type crew struct {
	t    *testing.T
	dir  string
	now  time.Time
	gone sync.Map // identities that are proved dead
}

func newCrew(t *testing.T) *crew {
	t.Helper()
	c := &crew{t: t, dir: t.TempDir(), now: time.Now().UTC().Truncate(time.Second)}
	p := New(c.dir, Options{})
	defer p.Close()
	if err := p.Prepare(t.Context(), boot(livhana, 1, c.now)); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *crew) client() *Client {
	lock := filepath.Join(OwnDir(c.dir), "guard.lock")
	client := Connect(c.dir, ClientOptions{
		Guard: func(ctx context.Context, _ *jsonfile.Root) (func(), error) {
			l, err := platform.LockQueue(ctx, lock, 0o600)
			if err != nil {
				return nil, err
			}
			return func() { _ = l.Unlock() }, nil
		},
		Alive: func(id protocol.Identity) bool { _, gone := c.gone.Load(id); return !gone },
	})
	c.t.Cleanup(client.Close)
	return client
}

func ask(id string, change ...func(*Request)) Request {
	r := Request{TaskID: id, Type: "execute", Priority: "medium", Source: livhana, Target: codex, Timeout: 300,
		Context:      RequestContext{Session: "7d9a44d4-91a5-4f3c-8d42-1a2b3c4d5e6f"},
		Payload:      RequestPayload{TaskType: "execute", Parameters: map[string]any{"script_path": "/bin/true", "args": []string{id}}},
		Coordination: RequestCoordination{Every: 30}}
	for _, f := range change {
		f(&r)
	}
	return r
}

func (c *crew) submit(r Request) string {
	c.t.Helper()
	if _, err := c.client().Submit(c.t.Context(), r, c.now); err != nil {
		c.t.Fatal(err)
	}
	return r.TaskID
}

func worker(n int) protocol.Identity {
	return protocol.Identity{PID: 1000 + n, Start: uint64(n) << 40, Boot: "b"}
}

func done(mark string) Result {
	return Result{Status: "completed", Source: codex, Mark: mark, Body: ResultBody{Success: true, Summary: "did it"}}
}

func (c *crew) file(name string) map[string]any {
	c.t.Helper()
	data, err := os.ReadFile(filepath.Join(c.dir, Base, name))
	if err != nil {
		c.t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(data, &doc); err != nil {
		c.t.Fatalf("%s: %v\n%s", name, err, data)
	}
	return doc
}

// What a client writes is valid by the schema of protocol 000: the adapter has no finding.
func TestClientsWriteByTheSchema(t *testing.T) {
	c := newCrew(t)
	id := c.submit(ask(NewTaskID(), func(r *Request) { r.Context.Related = []string{NewTaskID()} }))
	me := c.client()
	if err := me.Enroll(t.Context(), Registration{Agent: codex, Process: worker(1), Shared: true}, c.now); err != nil {
		t.Fatal(err)
	}
	work, err := me.Open(t.Context(), codex, c.now)
	if err != nil || len(work) != 1 || work[0].TaskID != id || work[0].Attempt != 1 {
		t.Fatalf("open: %v, %+v", err, work)
	}
	if err := me.Claim(t.Context(), work[0], Claim{Agent: codex, Worker: worker(1), Mark: "m"}, c.now); err != nil {
		t.Fatal(err)
	}
	free := 0.5
	if err := me.Beat(codex, Beat{Status: "busy", Uptime: time.Minute, Free: &free}, c.now); err != nil {
		t.Fatal(err)
	}
	if err := me.Progress(t.Context(), id, TaskProgress{Percent: 40, Step: "half", Done: 2, Total: 5}, c.now); err != nil {
		t.Fatal(err)
	}
	if beat := c.file("codex_status/heartbeat.json"); beat["status"] != "busy" || fmt.Sprint(beat["active_tasks"]) != "["+id+"]" {
		t.Errorf("heartbeat: %v", beat)
	}
	if current := c.file("codex_status/current_task.json"); current["task_id"] != id {
		t.Errorf("current task: %v", current)
	}
	snap := c.look()
	if task, ok := find(snap, id); !ok || task.Named != "claim" || len(task.Workers) != 1 || task.Workers[0] != worker(1) || task.Progress.Percent != 40 {
		t.Errorf("in hand: %+v", task)
	}
	if err := me.Finish(t.Context(), id, done("m"), c.now); err != nil {
		t.Fatal(err)
	}
	if err := me.Beat(codex, Beat{Status: "idle", Free: &free}, c.now); err != nil {
		t.Fatal(err)
	}
	snap = c.look()
	if task, _ := find(snap, id); task.Outcome == nil || !task.Outcome.Succeeded() || len(task.Workers) != 0 {
		t.Errorf("after: %+v", task)
	}
	for _, f := range snap.Findings {
		t.Errorf("finding: %+v", f)
	}
	for _, f := range snap.Faults {
		t.Errorf("fault: %+v", f)
	}
	log, _ := os.ReadFile(filepath.Join(c.dir, Base, "shared/coordination_log.jsonl"))
	for _, event := range []string{"task_created", "task_started", "task_completed"} {
		if strings.Count(string(log), `"`+event+`"`) != 1 {
			t.Errorf("the log should tell once of %s:\n%s", event, log)
		}
	}
	if _, err := os.Stat(filepath.Join(c.dir, Base, "steward/claims", id+".json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the claim is still there: %v", err)
	}
}

func (c *crew) look() *protocol.Snapshot {
	c.t.Helper()
	c.now = c.now.Add(time.Second)
	p := New(c.dir, Options{})
	defer p.Close()
	snap := p.Observe(c.t.Context(), protocol.ScanOrder{Now: c.now})
	return &snap
}

func find(s *protocol.Snapshot, id string) (protocol.Task, bool) {
	for _, t := range s.Tasks {
		if t.ID == id {
			return t, true
		}
	}
	return protocol.Task{}, false
}

func findAgent(t *testing.T, s *protocol.Snapshot, name string) protocol.Agent {
	t.Helper()
	a, ok := s.Agent(name)
	if !ok {
		t.Fatalf("no agent %s in %+v", name, s.Agents)
	}
	return *a
}

// However many clients claim a task at the same time, one of them gets it.
func TestOneOfManyClaims(t *testing.T) {
	c := newCrew(t)
	const tasks, workers = 20, 8
	for range tasks {
		c.submit(ask(NewTaskID()))
	}
	var won atomic.Int32
	var each sync.Map
	var crowd sync.WaitGroup
	for n := range workers {
		me := c.client()
		crowd.Go(func() {
			for {
				work, err := me.Open(t.Context(), codex, c.now)
				if err != nil {
					t.Error(err)
					return
				}
				if len(work) == 0 {
					return
				}
				for _, w := range work {
					switch err := me.Claim(t.Context(), w, Claim{Agent: codex, Worker: worker(n), Mark: fmt.Sprint(n)}, c.now); {
					case err == nil:
						won.Add(1)
						if other, taken := each.LoadOrStore(w.TaskID, n); taken {
							t.Errorf("%s was given to %v and %d", w.TaskID, other, n)
						}
					case !errors.Is(err, ErrTaken):
						t.Error(err)
					}
				}
			}
		})
	}
	crowd.Wait()
	if won.Load() != tasks {
		t.Errorf("%d of %d tasks were taken", won.Load(), tasks)
	}
}

func TestOrderOfWork(t *testing.T) {
	c := newCrew(t)
	low := c.submit(ask(NewTaskID(), func(r *Request) { r.Priority = "low" }))
	first := c.submit(ask(NewTaskID()))
	urgent := c.submit(ask(NewTaskID(), func(r *Request) { r.Priority = "critical" }))
	c.submit(ask(NewTaskID(), func(r *Request) { r.Target = "somebody-else" }))
	alias := c.submit(ask(NewTaskID(), func(r *Request) { r.Target = "codex" })) // the short name in protocol 000
	work, err := c.client().Open(t.Context(), codex, c.now)
	var got []string
	for _, w := range work {
		got = append(got, w.TaskID)
	}
	if want := []string{urgent, first, alias, low}; err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("want %v, got %v, %v", want, got, err)
	}
}

// The first terminal result stands, whichever client writes later, and no result is lost.
func TestLateResults(t *testing.T) {
	c := newCrew(t)
	id := c.submit(ask(NewTaskID()))
	a, b := c.client(), c.client()
	take(t, a, c, "first")
	if err := b.Finish(t.Context(), id, done("another"), c.now); !errors.Is(err, ErrEnded) {
		t.Errorf("a run without the claim: %v", err)
	}
	if err := a.Finish(t.Context(), id, done("first"), c.now); err != nil {
		t.Fatal(err)
	}
	late := done("first")
	late.Body.Summary = "again"
	if err := a.Finish(t.Context(), id, late, c.now); !errors.Is(err, ErrEnded) {
		t.Errorf("a second result: %v", err)
	}
	if body := c.file("codex_tasks/task_" + id + ".result.json")["result"].(map[string]any); body["summary"] != "did it" {
		t.Errorf("the first result was touched: %v", body)
	}
	for n := 1; n <= 2; n++ {
		if c.file(fmt.Sprintf("steward/attempts/%s.%d.late.json", id, n))["status"] != "completed" {
			t.Errorf("late result %d is not on record", n)
		}
	}
	if err := a.Progress(t.Context(), id, TaskProgress{Percent: 50, Step: "x"}, c.now); !errors.Is(err, ErrEnded) {
		t.Errorf("progress of what has ended: %v", err)
	}
}

func take(t *testing.T, me *Client, c *crew, mark string) Work {
	t.Helper()
	work, err := me.Open(t.Context(), codex, c.now)
	if err != nil || len(work) == 0 {
		t.Fatalf("open: %v, %v", work, err)
	}
	if err := me.Claim(t.Context(), work[0], Claim{Agent: codex, Worker: worker(1), Runner: worker(2), Mark: mark}, c.now); err != nil {
		t.Fatal(err)
	}
	return work[0]
}

// A real result replaces the result that steward wrote for a run it took for lost.
func TestResultOfARunTakenForLost(t *testing.T) {
	c := newCrew(t)
	id := c.submit(ask(NewTaskID()))
	me := c.client()
	take(t, me, c, "m")
	p := New(c.dir, Options{})
	defer p.Close()
	task, _ := find(c.look(), id)
	if err := p.Apply(t.Context(), protocol.Change{Verb: protocol.VerbConclude, Subject: protocol.Subject{Kind: protocol.KindTask, ID: id},
		Judged: protocol.Judged{Ref: task.Ref, Claim: task.Claim}, Entry: protocol.Entry{Code: "AGENT_LOST"}, Why: "silent"}, c.now); err != nil {
		t.Fatal(err)
	}
	if err := me.Finish(t.Context(), id, done("m"), c.now); err != nil {
		t.Fatal(err)
	}
	if r := c.file("codex_tasks/task_" + id + ".result.json"); r["status"] != "completed" {
		t.Errorf("result: %v", r)
	}
}

// Claims of dead workers become orphans when both processes are proved dead, and not before.
func TestOrphans(t *testing.T) {
	c := newCrew(t)
	id := c.submit(ask(NewTaskID()))
	me := c.client()
	take(t, me, c, "m")
	orphans := func() int {
		t.Helper()
		list, err := me.Orphans(t.Context(), codex, c.now)
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	c.gone.Store(worker(1), true)
	if n := orphans(); n != 0 {
		t.Errorf("%d orphans while the runner lives", n)
	}
	c.gone.Store(worker(2), true)
	list, err := me.Orphans(t.Context(), codex, c.now)
	if err != nil || len(list) != 1 || list[0].Task != id {
		t.Fatalf("orphans: %+v, %v", list, err)
	}
	if err := me.Conclude(t.Context(), list[0], "its worker is gone", c.now); err != nil {
		t.Fatal(err)
	}
	r := c.file("codex_tasks/task_" + id + ".result.json")
	if code := r["errors"].([]any)[0].(map[string]any)["code"]; r["source_agent"] != "steward" || code != "AGENT_LOST" {
		t.Errorf("result: %v", r)
	}
	if n := orphans(); n != 0 {
		t.Errorf("%d orphans after it was concluded", n)
	}
}

// A crash between the result and the removal of the claim leaves the claim behind; Orphans lists it and Forget
// removes it.
func TestLeftoverClaims(t *testing.T) {
	c := newCrew(t)
	id := c.submit(ask(NewTaskID()))
	me := c.client()
	take(t, me, c, "m")
	doc, _ := jsonfile.Encode(done(""))
	if err := os.WriteFile(filepath.Join(c.dir, Base, "codex_tasks/task_"+id+".result.json"), doc, 0o644); err != nil {
		t.Fatal(err)
	}
	c.gone.Store(worker(1), true)
	c.gone.Store(worker(2), true)
	list, err := me.Orphans(t.Context(), codex, c.now)
	if err != nil || len(list) != 1 || !list[0].Ended {
		t.Fatalf("orphans: %v, %v", list, err)
	}
	if err := me.Forget(t.Context(), list[0], c.now); err != nil {
		t.Fatal(err)
	}
	if _, err := me.p.claimOf(id); !errors.Is(err, ErrNoTask) {
		t.Errorf("the claim is still there: %v", err)
	}
}

func TestGivenBack(t *testing.T) {
	c := newCrew(t)
	id := c.submit(ask(NewTaskID()))
	me := c.client()
	take(t, me, c, "m")
	if err := me.Attach(t.Context(), id, worker(7), c.now); err != nil {
		t.Fatal(err)
	}
	if task, _ := find(c.look(), id); len(task.Workers) != 2 || task.Workers[1] != worker(7) {
		t.Errorf("workers: %+v", task.Workers)
	}
	if err := me.Unclaim(t.Context(), id, c.now); err != nil {
		t.Fatal(err)
	}
	if task, _ := find(c.look(), id); task.Named != "" || task.Outcome != nil || !task.Visible {
		t.Errorf("given back: %+v", task)
	}
	take(t, c.client(), c, "second")
}

// A retry archives the claim with the attempt's other files, and the next attempt has the next number.
func TestRetryEndsTheClaim(t *testing.T) {
	c := newCrew(t)
	id := c.submit(ask(NewTaskID()))
	me := c.client()
	take(t, me, c, "m")
	p := New(c.dir, Options{})
	defer p.Close()
	apply := func(ch protocol.Change) {
		t.Helper()
		ch.Subject = protocol.Subject{Kind: protocol.KindTask, ID: id}
		if err := p.Apply(t.Context(), ch, c.now); err != nil {
			t.Fatal(err)
		}
	}
	task, _ := find(c.look(), id)
	apply(protocol.Change{Verb: protocol.VerbConclude, Judged: protocol.Judged{Ref: task.Ref, Claim: task.Claim}, Entry: protocol.Entry{Code: "AGENT_LOST"}})
	task, _ = find(c.look(), id)
	apply(protocol.Change{Verb: protocol.VerbRetry, Judged: protocol.Judged{Ref: task.Outcome.Ref}, Entry: protocol.Entry{Action: protocol.ActionRetry, Attempt: 1}, Until: c.now, Hold: protocol.HoldRetry})
	work, err := c.client().Open(t.Context(), codex, c.now)
	if err != nil || len(work) != 1 || work[0].Attempt != 2 {
		t.Fatalf("open: %+v, %v", work, err)
	}
	if c.file("steward/attempts/" + id + ".1.claim.json")["mark"] != "m" {
		t.Error("the claim of the first attempt is not on record")
	}
	if err := me.Finish(t.Context(), id, done("m"), c.now); !errors.Is(err, ErrEnded) {
		t.Errorf("the lost run comes back after its retry: %v", err)
	}
}

// A task that comes after another task is created held, and stays blocked until that task is completed.
func TestAfter(t *testing.T) {
	c := newCrew(t)
	first := c.submit(ask(NewTaskID()))
	second := c.submit(ask(NewTaskID(), func(r *Request) { r.Coordination.After = []string{first} }))
	task, _ := find(c.look(), second)
	if task.Visible || task.Hold == nil || task.Hold.Reason != protocol.HoldBlocked || task.Hold.Half || task.Block == "" {
		t.Errorf("held: %+v", task)
	}
	if _, err := c.client().Submit(t.Context(), ask(NewTaskID(), func(r *Request) { r.Coordination.After = []string{"nobody"} }), c.now); !errors.Is(err, ErrNoTask) {
		t.Errorf("after a task that nobody knows: %v", err)
	}
	me := c.client()
	take(t, me, c, "m")
	if work, err := me.Open(t.Context(), codex, c.now); err != nil || len(work) != 0 {
		t.Errorf("open: %v, %v", work, err)
	}
	failed := Result{Status: "failed", Source: codex, Mark: "m", Errors: []TaskError{{Code: "EXECUTION_FAILED", Message: "no", Severity: "error"}}}
	if err := me.Finish(t.Context(), first, failed, c.now); err != nil {
		t.Fatal(err)
	}
	if task, _ = find(c.look(), second); !strings.Contains(task.Block, "ended failed") {
		t.Errorf("after a failure: %q", task.Block)
	}
	if err := os.Remove(filepath.Join(c.dir, Base, "codex_tasks/task_"+first+".result.json")); err != nil {
		t.Fatal(err)
	}
	if err := me.Finish(t.Context(), first, done(""), c.now); err != nil {
		t.Fatal(err)
	}
	if task, _ = find(c.look(), second); task.Block != "" {
		t.Errorf("after its completion: %q", task.Block)
	}
}

// Hostile and invalid requests are rejected with a list of all violations, and nothing is written.
func TestSubmitRefuses(t *testing.T) {
	c := newCrew(t)
	id := c.submit(ask(NewTaskID()))
	for name, r := range map[string]Request{
		"twice":   ask(id),
		"path":    ask("../../etc/passwd"),
		"no uuid": ask("task-1"),
		"type":    ask(NewTaskID(), func(r *Request) { r.Type = "destroy" }),
		"timeout": ask(NewTaskID(), func(r *Request) { r.Timeout = 3601 }),
		"no script": ask(NewTaskID(), func(r *Request) {
			r.Payload.Parameters = map[string]any{"args": 1}
		}),
		"relative": ask(NewTaskID(), func(r *Request) { r.Payload.Modify = []string{"x.go"} }),
		"huge":     ask(NewTaskID(), func(r *Request) { r.Context.Directive = strings.Repeat("x", maxRequest) }),
		"target":   ask(NewTaskID(), func(r *Request) { r.Target = "../x" }),
	} {
		_, err := c.client().Submit(t.Context(), r, c.now)
		var invalid *InvalidError
		if err == nil || !errors.As(err, &invalid) && !errors.Is(err, jsonfile.ErrExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	entries, _ := os.ReadDir(filepath.Join(c.dir, Base, "codex_tasks"))
	if len(entries) != 1 {
		t.Errorf("%d files lie there", len(entries))
	}
}

func TestCoordination(t *testing.T) {
	c := newCrew(t)
	a, b := c.submit(ask(NewTaskID())), c.submit(ask(NewTaskID()))
	me := c.client()
	for _, id := range []string{a, b} {
		if err := me.Follow(t.Context(), livhana, Followed{Task: id, Target: codex, Type: "execute", State: "pending", Since: c.now}, c.now); err != nil {
			t.Fatal(err)
		}
	}
	tasks := func() string {
		var ids []string
		for _, item := range c.file("livhana_status/active_coordination.json")["active_tasks"].([]any) {
			ids = append(ids, item.(map[string]any)["task_id"].(string))
		}
		return strings.Join(ids, " ")
	}
	if got := tasks(); got != a+" "+b {
		t.Errorf("two: %s", got)
	}
	if err := me.Finish(t.Context(), a, done(""), c.now); err != nil {
		t.Fatal(err)
	}
	if err := me.Unfollow(t.Context(), livhana, "another", c.now); err != nil || tasks() != b {
		t.Errorf("one has ended: %v, %s", err, tasks())
	}
}

func TestDetail(t *testing.T) {
	c := newCrew(t)
	me := c.client()
	id := c.submit(ask("11111111-1111-4111-8111-111111111111"))
	c.submit(ask("11111111-2222-4111-8111-111111111111"))
	state := func(name, want string) Detail {
		t.Helper()
		d, err := me.Task(t.Context(), name, c.now)
		if err != nil || d.State != want {
			t.Errorf("%s: %v, %+v", name, err, d)
		}
		return d
	}
	if d := state("11111111-11", StatePending); d.ID != id || d.Request == nil || d.Request.Payload.Parameters["script_path"] != "/bin/true" {
		t.Errorf("pending: %+v", d)
	}
	var many *AmbiguousError
	if _, err := me.Task(t.Context(), "1111", c.now); !errors.As(err, &many) || len(many.IDs) != 2 {
		t.Errorf("ambiguous: %v", err)
	}
	for _, name := range []string{"111", "nobody", "../x", ""} {
		if _, err := me.Task(t.Context(), name, c.now); !errors.Is(err, ErrNoTask) {
			t.Errorf("%q: %v", name, err)
		}
	}
	take(t, me, c, "m")
	if d := state(id, StateRunning); d.Claim == nil || d.Claim.Worker != worker(1) {
		t.Errorf("running: %+v", d.Claim)
	}
	if err := me.Cancel(t.Context(), id, "not any more", c.now); err != nil {
		t.Fatal(err)
	}
	if !me.Cancelled(id) || me.Cancelled("../x") {
		t.Error("cancelled")
	}
	if d := state(id, StateEnded); !d.Cancelled || d.Result == nil || d.Result.Errors[0].Code != "CANCELLED" || !d.Final {
		t.Errorf("cancelled: %+v", d)
	}
	if err := me.Cancel(t.Context(), id, "", c.now); !errors.Is(err, ErrEnded) {
		t.Errorf("twice: %v", err)
	}
	if err := me.Finish(t.Context(), id, done("m"), c.now); !errors.Is(err, ErrEnded) {
		t.Errorf("a result after the cancellation: %v", err)
	}
	if _, err := me.p.claimOf(id); !errors.Is(err, ErrNoTask) {
		t.Errorf("the claim stays after its run: %v", err)
	}
}

// A task that was given back or claimed again after it was judged is not concluded.
func TestConcludeMeansOneClaim(t *testing.T) {
	c := newCrew(t)
	id := c.submit(ask(NewTaskID()))
	me := c.client()
	take(t, me, c, "first")
	judged, _ := find(c.look(), id)
	if err := me.Unclaim(t.Context(), id, c.now); err != nil {
		t.Fatal(err)
	}
	p := New(c.dir, Options{})
	defer p.Close()
	conclude := func() error {
		return p.Apply(t.Context(), protocol.Change{Verb: protocol.VerbConclude, Subject: protocol.Subject{Kind: protocol.KindTask, ID: id},
			Judged: protocol.Judged{Ref: judged.Ref, Claim: judged.Claim}, Entry: protocol.Entry{Code: "AGENT_LOST"}}, c.now)
	}
	if err := conclude(); !errors.Is(err, protocol.ErrConflict) {
		t.Errorf("given back: %v", err)
	}
	take(t, c.client(), c, "second")
	if err := conclude(); !errors.Is(err, protocol.ErrConflict) {
		t.Errorf("in other hands: %v", err)
	}
	if !me.Holds(id, "second") || me.Holds(id, "first") {
		t.Error("who holds it")
	}
	if err := me.Finish(t.Context(), id, done(""), c.now); !errors.Is(err, ErrTaken) {
		t.Errorf("done by hand while a worker has it: %v", err)
	}
}

// A client drops what it has read of finished tasks.
func TestClientForgets(t *testing.T) {
	c := newCrew(t)
	me := c.client()
	for range 20 {
		c.submit(ask(NewTaskID()))
		w := take(t, me, c, "m")
		if err := me.Finish(t.Context(), w.TaskID, done("m"), c.now); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := me.Open(t.Context(), codex, c.now); err != nil || len(me.p.tasks.open) > 0 {
		t.Errorf("%v, %d tasks are kept", err, len(me.p.tasks.open))
	}
}
