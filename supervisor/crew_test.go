package supervisor_test

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
	"github.com/livhana/steward/supervisor/decide"
)

// world is what a real loop sees in a test: projects in memory, a ledger, a clock that synctest moves.
type world struct {
	t       *testing.T
	cfg     decide.Config
	ledger  *escalate.Incidents
	hints   chan supervisor.Hint
	exits   chan protocol.Identity
	folders map[string]*folder
	mode    map[string]protocol.Mode
	orders  *supervisor.Orders
	opened  atomic.Int32

	mu        sync.Mutex
	load      capacity.Load
	memory    decide.Memory
	processes map[protocol.Identity]heartbeat.ProcessState
	notes     []supervisor.Entry
	alerts    []rules.Alert
	outcomes  []rules.Outcome
	saves     int
	// door is called before each call that leaves a trace in the world; an error is the end of this steward.
	door func() error
}

func newWorld(t *testing.T, projects ...string) *world {
	t.Helper()
	ledger, _, err := escalate.Open(filepath.Join(t.TempDir(), "incidents"))
	if err != nil {
		t.Fatal(err)
	}
	quarter := protocol.Used(0.25)
	w := &world{t: t, cfg: settings(), ledger: ledger, hints: make(chan supervisor.Hint), exits: make(chan protocol.Identity),
		folders: map[string]*folder{}, mode: map[string]protocol.Mode{}, orders: &supervisor.Orders{}, processes: map[protocol.Identity]heartbeat.ProcessState{},
		load: capacity.Load{CPU: quarter, Memory: quarter, Files: quarter, Disk: quarter},
		door: func() error { return nil }}
	for _, name := range projects {
		w.folders[name], w.mode[name] = newFolder(), protocol.ModeAct
	}
	return w
}

func (w *world) project(name string) supervisor.Project {
	f := w.folders[name]
	return supervisor.Project{Name: name, Path: "/" + name, Detect: func() []string { return []string{"agentstatus"} },
		Open: func(_ string, mode protocol.Mode) (supervisor.Speaker, error) {
			w.opened.Add(1)
			return supervisor.Speaker{Adapter: f, Mode: cmp.Or(mode, w.mode[name]), Close: func() {}}, nil
		}}
}

func (w *world) projects() []supervisor.Project {
	var list []supervisor.Project
	for name := range w.folders {
		list = append(list, w.project(name))
	}
	return list
}

func (w *world) doors() supervisor.Deps {
	return supervisor.Deps{
		Measure: func(now time.Time) capacity.Load {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.load.At = now
			return w.load
		},
		Watch: func(string, string, []string) error { return nil },
		Hints: w.hints, Exits: w.exits,
		Inspect: func(int) (protocol.Identity, bool) { return protocol.Identity{}, false },
		Follow:  func(protocol.Identity) {},
		Check: func(id protocol.Identity) heartbeat.ProcessState {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.processes[id]
		},
		Tell: w.tell, Incidents: w.ledger.Heads, Orders: w.orders, Save: w.save,
		Note: func(e supervisor.Entry) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.notes = append(w.notes, e)
		},
	}
}

func (w *world) tell(a rules.Alert) error {
	if err := w.door(); err != nil {
		return err
	}
	_, out, err := w.ledger.Raise(a, time.Now())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.alerts, w.outcomes = append(w.alerts, a), append(w.outcomes, out)
	return err
}

func (w *world) save(m decide.Memory) error {
	if err := w.door(); err != nil {
		return err
	}
	var stored decide.Memory
	reread(w.t, m, &stored)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.memory, w.saves = stored, w.saves+1
	return nil
}

func (w *world) loop() *supervisor.Supervisor {
	w.mu.Lock()
	m := w.memory
	w.mu.Unlock()
	return supervisor.New(w.cfg, w.projects(), m, w.doors(), slog.New(slog.DiscardHandler), nil)
}

// start runs a loop until stop is called, which waits for its end.
func (w *world) start() (s *supervisor.Supervisor, stop func()) {
	s = w.loop()
	return s, w.run(s)
}

func (w *world) run(s *supervisor.Supervisor) (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("run: %v", err)
		}
	})
}

// at makes a change to a project's files and gives the hint.
func (w *world) at(project string, change func(*folder)) {
	f := w.folders[project]
	f.mu.Lock()
	change(f)
	f.mu.Unlock()
	w.hints <- supervisor.Hint{Project: project, Path: "tmp/file"}
	synctest.Wait()
}

func (w *world) read(project, id string) protocol.Task {
	f := w.folders[project]
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cards[id].read()
}

func (w *world) looks(project string) int {
	f := w.folders[project]
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.looks
}

func (w *world) fill(memory float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.load.Memory = protocol.Used(memory)
}

func agentOf(name string) *sim {
	return &sim{agent: protocol.Agent{Name: name, Status: "active", Recorded: "active", Ref: protocol.Ref{Path: "registry"}}, every: 15 * time.Second, next: time.Now()}
}

func request(id string) protocol.Task {
	return protocol.Task{Request: protocol.Request{ID: id, Agent: "codex", Priority: protocol.PriorityMedium, Timeout: 5 * time.Minute}}
}

func failure(code string) protocol.Outcome {
	return protocol.Outcome{Status: "failed", Agent: "codex", Failures: []protocol.Failure{{Code: code, Message: "it went wrong"}}}
}

func stateOf(s *supervisor.Supervisor, project string, kind protocol.Kind, id string) string {
	p := s.State()
	subject := protocol.Subject{Project: project, Protocol: "agentstatus", Kind: kind, ID: id}
	if kind == protocol.KindAgent {
		return string(p.Plan.Agents.Of(subject).State)
	}
	return string(p.Plan.Tasks.Of(subject).State)
}

// TestDeathByTheMillisecond: silence is judged when it is due, not at the next look.
func TestDeathByTheMillisecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "demo")
		a := agentOf("codex")
		w.folders["demo"].sims = []*sim{a}
		s, stop := w.start()
		defer stop()
		time.Sleep(32 * time.Second) // the last beat is at 30 s; it is seen at the look that follows
		w.at("demo", func(*folder) { a.silent = true })
		var died time.Time
		for range 200_000 {
			time.Sleep(time.Millisecond)
			synctest.Wait()
			if stateOf(s, "demo", protocol.KindAgent, "codex") == "dead" {
				died = time.Now()
				break
			}
		}
		v := s.State().Plan.Agents.Of(protocol.Subject{Project: "demo", Protocol: "agentstatus", Kind: protocol.KindAgent, ID: "codex"})
		if died.IsZero() || v.Silent < 90*time.Second || v.Silent > 90*time.Second+5*time.Millisecond {
			t.Fatalf("dead after %v of silence (%v)", v.Silent, died)
		}
		if len(w.alerts) != 1 || w.alerts[0].Kind != "agent_dead" {
			t.Fatalf("alerts: %+v", w.alerts)
		}
	})
}

// TestRequestIsHeldAtOnce: a hint is enough, no look need be due; and stopping releases it.
func TestRequestIsHeldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "demo")
		w.fill(0.95)
		w.folders["demo"].sims = []*sim{agentOf("codex")}
		_, stop := w.start()
		defer stop()
		time.Sleep(7 * time.Second)
		w.at("demo", func(f *folder) { f.submit(request("t1"), time.Now()) })
		if w.read("demo", "t1").Hold == nil {
			t.Fatal("not held")
		}
		time.Sleep(3 * time.Minute)
		if h := w.read("demo", "t1").Hold; h == nil || !h.ReleaseBy.After(time.Now()) {
			t.Fatalf("the lease was not renewed: %+v", h)
		}
		stop()
		if task := w.read("demo", "t1"); task.Hold != nil || !task.Visible {
			t.Fatalf("still held after the end: %+v", task)
		}
	})
}

func TestProcessExitIsProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "demo")
		a, id := agentOf("codex"), protocol.Identity{PID: 7, Start: 7, Boot: "b"}
		a.agent.Process, w.processes[id] = id, heartbeat.ProcessAlive
		w.folders["demo"].sims = []*sim{a}
		s, stop := w.start()
		defer stop()
		time.Sleep(11 * time.Second)
		w.exits <- id
		synctest.Wait()
		if got := stateOf(s, "demo", protocol.KindAgent, "codex"); got != "dead" {
			t.Fatalf("after its exit it is %s", got)
		}
	})
}

// TestOneHangsTheOtherGoesOn: a folder that never answers stops nobody else, is shown, and delays the end by seconds only.
func TestOneHangsTheOtherGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "good", "bad")
		forever := make(chan struct{})
		w.folders["bad"].beforeLook = func() { <-forever }
		w.folders["good"].sims = []*sim{agentOf("codex")}
		s, stop := w.start()
		time.Sleep(40 * time.Second)
		w.at("good", func(f *folder) {
			f.submit(request("t1"), time.Now())
			f.finish("t1", failure("GIT_CONFLICT"), time.Now())
		})
		if len(w.alerts) != 1 {
			t.Fatalf("alerts: %+v", w.alerts)
		}
		for _, d := range s.State().Projects {
			if (d.Problem != nil) != (d.Name == "bad") {
				t.Fatalf("%s: %+v", d.Name, d.Problem)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Do(ctx, supervisor.Command{Verb: "release"}); err != nil {
			t.Fatalf("release all: %v", err)
		}
		begin := time.Now()
		stop()
		if d := time.Since(begin); d > 5*time.Second {
			t.Fatalf("the end took %v", d)
		}
		close(forever) // so that the test leaves nothing behind
	})
}

// TestHangingCommandFreesItsCaller: the caller goes when its time is up; nothing blocks when the answer comes later.
func TestHangingCommandFreesItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "demo")
		w.fill(0.95)
		hang := make(chan struct{})
		w.folders["demo"].sims = []*sim{agentOf("codex")}
		s, stop := w.start()
		defer stop()
		time.Sleep(7 * time.Second)
		w.at("demo", func(f *folder) { f.submit(request("t1"), time.Now()) })
		w.folders["demo"].mu.Lock()
		w.folders["demo"].beforeChange = func(protocol.Change) error { <-hang; return nil }
		w.folders["demo"].mu.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		err := s.Do(ctx, supervisor.Command{Verb: "release", Subject: protocol.ParseQuery("t1")})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("want the deadline, got %v", err)
		}
		close(hang)
		time.Sleep(time.Second)
		if w.read("demo", "t1").Hold != nil {
			t.Fatal("the change was dropped")
		}
	})
}

// TestPanicIsAFault: a defect in an adapter is shown, and the project comes back.
func TestPanicIsAFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "demo")
		f := w.folders["demo"]
		var broken atomic.Bool
		broken.Store(true)
		f.beforeLook = func() {
			if broken.Load() {
				panic("defect")
			}
		}
		f.sims = []*sim{agentOf("codex")}
		s, stop := w.start()
		defer stop()
		time.Sleep(time.Second)
		if p := s.State().Projects[0].Problem; p == nil {
			t.Fatal("no fault")
		}
		looks := s.State().Looks
		time.Sleep(20 * time.Second)
		if n := s.State().Looks - looks; n > 6 {
			t.Fatalf("%d looks in 20 s: it spins", n)
		}
		if w.opened.Load() < 2 {
			t.Fatal("an adapter that panicked is not opened anew")
		}
		broken.Store(false)
		time.Sleep(12 * time.Second)
		if p := s.State().Projects[0]; p.Problem != nil || stateOf(s, "demo", protocol.KindAgent, "codex") != "alive" {
			t.Fatalf("it did not come back: %+v", p)
		}
	})
}

// TestRefusedChangesDoNotSpin: a read-only folder, or files that never stay as they were judged.
func TestRefusedChangesDoNotSpin(t *testing.T) {
	for name, refusal := range map[string]error{"read-only": errors.New("permission denied"), "conflicts": protocol.ErrConflict} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "demo")
				f := w.folders["demo"]
				f.sims = []*sim{agentOf("codex")}
				var tried atomic.Int32
				f.beforeChange = func(c protocol.Change) error {
					if c.Subject.ID == "t1" {
						tried.Add(1)
						return refusal
					}
					return nil
				}
				_, stop := w.start()
				defer stop()
				time.Sleep(7 * time.Second)
				w.at("demo", func(f *folder) {
					f.submit(request("t1"), time.Now())
					f.finish("t1", failure("FILE_NOT_FOUND"), time.Now())
				})
				time.Sleep(5 * time.Minute)
				if n := tried.Load(); n < 3 || n > 40 {
					t.Fatalf("tried %d times in 5 minutes", n)
				}
				w.at("demo", func(f *folder) {
					f.submit(request("t2"), time.Now())
					f.finish("t2", failure("FILE_NOT_FOUND"), time.Now())
				})
				if len(w.read("demo", "t2").Attempts) != 1 {
					t.Fatal("one bad file stops the others of its project")
				}
				spent := w.memory.Projects["demo"].Retries
				if len(spent) > 2 {
					t.Fatalf("a refused retry is paid for again and again: %v", spent)
				}
			})
		})
	}
}

// TestChangeThatDoesNotLastDoesNotSpin: somebody undoes every change at once.
func TestChangeThatDoesNotLastDoesNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "demo")
		f := w.folders["demo"]
		a := agentOf("codex")
		a.agent.Recorded = "unknown"
		f.sims = []*sim{a}
		var marked atomic.Int32
		f.beforeChange = func(protocol.Change) error { marked.Add(1); return nil }
		f.beforeLook = func() { f.mu.Lock(); a.agent.Recorded = "unknown"; f.mu.Unlock() }
		_, stop := w.start()
		defer stop()
		time.Sleep(time.Minute)
		if n := marked.Load(); n < 3 || n > 12 {
			t.Fatalf("marked %d times in a minute", n)
		}
	})
}

func TestAdapterThatAlwaysWantsToLookAgainDoesNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "demo")
		w.folders["demo"].again = time.Unix(1, 0)
		_, stop := w.start()
		defer stop()
		time.Sleep(10 * time.Second)
		if n := w.looks("demo"); n > 500 {
			t.Fatalf("%d looks in 10 s", n)
		}
	})
}

func TestIdleLoopIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "demo")
		w.folders["demo"].sims = []*sim{agentOf("codex")}
		_, stop := w.start()
		defer stop()
		time.Sleep(10 * time.Minute)
		if n := w.looks("demo"); n < 110 || n > 130 {
			t.Fatalf("%d looks in 10 minutes", n)
		}
		if w.saves > 25 {
			t.Fatalf("the memory was stored %d times", w.saves)
		}
	})
}

// TestStandstillIsNoSilence: a loop that stood still (a swap storm, a machine asleep) blames nobody for it.
func TestStandstillIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "demo")
		a := agentOf("codex")
		w.folders["demo"].sims = []*sim{a}
		doors := w.doors()
		measure := doors.Measure
		var still atomic.Bool
		doors.Measure = func(now time.Time) capacity.Load {
			if still.CompareAndSwap(true, false) {
				time.Sleep(10 * time.Minute)
			}
			return measure(now)
		}
		s := supervisor.New(w.cfg, w.projects(), decide.Memory{}, doors, slog.New(slog.DiscardHandler), nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		defer func() { cancel(); <-done }()
		time.Sleep(17 * time.Second)
		synctest.Wait()
		w.at("demo", func(*folder) { a.silent = true })
		still.Store(true)
		time.Sleep(10*time.Minute + 20*time.Second)
		synctest.Wait()
		if got := stateOf(s, "demo", protocol.KindAgent, "codex"); got != "alive" && got != "late" {
			t.Fatalf("after the standstill it is %s", got)
		}
		if s.State().Plan.Memory.ResumeUntil.IsZero() {
			t.Fatal("the standstill was not noticed")
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := stateOf(s, "demo", protocol.KindAgent, "codex"); got != "dead" {
			t.Fatalf("long after it, still silent, it is %s", got)
		}
	})
}

// TestReportOfAFormerProject: what the scanner of a folder that is gone says late is not taken for the new folder's.
func TestReportOfAFormerProject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "demo")
		hang := make(chan struct{})
		old := w.folders["demo"]
		old.sims = []*sim{agentOf("ghost")}
		old.beforeLook = func() { <-hang }
		s, stop := w.start()
		defer stop()
		time.Sleep(time.Second)
		w.folders["demo"] = newFolder()
		w.folders["demo"].sims = []*sim{agentOf("codex")}
		moved := w.project("demo")
		moved.Path = "/elsewhere"
		if err := s.Reload(t.Context(), w.cfg, []supervisor.Project{moved}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(7 * time.Second)
		close(hang)
		time.Sleep(7 * time.Second)
		if stateOf(s, "demo", protocol.KindAgent, "ghost") != "" || stateOf(s, "demo", protocol.KindAgent, "codex") != "alive" {
			t.Fatalf("agents: %v", s.State().Plan.Agents)
		}
	})
}

// TestNothingIsChangedThatCannotBeRemembered: memory first, then the files.
func TestNothingIsChangedThatCannotBeRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "demo")
		full := errors.New("disk full")
		w.folders["demo"].sims = []*sim{agentOf("codex")}
		doors := w.doors()
		doors.Save = func(decide.Memory) error { return full }
		s := supervisor.New(w.cfg, w.projects(), decide.Memory{}, doors, slog.New(slog.DiscardHandler), nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		defer func() { cancel(); <-done }()
		time.Sleep(7 * time.Second)
		w.at("demo", func(f *folder) {
			f.submit(request("t1"), time.Now())
			f.finish("t1", failure("FILE_NOT_FOUND"), time.Now())
		})
		time.Sleep(time.Minute)
		if n := len(w.folders["demo"].applied); n != 0 {
			t.Fatalf("%d changes were made", n)
		}
	})
}
