package worker

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/livhana/steward/join/run"
	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/protocol/jsonfile"
)

// TestMain lets the test binary replace steward's hidden command.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "run-task" {
		if err := run.Shim(os.Stdin, os.Stdout, time.Now); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const agent = "codex-cursor"

// patience allows for a loaded machine; no test waits that long to pass.
const patience = 60 * time.Second

// site is a project with its own client besides the worker's.
type site struct {
	t      *testing.T
	dir    string
	client *agentstatus.Client
	said   *lines
}

// lines collects the worker's messages.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) add(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, text)
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.all, "\n")
}

func newSite(t *testing.T) *site {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return siteAt(t, dir)
}

func siteAt(t *testing.T, dir string) *site {
	t.Helper()
	s := &site{t: t, dir: dir, said: &lines{}}
	s.client = s.connect()
	t.Cleanup(s.client.Close)
	if err := s.client.Enroll(t.Context(), agentstatus.Registration{Agent: "livhana-layer1.1", Shared: true, Lay: true}, time.Now()); err != nil {
		t.Fatal(err)
	}
	return s
}

// connect creates a client as the program does.
func (s *site) connect() *agentstatus.Client {
	guard := func(ctx context.Context, _ *jsonfile.Root) (func(), error) {
		lock, err := platform.LockQueue(ctx, filepath.Join(agentstatus.OwnDir(s.dir), "guard.lock"), 0o600)
		if err != nil {
			return nil, err
		}
		return func() { _ = lock.Unlock() }, nil
	}
	alive := func(id protocol.Identity) bool { return proc.Check(proc.Identity(id)) != proc.Gone }
	return agentstatus.Connect(s.dir, agentstatus.ClientOptions{Guard: guard, Alive: alive})
}

func (s *site) write(name, text string, mode os.FileMode) string {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		s.t.Fatal(err)
	}
	return path
}

func (s *site) read(name string) string {
	data, _ := os.ReadFile(filepath.Join(s.dir, name))
	return string(data)
}

// script writes a shell script to the project.
func (s *site) script(name, body string) string { return s.write(name, "#!/bin/sh\n"+body+"\n", 0o755) }

// request returns a request with the given parameters; edits change it.
func request(kind string, parameters map[string]any, edits ...func(*agentstatus.Request)) agentstatus.Request {
	r := agentstatus.Request{TaskID: agentstatus.NewTaskID(), Type: kind, Priority: "medium", Source: "livhana-layer1.1", Target: agent,
		Created: time.Now(), Timeout: 300, Context: agentstatus.RequestContext{Directive: "do it", Session: agentstatus.NewTaskID(), Related: []string{}},
		Payload: agentstatus.RequestPayload{TaskType: kind, Parameters: parameters, Modify: []string{}, Read: []string{}, Artifacts: []string{}}}
	for _, edit := range edits {
		edit(&r)
	}
	return r
}

// submit writes a request to the project as any orchestrator would, valid or not.
func (s *site) submit(r agentstatus.Request) string {
	s.t.Helper()
	if _, err := s.client.Submit(s.t.Context(), r, time.Now()); err != nil {
		s.t.Fatal(err)
	}
	return r.TaskID
}

// raw writes a request document to the project that Submit would refuse.
func (s *site) raw(id, doc string) string {
	return s.write("tmp/agent_status/codex_tasks/task_"+id+".request.json", doc, 0o644)
}

func (s *site) options(edits ...func(*Options)) Options {
	s.t.Helper()
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	me, err := proc.Inspect(os.Getpid())
	if err != nil {
		s.t.Fatal(err)
	}
	o := Options{Settings: Settings{Poll: 50 * time.Millisecond, Beat: time.Second, Stop: 500 * time.Millisecond, Output: 64 << 10,
		Environment: []string{"PATH", "HOME"}, Timeout: 300 * time.Second, MaxTimeout: time.Hour},
		Project: s.dir, Agent: agent, Process: protocol.Identity(me), Program: self, Environ: os.Environ(), Temp: os.TempDir(), Jobs: 1, Drain: true,
		Gate:       func(context.Context, string, *float64) (bool, string, time.Duration) { return true, "", 0 },
		Supervised: func() bool { return true },
		Now:        time.Now, Say: s.said.add}
	for _, edit := range edits {
		edit(&o)
	}
	return o
}

// drain runs a worker until no task is left.
func (s *site) drain(edits ...func(*Options)) Tally {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	o := s.options(edits...)
	o.Client = s.connect()
	defer o.Client.Close()
	tally, err := New(o).Run(ctx)
	if err != nil || ctx.Err() != nil {
		s.t.Fatalf("worker: %v, %v; it said:\n%s", err, ctx.Err(), s.said.text())
	}
	return tally
}

// background runs a worker until stop is called.
func (s *site) background(edits ...func(*Options)) (stop func() Tally) {
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan Tally, 1)
	o := s.options(edits...)
	o.Drain = false
	o.Client = s.connect()
	go func() {
		defer o.Client.Close()
		tally, err := New(o).Run(ctx)
		if err != nil {
			s.t.Errorf("worker: %v", err)
		}
		done <- tally
	}()
	var once sync.Once
	var tally Tally
	stop = func() Tally {
		once.Do(func() { cancel(); tally = <-done })
		return tally
	}
	s.t.Cleanup(func() { stop() })
	return stop
}

// detail reads the task's detail from its files.
func (s *site) detail(id string) agentstatus.Detail {
	s.t.Helper()
	d, err := s.client.Task(s.t.Context(), id, time.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

// result returns the task's result, which must exist.
func (s *site) result(id string) agentstatus.Result {
	s.t.Helper()
	d := s.detail(id)
	if d.Result == nil {
		s.t.Fatalf("task %s has no result, it is %s; the worker said:\n%s", id, d.State, s.said.text())
	}
	return *d.Result
}

// run submits one request, runs it, and returns the result.
func (s *site) run(r agentstatus.Request, edits ...func(*Options)) agentstatus.Result {
	s.t.Helper()
	id := s.submit(r)
	s.drain(edits...)
	return s.result(id)
}

// await polls until ok, or fails.
func (s *site) await(what string, ok func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("waited in vain: %s; the worker said:\n%s", what, s.said.text())
		}
	}
}

func execute(script string, args ...string) map[string]any {
	list := make([]any, len(args))
	for i, arg := range args {
		list[i] = arg
	}
	return map[string]any{"script_path": script, "args": list}
}

// theError returns the only error of a result.
func theError(t *testing.T, r agentstatus.Result, status, code string) agentstatus.TaskError {
	t.Helper()
	if r.Status != status || len(r.Errors) != 1 || r.Errors[0].Code != code || r.Body.Success {
		t.Fatalf("got %s %+v, want %s %s", r.Status, r.Errors, status, code)
	}
	return r.Errors[0]
}

// number returns a metric as its reader sees it.
func number(v any) (float64, bool) {
	switch n := v.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}
